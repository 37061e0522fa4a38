"""Weights of training rows: checked, as rows that stand for them, and taken out of a finished run again.

The same for targets some of which are missing, but that nothing need be checked.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, Shown, Value
from r2d2net.inference import DrawSource, Method
from r2d2net.likelihoods.masked import Masked
from r2d2net.likelihoods.weighted import Weighted
from r2d2net.registry import ALGORITHMS


def row_weights(weights: Any, rows: int, device: torch.device) -> Tensor:
    """Check weights of rows.

    Args:
        weights: The weights.
        rows: Number of rows.
        device: Where they are needed.

    Returns:
        The weights, (rows,), float64.

    Raises:
        DataError: They are not a positive number for each row.
    """
    try:
        found = torch.as_tensor(weights, dtype=torch.float64).detach().to(device)
    except (TypeError, ValueError, RuntimeError) as error:
        fix = "give a positive number for each row"
        raise DataError(("of type ", Value(type(weights)), " are no numbers"), argument="weights", fix=fix) from error
    if found.shape != (rows,):
        problem = ("has shape ", Value(tuple(found.shape)), f", and there are {rows} rows")
        raise DataError(problem, argument="weights", fix="give one for each row")
    bad = ~(torch.isfinite(found) & (found > 0))
    if bool(bad.any()):
        fix = "give positive numbers, and leave out rows that do not count"
        raise DataError(("holds ", Value(float(found[bad][0]))), argument="weights", fix=fix)
    return found


def require_weighing(method: Method) -> None:
    """Refuse an algorithm that takes no weights of rows.

    Args:
        method: The algorithm.

    Raises:
        ParameterError: It takes none; the error names those that do.
    """
    if method.takes_weights:
        return
    others = [kind.__name__ for name in ALGORITHMS if (kind := ALGORITHMS.constructor(name)).takes_weights]
    name = Shown(type(method).__name__)
    raise ParameterError("takes no weights of rows", argument="algorithm", value=name, fix=f"use {', '.join(others)}")


def require_missing(method: Method) -> None:
    """Refuse an algorithm that needs all targets, where some are NaN.

    Args:
        method: The algorithm.

    Raises:
        ParameterError: It needs them all.
    """
    if not method.takes_missing:
        name = Shown(type(method).__name__)
        problem = "needs all targets, and y holds NaN"
        raise ParameterError(problem, argument="algorithm", value=name, fix="use SVGI or MCLMC")


def in_proportion(weights: Tensor, count: int) -> Tensor:
    """Choose rows in proportion to their weights, at equal steps through their sum.

    Args:
        weights: Weights of the rows.
        count: How many to choose.

    Returns:
        Numbers of the rows, in ascending order, those of much weight several times.

    >>> in_proportion(torch.tensor([1.0, 3.0]), 4).tolist()
    [0, 1, 1, 1]
    """
    ends = weights.double().cumsum(0)
    steps = (torch.arange(count, dtype=torch.float64, device=weights.device) + 0.5) / count * ends[-1]
    return torch.searchsorted(ends, steps).clamp(max=len(weights) - 1)


def with_own_likelihood(source: DrawSource[Any]) -> DrawSource[Any]:
    """Return a source with the model's own likelihood, where that of the run had weights of rows, or missing targets.

    Args:
        source: What the networks are drawn from.
    """
    likelihood = source.model.likelihood
    if not isinstance(likelihood, (Weighted, Masked)):
        return source
    plain = copy.copy(source)
    plain.model = source.model.with_likelihood(likelihood.own)
    return plain
