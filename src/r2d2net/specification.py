"""Priors, likelihoods and algorithms as plain JSON, and back: how a saved run says what it is without pickles."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from r2d2net import inference, likelihoods, priors
from r2d2net.errors import CheckpointError
from r2d2net.model import AnyPrior, BayesianModel

Specification = dict[str, Any]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What a file that came over whole lacks, or has in another form, as one line that names the file."""
    try:
        yield
    except KeyError as error:
        raise CheckpointError(f"{path} lacks {error.args[0]!r}, which a saved run has: fit again") from error
    except (TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is no saved run of this version of r2d2net ({error}): fit again") from error


def describe(thing: Any) -> Specification:
    """A prior, likelihood or algorithm as its class name and its arguments.

    >>> describe(priors.Gaussian(0.5))
    {'type': 'Gaussian', 'arguments': {'scale': 0.5}}
    """
    is_settings = dataclasses.is_dataclass(thing) and not isinstance(thing, type)
    arguments = dataclasses.asdict(thing) if is_settings else thing.hyperparameters()
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}
    return {"type": type(thing).__name__, "arguments": plain}


def prior_from(specification: Specification) -> AnyPrior:
    """The prior that `describe` described."""
    arguments = dict(specification["arguments"])
    total = arguments.pop("total", None)
    prior = _build(priors, specification["type"], arguments)
    if total is not None:
        prior.total = total
    return prior


def likelihood_from(specification: Specification) -> likelihoods.Likelihood:
    """The likelihood that `describe` described."""
    return _build(likelihoods, specification["type"], specification["arguments"])


def method_from(specification: Specification) -> inference.Method:
    """The algorithm that `describe` described."""
    return _build(inference, specification["type"], specification["arguments"])


def describe_model(model: BayesianModel) -> Specification:
    """Parameter names, shapes and priors, and the likelihood."""
    parameters = {
        slot.name: {"shape": list(slot.shape), "prior": None if slot.prior is None else describe(slot.prior)}
        for slot in (*model.bayesian, *model.fixed)
    }
    described = {"parameters": parameters, "likelihood": describe(model.likelihood)}
    return {**described, "frozen": list(model.frozen)} if model.frozen else described


def model_from(net: Any, specification: Specification) -> BayesianModel:
    """The model around a network of the same architecture; anything that differs is one clear error."""
    expected = {name: tuple(entry["shape"]) for name, entry in specification["parameters"].items()}
    frozen = specification.get("frozen", [])  # their shapes are those of saved tensors
    found = {name: tuple(parameter.shape) for name, parameter in net.named_parameters() if name not in frozen}
    missing = sorted(set(frozen) - {name for name, _ in net.named_parameters()})
    if missing:
        raise CheckpointError(f"net does not fit the saved run: it has no parameter {missing[0]!r}, frozen there")
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise CheckpointError(
                f"net does not fit the saved run at parameter {name!r}: saved {expected.get(name, 'nothing')}, "
                f"net has {found.get(name, 'nothing')}"
            )
    assigned = {
        name: None if entry["prior"] is None else prior_from(entry["prior"])
        for name, entry in specification["parameters"].items()
    }
    escaped = {_escaped(name): prior for name, prior in assigned.items()}
    likelihood = likelihood_from(specification["likelihood"])
    model = BayesianModel(net, escaped, likelihood, frozen=[_escaped(name) for name in frozen])
    if [slot.name for slot in (*model.bayesian, *model.fixed)] != list(expected):
        raise CheckpointError(f"net does not fit the saved run: its parameters are not in the order {list(expected)}")
    return model


def _escaped(name: str) -> str:
    """A pattern that matches this name alone."""
    return re.sub(r"([*?[])", r"[\1]", name)


def _build(module: Any, name: str, arguments: dict[str, Any]) -> Any:
    if name not in module.__all__ or name == "ALGORITHMS":
        raise CheckpointError(f"the saved run names {name!r}, which {module.__name__} does not have")
    try:
        return getattr(module, name)(**arguments)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the saved run's {name} is not that of this version of r2d2net: {error}") from error


def network_text(model: BayesianModel) -> str:
    """How the network prints, without addresses in memory: it tells ReLU from Tanh, which parameters do not."""
    return re.sub(r"0x[0-9a-f]+", "0x", repr(model.net))


def require_same_network(model: BayesianModel, saved: str, where: object) -> None:
    """Refuse a posterior of a network that prints differently: parameters may fit where activations do not."""
    here = network_text(model)
    pairs = zip_longest(saved.splitlines(), here.splitlines(), fillvalue="nothing")
    for theirs, ours in pairs:
        if theirs != ours:
            what = f"{theirs.strip()} there, {ours.strip()} here"
            raise CheckpointError(f"{where} was saved for another network ({what}): give the one it was fitted with")
