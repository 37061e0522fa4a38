"""Priors, likelihoods and algorithms as plain JSON, and back: how a saved run says what it is without pickles.

A file names a class and its arguments. Only two kinds of classes are ever called: those of `r2d2net.registry`, and
those that the caller of `load` hands over in ``classes``. Nothing is imported because a file says so. A class from
outside the package is marked as such in the file, so that one with the name of a built-in class is not taken for it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from r2d2net.errors import (
    Argument,
    CheckpointError,
    DataError,
    DivergenceError,
    ParameterError,
    R2D2NetError,
    Shown,
    Value,
)
from r2d2net.inference.base import Method
from r2d2net.likelihoods.base import Likelihood
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.network_calls import Output, unwrapped
from r2d2net.priors.base import ScaleMixturePrior
from r2d2net.registry import ALGORITHMS, LIKELIHOODS, PRIORS, Registry

Specification = dict[str, Any]
Classes = Sequence[type]  # that the caller of `load` hands over
CONTRACTS: dict[type, Registry] = {ScaleMixturePrior: PRIORS, Likelihood: LIKELIHOODS, Method: ALGORITHMS}
OUTSIDE = "outside r2d2net"  # the origin of a class that is not built in


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert missing or malformed entries of a file to a `CheckpointError` of one line that names the file."""
    try:
        yield
    except (CheckpointError, DataError, DivergenceError):
        raise
    except KeyError as error:
        raise CheckpointError(
            f"lacks {error.args[0]!r:.80}, which a saved run has", value=path, fix="fit again"
        ) from error
    except (TypeError, AttributeError, ValueError, LookupError, RuntimeError, ArithmeticError, R2D2NetError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        problem = f"is no saved run of this version of r2d2net ({reason})"
        raise CheckpointError(problem, value=path, fix="fit again") from error


def describe(thing: Any) -> Specification:
    """Describe a prior, likelihood or algorithm by the name of its class and its arguments.

    Args:
        thing: A frozen dataclass, or an object with a method ``hyperparameters()``.

    Returns:
        A dict that JSON can hold.

    Raises:
        ParameterError: The arguments cannot be told, or JSON cannot hold one of them.

    >>> from r2d2net.priors import Gaussian
    >>> describe(Gaussian(0.5))
    {'type': 'Gaussian', 'arguments': {'scale': 0.5}}
    """
    cls = type(thing)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        arguments = dataclasses.asdict(thing)
    elif callable(getattr(thing, "hyperparameters", None)):
        arguments = thing.hyperparameters()
    else:
        raise ParameterError("cannot say what its arguments are", value=cls, fix="make it a frozen dataclass")
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}
    for name, value in plain.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            problem = (f"of {cls.__name__} is a ", Value(type(value)), ", which JSON cannot hold")
            raise ParameterError(problem, argument=name, fix="use numbers, texts or lists of them") from error
    is_builtin = any(registry.holds(cls) for contract, registry in CONTRACTS.items() if issubclass(cls, contract))
    origin = {} if is_builtin else {"origin": OUTSIDE}
    return {"type": cls.__name__, **origin, "arguments": plain}


def prior_from(specification: Specification, classes: Classes = ()) -> AnyPrior:
    """Build the prior that `describe` described; ``classes`` may hold its class."""
    prior: AnyPrior = _build(ScaleMixturePrior, specification, classes)
    return prior


def likelihood_from(specification: Specification, classes: Classes = ()) -> Likelihood[Any]:
    """Build the likelihood that `describe` described; ``classes`` may hold its class."""
    likelihood: Likelihood[Any] = _build(Likelihood, specification, classes)
    return likelihood


def method_from(specification: Specification, classes: Classes = ()) -> Method:
    """Build the algorithm that `describe` described; ``classes`` may hold its class."""
    method: Method = _build(Method, specification, classes)
    return method


def describe_model(model: BayesianModel[Any]) -> Specification:
    """Describe names, shapes and priors of the parameters, the likelihood, and by a fingerprint what is frozen."""
    parameters = {
        slot.name: {"shape": list(slot.shape), "prior": None if slot.prior is None else describe(slot.prior)}
        for slot in (*model.bayesian, *model.fixed)
    }
    described: Specification = {"parameters": parameters, "likelihood": describe(model.likelihood)}
    if model.context is not None:
        described["context"] = model.context.digest()
    if model.inputs is not None:
        described["inputs"] = list(model.inputs)
    if model.output is not None:
        described["output"] = {"function": model.output.__name__} if callable(model.output) else model.output
    if not model.frozen:
        return described
    return {**described, "frozen": list(model.frozen), "fingerprint": model.frozen_parts.fingerprint()}


def model_from(
    net: Any, specification: Specification, classes: Classes = (), output: Output = None
) -> BayesianModel[Any]:
    """Build the model around a network of the same architecture; a difference is a `CheckpointError` of one line."""
    net, picked = unwrapped(net), specification.get("output")
    if isinstance(picked, dict) and output is None:
        picks = ("the saved run picks the network's output by the function ", Value(Shown(str(picked["function"]))))
        raise CheckpointError(picks, fix="hand it over, load(..., output=it)")
    expected = {name: tuple(entry["shape"]) for name, entry in specification["parameters"].items()}
    frozen = specification.get("frozen", [])  # their shapes are those of saved tensors
    shapes = {name: tuple(parameter.shape) for name, parameter in net.named_parameters() if name not in frozen}
    missing = sorted(set(frozen) - {name for name, _ in net.named_parameters()})
    if missing:
        problem = f"does not fit the saved run: it has no parameter {missing[0]!r}, frozen there"
        raise CheckpointError(problem, argument="net")
    for name in sorted(expected.keys() | shapes.keys()):
        if expected.get(name) != shapes.get(name):
            raise CheckpointError(
                f"does not fit the saved run at parameter {name!r}: saved {expected.get(name, 'nothing')}, "
                f"net has {shapes.get(name, 'nothing')}",
                argument="net",
            )
    assigned = {
        name: None if entry["prior"] is None else prior_from(entry["prior"], classes)
        for name, entry in specification["parameters"].items()
    }
    escaped = {_escaped(name): prior for name, prior in assigned.items()}
    likelihood = likelihood_from(specification["likelihood"], classes)
    calls: dict[str, Any] = {"inputs": specification.get("inputs"), "output": picked if output is None else output}
    model = BayesianModel(net, escaped, likelihood, frozen=[_escaped(name) for name in frozen], **calls)
    if [slot.name for slot in (*model.bayesian, *model.fixed)] != list(expected):
        problem = f"does not fit the saved run: its parameters are not in the order {list(expected)}"
        raise CheckpointError(problem, argument="net")
    fingerprint = specification.get("fingerprint")  # files of earlier versions hold the values instead
    if frozen and fingerprint is not None and fingerprint != model.frozen_parts.fingerprint():
        problem = f"has other values in its {len(frozen)} frozen parameters ({frozen[0]}) than the saved run's backbone"
        raise CheckpointError(problem, argument="net", fix="give the pretrained network that was fitted")
    return model


def _escaped(name: str) -> str:
    """Return a pattern that matches a name literally."""
    return re.sub(r"([*?[])", r"[\1]", name)


def require_classes(classes: Classes) -> None:
    """Refuse what is no class of a prior, likelihood or algorithm, and two of one kind and name.

    Raises:
        ParameterError: An entry of ``classes`` is unsuitable.
    """
    if not isinstance(classes, Sequence) or isinstance(classes, str):
        fix = ("give ", Argument("classes", Shown("[MyPrior, MyLikelihood]")), ", say")
        raise ParameterError("is no list", argument="classes", value=classes, fix=fix)
    for position, cls in enumerate(classes):
        if not isinstance(cls, type) or not issubclass(cls, tuple(CONTRACTS)):
            problem = ("holds ", "the class " if isinstance(cls, type) else "", Value(cls))
            raise ParameterError(problem, argument="classes", fix="give classes of priors, likelihoods and algorithms")
        for other in classes[:position]:
            if other is not cls and other.__name__ == cls.__name__ and _contract(other) is _contract(cls):
                twice = ("holds two classes ", Value(cls.__name__))
                raise ParameterError(twice, argument="classes", fix="give the one that was saved")


def _contract(cls: type) -> type:
    """Return the contract that a class implements."""
    return next(contract for contract in CONTRACTS if issubclass(cls, contract))


def _build(contract: type, specification: Specification, classes: Classes) -> Any:
    """Call the class that a specification names: a built-in one, or one of ``classes`` where it came from outside."""
    registry, name, arguments = CONTRACTS[contract], specification["type"], specification["arguments"]
    if registry.knows(name) and specification.get("origin") != OUTSIDE:
        cls = registry.get_class(name)
    else:
        handed = [cls for cls in classes if cls.__name__ == name and issubclass(cls, contract)]
        if not handed:
            outside = specification.get("origin") == OUTSIDE
            lack = ", a class from outside r2d2net" if outside else ", which r2d2net does not have"
            raise CheckpointError(
                (f"the saved run names the {registry.kind} ", Value(name), lack),
                fix=("hand its class over, load(..., ", Argument("classes", Shown(f"[{name}]")), ")"),
            )
        cls = handed[0]
    try:
        return cls.from_hyperparameters(**arguments) if contract is ScaleMixturePrior else cls(**arguments)
    except Exception as error:  # a constructor from outside may raise anything
        other = "the class handed over" if specification.get("origin") == OUTSIDE else "that of this version of r2d2net"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"the saved run's {name} is not {other}: {reason}", fix="fit again") from error


def settings_of(
    method: Method, model: BayesianModel[Any], *, n: int, steps: int, seed: int, flat_target: bool, standardize: bool
) -> dict[str, Any]:
    """Return the settings of a run in a loop of one's own, as `fit` records those of its runs.

    Args:
        method: The algorithm.
        model: The model.
        n: Number of training rows.
        steps: Number of steps of the run.
        seed: Seed of its randomness.
        flat_target: Whether the targets were one-dimensional.
        standardize: Whether inputs or targets were standardised.

    Returns:
        The settings as JSON.
    """
    return {
        "prior": None,
        "restarts": 1,
        "candidate": "given",
        "restart": 0,
        "algorithm": describe(method),
        "model": describe_model(model),
        "network": network_text(model),
        "epochs": 1,
        "batch_size": None,
        "seed": int(seed),
        "validation": None,
        "patience": None,
        "score": "nll",
        "standardize": standardize,
        "n": int(n),
        "batches": int(steps),
        "flat_target": flat_target,
        "loop": "own",
    }


def network_text(model: BayesianModel[Any]) -> str:
    """Return the network's repr without memory addresses; it shows activations, which parameters do not."""
    return re.sub(r"0x[0-9a-f]+", "0x", repr(model.net))


def require_same_network(model: BayesianModel[Any], saved: str, where: object) -> None:
    """Refuse a posterior of a network that prints differently: parameters may fit where activations do not."""
    given = network_text(model)
    pairs = zip_longest(saved.splitlines(), given.splitlines(), fillvalue="nothing")
    for theirs, ours in pairs:
        if theirs != ours:
            what = f"{theirs.strip()} there, {ours.strip()} here"
            problem = f"was saved for another network ({what})"
            raise CheckpointError(problem, value=where, fix="give the one it was fitted with")
