"""The network of which stacked models are special cases, and their draws as draws of it.

y = A x + f(x):      a linear model has f = 0 but for the last bias, a network has A = 0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.base import Draws
from r2d2net.likelihoods import Likelihood
from r2d2net.model import BayesianModel, Slot
from r2d2net.nets import mlp
from r2d2net.priors import Gaussian
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.stack_candidates import Form

BIAS = Gaussian(3.0)  # bands outside the data open more than with N(0, 1): see docs/algorithms.md


def model_of(
    form: Form, prior: Any, network: dict[str, Any], likelihood: Likelihood[Any], seed: int, like: Tensor
) -> BayesianModel[Any]:
    """Build a model of one of the forms, without changing torch's global generator."""
    with lent_generator(seed, torch.device("cpu")):
        net = mlp(**form_network(form, network))
    return BayesianModel(net.to(like.device, torch.float32), prior, likelihood, bias=BIAS)


def form_network(form: Form, network: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `mlp` for a form."""
    if form == "linear":
        return {**network, "hidden": []}
    return {**network, "linear": True} if form == "both" else network


def embed(draws: Draws, form: Form, own: BayesianModel[Any], whole_form: Form, whole: BayesianModel[Any]) -> Tensor:
    """Write draws of a model as draws of a network that has it as a special case.

    Args:
        draws: Draws of the model.
        form: Form of the model.
        own: The model.
        whole_form: Form of the network.
        whole: The network's model.

    Returns:
        Weights of the network, (draws, weights); those that the model does not have are 0.
    """
    if form == whole_form:
        return draws.weights
    places = {slot.name: slot for slot in whole.bayesian}
    weights = draws.weights.new_zeros(len(draws.weights), whole.size)
    for slot in own.bayesian:
        at = places[_name_in_both(slot, form, whole)]
        weights[:, at.start : at.stop] = draws.weights[:, slot.start : slot.stop]
    return weights


def _name_in_both(slot: Slot, form: Form, whole: BayesianModel[Any]) -> str:
    """Return the name that a parameter of a linear model or a network has in a network with a linear path."""
    if form == "network":
        return f"net.{slot.name}"
    if slot.name.endswith("weight"):
        return "linear.weight"
    return [other.name for other in whole.bayesian if other.name.endswith("bias")][-1]
