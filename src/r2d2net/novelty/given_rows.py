"""The rows that a detector is given, of a posterior or of an estimator, and which of them it may use.

training rows     for densities; at most `MOST_TRAINING`
held-back rows    among which new rows are ranked; at most `MOST_HELD`, and not rows that the fit has seen
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, Value, is_number, require
from r2d2net.network_inputs import as_tensors
from r2d2net.posterior import Posterior

MOST_TRAINING, MOST_HELD = 10_000, 10_000


class Estimator(Protocol):
    """A fitted estimator: its posterior, and how rows of a table become the inputs of the network."""

    @property
    def posterior_(self) -> Posterior[Any]: ...

    def encode(self, X: Any) -> Any: ...


def split_rows(given: Posterior[Any] | Estimator, x_train: Any, holdout: Any, seed: int) -> tuple[Any, Any]:
    """Return the training rows and the held-back rows to use.

    Args:
        given: The posterior or estimator.
        x_train: The training rows.
        holdout: The held-back rows, or the share of ``x_train`` to hold back.
        seed: Seed of the choice of rows.

    Returns:
        Both in the user's units, each a tensor or a tuple of tensors.

    Raises:
        DataError: If the rows are no inputs of the network, too few, or most held-back rows are training rows.
        ParameterError: If the share is none.
    """
    train = inputs_of(given, x_train, "x_train")
    if is_number(holdout):
        require(0 < holdout < 1, "holdout", holdout, "use rows that the fit has not seen, or a share between 0 and 1")
        order = _order(count(train), seed)
        cut = round(float(holdout) * len(order))
        train, held = take(train, order[cut:]), take(train, order[:cut])
    else:
        held = inputs_of(given, holdout, "holdout")
        _require_unseen(train, held)
    if count(train) < 2:
        raise DataError(f"has {count(train)} rows for densities", argument="x_train", fix="give two or more")
    most = ((train, MOST_TRAINING), (held, MOST_HELD))
    train, held = (take(rows, _order(count(rows), seed)[:limit]) for rows, limit in most)
    return train, held


def posterior_of(given: Any) -> Posterior[Any]:
    """Return the posterior of an estimator, or a posterior itself.

    Args:
        given: The one or the other.

    Returns:
        The posterior.

    Raises:
        ParameterError: If it is neither, or the posterior of a network that reads a graph.
    """
    posterior = given.posterior_ if not isinstance(given, Posterior) and hasattr(given, "posterior_") else given
    if not isinstance(posterior, Posterior):
        fix = "give what fit returned, or a fitted estimator"
        raise ParameterError(("is a ", Value(type(given))), argument="posterior", fix=fix)
    if posterior.model.context is not None:
        problem = "is of a network that reads a graph, whose rows are not separate"
        raise ParameterError(problem, argument="posterior", fix="use one of rows")
    return posterior


def inputs_of(given: Posterior[Any] | Estimator, x: Any, argument: str) -> Any:
    """Convert rows to inputs of the network in the user's units.

    Args:
        given: The posterior or estimator.
        x: The rows.
        argument: Name of the argument that holds them, for errors.

    Returns:
        A tensor or a tuple of tensors.

    Raises:
        DataError: If they are no numbers, or none.
    """
    with about(argument):
        rows = x if isinstance(given, Posterior) else given.encode(x)
        tensors = as_tensors(rows, posterior_of(given).model.inputs)
    if count(tensors) == 0:
        raise DataError("has 0 rows", argument=argument, fix="give at least one")
    return tensors


@contextmanager
def about(argument: str) -> Iterator[None]:
    """Let errors about rows name the argument that holds them.

    Args:
        argument: Its name.

    Yields:
        Nothing.
    """
    try:
        yield
    except DataError as error:
        error.rename({"x": argument, "X": argument})
        raise


def count(inputs: Any) -> int:
    """Return the number of rows of a tensor or a tuple of tensors."""
    first = inputs[0] if isinstance(inputs, tuple) else inputs
    return len(first) if first.dim() else 0


def _order(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def take(inputs: Any, places: Tensor) -> Any:
    """Return some rows of a tensor or a tuple of tensors."""
    if isinstance(inputs, tuple):
        return tuple(part[places.to(part.device)] for part in inputs)
    return inputs[places.to(inputs.device)]


def _require_unseen(train: Any, held: Any) -> None:
    """Refuse held-back rows of which most are training rows; rows that x_train has more than once do not count."""
    counts = Counter(_digests(train))
    repeated = sum(counts[row] == 1 for row in _digests(held))
    if 2 * repeated > count(held):
        problem = f"holds {repeated} rows of x_train among its {count(held)}, where alarms would be too many"
        raise DataError(problem, argument="holdout", fix="give rows that the fit has not seen")


def _digests(inputs: Any) -> list[bytes]:
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    arrays = [part.detach().reshape(len(part), -1).cpu().numpy() for part in parts]
    return [_digest(*rows) for rows in zip(*arrays, strict=True)]


def _digest(*arrays: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(array.tobytes())
    return digest.digest()
