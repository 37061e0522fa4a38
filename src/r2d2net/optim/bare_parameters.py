"""Parameters without their network, as ``net.parameters()`` gives them: what can be told of them, and what cannot.

A tensor of two dimensions or more is a weight tensor. A vector may be a bias or the scale of a normalisation layer, so
it has no prior. Names are made by order: one that follows a weight tensor with as many rows counts to its layer, in
whose units its steps are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net.errors import ParameterError, Value
from r2d2net.inference.adam import Moments
from r2d2net.inference.mean_field_family import VariationalState
from r2d2net.model import BayesianModel, Slot


class BareNetwork(nn.Module):
    """A stand-in for the network of parameters that came without one."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__()
        layer, rows, own = 0, -1, 0
        for parameter in parameters:
            follows = parameter.dim() < 2 and len(parameter.shape) == 1 and len(parameter) == rows
            if not follows or own > 1:
                layer, own = layer + 1, 0
                self.add_module(f"layer{layer}", nn.Module())
            rows = parameter.shape[0] if parameter.dim() > 1 else rows if follows else -1
            self.get_submodule(f"layer{layer}").register_parameter(f"parameter{own}", parameter)
            own += 1

    def vectors(self) -> list[str]:
        """Return the names of the parameters that are no weight tensors."""
        return [name for name, parameter in self.named_parameters() if parameter.dim() < 2]

    def forward(self) -> Tensor:
        """Refuse to compute an output."""
        raise ParameterError(
            "is not known: the optimiser was made of parameters", argument="net", fix="give the network"
        )


def bare_network(parameters: Iterable[Any]) -> BareNetwork:
    """Make a stand-in for the network of some parameters.

    Args:
        parameters: What ``net.parameters()`` or ``net.named_parameters()`` gives.

    Returns:
        The stand-in, which holds the same parameters.

    Raises:
        ParameterError: If they are no parameters, or none.
    """
    try:
        given = list(parameters)
    except TypeError as error:
        problem = ("is a ", Value(type(parameters)))
        raise ParameterError(problem, argument="params", fix="give the network or its parameters") from error
    bare = [item[1] if isinstance(item, tuple) and len(item) == 2 else item for item in given]
    for item in bare:
        if isinstance(item, dict):
            fix = "give the network, with priors by name; all weights share the learning rate, in units of their layer"
            raise ParameterError("are groups", argument="params", fix=fix)
        if not isinstance(item, nn.Parameter):
            problem = ("holds a ", Value(type(item)))
            raise ParameterError(problem, argument="params", fix="give the network or its parameters")
    if not bare:
        raise ParameterError("holds no parameter", argument="params", fix="give the network or its parameters")
    return BareNetwork(bare)


def moved_to(
    net: nn.Module, bare: nn.Module, model: BayesianModel[Any], state: VariationalState
) -> tuple[BayesianModel[Any], VariationalState]:
    """Move a state from a stand-in to the network whose parameters it has.

    Args:
        net: The network.
        bare: The stand-in.
        model: The model of the stand-in.
        state: The state.

    Returns:
        The network's model, and its state.

    Raises:
        ParameterError: If the network has other parameters.
    """
    names = {id(parameter): name for name, parameter in bare.named_parameters()}
    known = {slot.name: slot for slot in (*model.bayesian, *model.fixed)}
    own = dict(net.named_parameters())
    missing = [name for name, parameter in own.items() if id(parameter) not in names and parameter.requires_grad]
    if missing or not names.keys() <= {id(parameter) for parameter in own.values()}:
        what = f"has parameters such as {missing[0]!r} that" if missing else "lacks parameters that"
        problem = f"{what} the optimiser was {'not ' if missing else ''}made of"
        raise ParameterError(problem, argument="net", fix="give the network whose parameters it optimises")
    trained = {name: known.get(names[id(parameter)]) for name, parameter in own.items() if id(parameter) in names}
    priors = {_literally(name): slot.prior for name, slot in trained.items() if slot is not None}
    frozen = [_literally(name) for name in own if trained.get(name) is None]
    whole: BayesianModel[Any] = BayesianModel(net, priors, model.likelihood, bias=None, frozen=frozen)

    def sorted_as(slots: tuple[Slot, ...], vector: Tensor) -> Tensor:
        old = [trained[slot.name] for slot in slots]
        return torch.cat([vector.new_zeros(0), *(slot.of(vector).reshape(-1) for slot in old if slot is not None)])

    mean, rho, precision = (sorted_as(whole.bayesian, each) for each in (state.mean, state.rho, state.precision))
    moments = {
        name: Moments(*(sorted_as(whole.fixed if name == "fixed" else whole.bayesian, each) for each in pair))
        for name, pair in state.moments.items()
    }
    scales = {
        slot.name: state.scales[own_slot.name]
        for slot in whole.bayesian
        if (own_slot := trained[slot.name]) is not None
    }
    fixed = sorted_as(whole.fixed, state.fixed)
    return whole, state._replace(mean=mean, rho=rho, precision=precision, moments=moments, scales=scales, fixed=fixed)


def _literally(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
