"""Which parameter of a network has which prior: patterns of names, biases, normalisation layers, frozen parameters.

A parameter is frozen, else deterministic, else has the prior of the first pattern that matches it, else that of its
kind: normalisation layer, vector or weight tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net.errors import Argument, ParameterError, Value, require_instance
from r2d2net.parameter_roles import DIRECTION, NORM, TENSORS
from r2d2net.priors import ScaleMixturePrior

AnyPrior = ScaleMixturePrior[Any]
DTYPES = (torch.float32, torch.float64)


def frozen_names(parameters: Mapping[str, nn.Parameter], patterns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the frozen parameters."""
    if patterns is None:
        return tuple(name for name, parameter in parameters.items() if not parameter.requires_grad)
    patterns = (patterns,) if isinstance(patterns, str) else patterns
    _require_matches("frozen", patterns, parameters)
    return tuple(name for name in parameters if any(fnmatchcase(name, pattern) for pattern in patterns))


def require_learnable(parameters: Mapping[str, nn.Parameter]) -> None:
    """Refuse a network without parameters to learn, or with parameters of another dtype than float32 and float64."""
    if not parameters:
        fix = ("set requires_grad=True on some, or give ", Argument("frozen", ()))
        raise ParameterError("has only frozen parameters", argument="net", fix=fix)
    for name, parameter in parameters.items():
        if parameter.dtype not in DTYPES:
            problem = (f"has {name!r} as ", Value(parameter.dtype), ", and float32 or float64 is needed")
            raise ParameterError(problem, argument="net", fix="give net.float()")
    first, *others = parameters.items()
    for name, parameter in others:
        if parameter.dtype != first[1].dtype:
            problem = (f"has {name!r} as ", Value(parameter.dtype), f" and {first[0]!r} as {first[1].dtype}")
            raise ParameterError(problem, argument="net", fix="give net.float() or net.double()")


def require_unfrozen(prior: object, every: Mapping[str, Tensor], frozen: Sequence[str]) -> None:
    """Refuse patterns that give a prior to frozen parameters alone."""
    given = prior.items() if isinstance(prior, Mapping) else ()
    for pattern in [pattern for pattern, its_prior in given if its_prior is not None]:
        names = [name for name in every if fnmatchcase(name, pattern)]
        if names and all(name in frozen for name in names):
            raise ParameterError(
                (": pattern ", Value(pattern), f" gives a prior to frozen parameters alone ({names[0]})"),
                argument="prior",
                fix=("set requires_grad=True on them, or give ", Argument("frozen", ())),
            )


def _require_matches(argument: str, patterns: Iterable[str], parameters: Mapping[str, Tensor]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in parameters):
            names = ", ".join(parameters)
            problem = (": pattern ", Value(pattern), " matches no parameter")
            raise ParameterError(problem, argument=argument, fix=f"the parameters are {names}")


def assign_priors(
    every: Mapping[str, Tensor],
    parameters: Mapping[str, Tensor],
    roles: Mapping[str, str],
    prior: AnyPrior | Mapping[str, AnyPrior | None],
    bias: AnyPrior | None,
    norm: AnyPrior | None,
    deterministic: Sequence[str],
    input_weights: Collection[str] = (),
) -> dict[str, AnyPrior | None]:
    """Assign a prior to every parameter that is not frozen.

    Args:
        every: All parameters of the network, which patterns may name.
        parameters: Those that are not frozen.
        roles: What each parameter is to its module, by name (`parameter_roles`).
        prior: Prior of weight tensors, or a mapping from patterns of names to priors.
        bias: Prior of the remaining parameters.
        norm: Prior of the parameters of normalisation layers.
        deterministic: Patterns of parameters without a prior.
        input_weights: Names of the weights that take the network's inputs, for a prior that is about inputs.

    Returns:
        The prior of each parameter by name; None for a deterministic one.

    Raises:
        ParameterError: If a prior is none or does not suit a parameter, or a pattern matches no parameter.
    """
    patterns = dict(prior) if isinstance(prior, Mapping) else {}
    values = patterns.values() if isinstance(prior, Mapping) else (prior,)
    for argument, value in (*(("prior", value) for value in values), ("bias", bias), ("norm", norm)):
        if value is not None:
            require_instance(value, ScaleMixturePrior, argument, "prior", "use one of r2d2net.priors, or None")
    deterministic = (deterministic,) if isinstance(deterministic, str) else deterministic
    _require_matches("prior", patterns, every)
    _require_matches("deterministic", deterministic, every)
    assigned: dict[str, AnyPrior | None] = {}
    for name in parameters:
        matches = [p for pattern, p in patterns.items() if fnmatchcase(name, pattern)]
        if any(fnmatchcase(name, pattern) for pattern in deterministic):
            assigned[name] = None
        elif matches:
            assigned[name] = matches[0]
        elif roles[name] == NORM:
            assigned[name] = norm
        elif roles[name] == DIRECTION:
            assigned[name] = None
        elif roles[name] not in TENSORS:
            assigned[name] = bias
        elif isinstance(prior, Mapping):
            assigned[name] = None
        else:
            takes_inputs = not prior.for_inputs or name in input_weights
            assigned[name] = prior if takes_inputs else prior.elsewhere()
    for name, own in assigned.items():
        if own is not None:
            own.require_layer(name, parameters[name].shape)
    return assigned
