"""A network with a linear path, y = A x + f(x), as two models: one for A and one for f.

The first is one Linear layer under A's prior with a bias, which takes up what the rows have in common; the second is f
alone, with the priors and the likelihood of the whole. `Parts.join` puts their weights together again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net.errors import Argument, ParameterError, Shown
from r2d2net.likelihoods.log_normal import NORMAL
from r2d2net.model import BayesianModel, Slot, Tensors
from r2d2net.nets.linear_path import LinearPath
from r2d2net.priors import ScaleMixturePrior

PATH, BESIDE = "linear.weight", "net."


class Parts(NamedTuple):
    """The two models of a network with a linear path.

    Attributes:
        slot: Place of A among the weights of the whole.
        layer: Model of one Linear layer.
        beside: Model of f.
    """

    slot: Slot
    layer: BayesianModel[Any]
    beside: BayesianModel[Any]

    def join(self, path: Tensor, weights: Tensor) -> Tensor:
        """Put the weights of both together.

        Args:
            path: A, (n, weights of A).
            weights: The Bayesian weights of f, (n, weights of f).

        Returns:
            The Bayesian weights of the whole, (n, weights).
        """
        at = self.slot.start
        return torch.cat([weights[:, :at], path, weights[:, at:]], 1)

    @staticmethod
    def outer_names(buffers: Tensors) -> Tensors:
        """Rename buffers of f as the whole network has them.

        Args:
            buffers: Buffers by their names in f.

        Returns:
            The same by their names in the whole.
        """
        return {BESIDE + name: tensor for name, tensor in buffers.items()}


def parts_of(model: BayesianModel[Any], algorithm: str) -> Parts:
    """Split a model into its linear path and the network beside it.

    Args:
        model: The model.
        algorithm: Name of the algorithm that needs the path, for errors.

    Returns:
        The two models.

    Raises:
        ParameterError: The network has no linear path, one of both parts has no prior, or the likelihood is not
            Gaussian with a learnt noise.
    """
    shown: dict[str, Any] = {"argument": "algorithm", "value": Shown(algorithm)}
    net, likelihood = model.net, model.likelihood
    if not isinstance(net, LinearPath):
        fix = "use hidden layers and mlp(..., linear=True), or nets.LinearPath, or another algorithm, such as SVGI"
        raise ParameterError("needs a network with a linear path", fix=fix, **shown)
    if type(likelihood) not in NORMAL:
        problem = f"needs a Gaussian likelihood, not {type(likelihood).__name__}"
        raise ParameterError(problem, fix="use another algorithm, such as SVGI", **shown)
    if not likelihood.learns_noise:
        fix = "give likelihood=Gaussian(), or use SVGI"
        raise ParameterError("learns the noise, and the likelihood has a known one", fix=fix, **shown)
    slot = next((slot for slot in model.bayesian if slot.name == PATH), None)
    if slot is None or slot.prior is None:
        problem = f"draws {PATH!r}, and it is frozen" if PATH in model.frozen else f"needs a prior on {PATH!r}"
        raise ParameterError(problem, fix=("give BayesianModel a ", Argument("prior"), " that has it"), **shown)
    if not slot.prior.draws_scales_jointly and (type(slot.prior).gibbs_reversed is ScaleMixturePrior.gibbs_reversed):
        fix = "define its gibbs_reversed"
        raise ParameterError(f"needs the reversed sweep of the prior {type(slot.prior).__name__}", fix=fix, **shown)
    priors = {slot.name.removeprefix(BESIDE): slot.prior for slot in model.bayesian if slot.name != PATH}
    if not priors:
        fix = "give one of its weights a prior, or use LinearGibbs for a linear layer alone"
        raise ParameterError("needs a prior on the network beside the path", fix=fix, **shown)
    return Parts(slot, _layer(model, slot), _beside(model, net, priors))


def _layer(model: BayesianModel[Any], slot: Slot) -> BayesianModel[Any]:
    outputs, inputs = slot.shape
    place: dict[str, Any] = {"device": model.device, "dtype": model.dtype}
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs, **place)  # no draw from torch's global generator
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    return BayesianModel(layer, slot.prior, model.likelihood)


def _beside(model: BayesianModel[Any], net: LinearPath, priors: dict[str, Any]) -> BayesianModel[Any]:
    fixed = [_exactly(slot.name.removeprefix(BESIDE)) for slot in model.fixed]
    frozen = [_exactly(name.removeprefix(BESIDE)) for name in model.frozen]
    own = {_exactly(name): prior for name, prior in priors.items()}
    return BayesianModel(net.net, own, model.likelihood, deterministic=fixed, frozen=frozen)


def _exactly(name: str) -> str:
    """Return a pattern that matches a name alone."""
    return name.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
