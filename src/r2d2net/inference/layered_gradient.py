"""Log likelihoods of chains of small perceptrons and their gradients in the weights, written out layer by layer.

    Gaussian      r = y - f:      log p = -sum [r^2 / v + log 2 pi v] / 2,      d log p / d f = r / v
    Categorical   p = softmax f:  log p = sum log p_y,                          d log p / d f = 1_y - p
    Student t     log p = sum log t_nu(r / s) - log s,          d log p / d f = (nu + 1) r / (nu s^2 + r^2)
    others        by automatic differentiation of the likelihood alone

and back through the layers by `layered_pass`, with A x beside them where the network has a linear path. For tables of
some hundred rows automatic differentiation of the whole pass costs about twice as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from r2d2net.inference.layered_pass import LayeredPass, Room
from r2d2net.likelihoods import Categorical, Gaussian, Likelihood, StudentT
from r2d2net.likelihoods.base import Noise
from r2d2net.likelihoods.student_t import log_density
from r2d2net.model import BayesianModel
from r2d2net.nets.linear_path import LinearPath

RowLikelihoods = Callable[[Tensor], Tensor]


class Fit(NamedTuple):
    """How chains fit rows.

    Attributes:
        log_likelihood: Sum over the rows, (chains,), float64.
        gradient: Its gradient in the weights, (chains, weights).
        output: Outputs of the networks, (chains, rows, width).
    """

    log_likelihood: Tensor
    gradient: Tensor
    output: Tensor


class LayeredGradient:
    """The pass of a perceptron, perhaps with a linear path beside it, all of whose parameters are Bayesian.

    Args:
        layers: The perceptron's pass.
        path: Place of the linear path's weights; None where there is none.
        size: Number of weights.
    """

    def __init__(self, layers: LayeredPass, path: slice | None, size: int) -> None:
        self.layers, self.path, self.size = layers, path, size

    @classmethod
    def of(cls, model: BayesianModel[Any]) -> Self | None:
        """Build the gradient of a model's networks, or None for networks that `LayeredPass` does not know.

        Args:
            model: The model.

        Returns:
            The gradient.
        """
        if model.fixed:
            return None
        if type(model.net) is not LinearPath:
            layers, path = LayeredPass.of(model), None
        else:
            layers = LayeredPass.of(model, within="net")
            slot = next((slot for slot in model.bayesian if slot.name == "linear.weight"), None)
            if slot is None:
                return None
            path = slice(slot.start, slot.stop)
        return None if layers is None else cls(layers, path, model.size)

    def takes(self, x: Any) -> bool:
        """Tell whether inputs are rows of a table.

        Args:
            x: The inputs.
        """
        return isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point()

    def __call__(self, weights: Tensor, x: Tensor, slope: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Fit:
        """Compute outputs, log likelihoods and gradients of all chains.

        Args:
            weights: Weights of the chains, (chains, weights).
            x: Inputs, (rows, inputs), or those of each chain, (chains, rows, inputs).
            slope: Returns the log likelihoods, (chains,), and their gradients in the outputs; see `slope_of`.

        Returns:
            How the chains fit the rows.
        """
        chains = len(weights)
        room, shared = self._views(weights), x if x.dim() == 3 else x.expand(chains, *x.shape)
        output, tapes = self.layers.given(room, shared)
        if self.path is not None:
            straight = weights[:, self.path].view(chains, -1, x.shape[-1])
            output = torch.baddbmm(output, shared, straight.mT)
        log_likelihood, outward = slope(output)
        inside = self.layers.gradients(room, tapes, outward)
        if self.path is None:
            return Fit(log_likelihood, inside, output)
        beside = torch.bmm(outward.mT, shared).flatten(1)
        return Fit(log_likelihood, _joined(inside, beside, self.path), output)

    def _views(self, weights: Tensor) -> Room:
        layers = self.layers.layers
        own = [weights[:, layer.weight].view(len(weights), layer.outputs, layer.inputs) for layer in layers]
        biases = [None if layer.bias is None else weights[:, layer.bias].unsqueeze(1) for layer in layers]
        return Room(weights, own, [weight.mT for weight in own], biases)


def slope_of(
    likelihood: Likelihood[Any], y: Tensor, noise: Noise, row_likelihoods: RowLikelihoods, *, by_chain: bool = False
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return log likelihoods and their gradients in the outputs as a function of the outputs.

    Args:
        likelihood: The likelihood.
        y: Targets of the rows.
        noise: Learnt parameters of the likelihood, (chains, ...).
        row_likelihoods: Log likelihoods of each row and chain by outputs, for likelihoods that are not written out.
        by_chain: Whether each chain has rows of its own, targets (chains, rows, ...).

    Returns:
        The function from outputs, (chains, rows, width), to log likelihoods, (chains,) in float64, and gradients.
    """
    one, are_numbers = y.shape[by_chain:], y.dim() == 2 + by_chain  # targets of one chain
    # not isinstance: a subclass may have another log_prob
    if type(likelihood) is Gaussian and noise["variance"].dim() == 2 and are_numbers:
        variance = noise["variance"]
        constant = 0.5 * one[0] * torch.log(2 * math.pi * variance.double()).expand(len(variance), one[1]).sum(-1)

        def normal(output: Tensor) -> tuple[Tensor, Tensor]:
            residual = y - output.reshape(len(output), *one)
            gradient = residual / variance.unsqueeze(1)
            squares = (residual * gradient).sum((1, 2), dtype=torch.float64)
            return -0.5 * squares - constant, gradient.reshape(output.shape)

        return normal
    if type(likelihood) is StudentT and noise["variance"].dim() == 2 and are_numbers:
        variance, df = (noise[name].unsqueeze(1) for name in ("variance", "df"))

        def heavy(output: Tensor) -> tuple[Tensor, Tensor]:
            residual = y - output.reshape(len(output), *one)
            squares = residual.square()
            total = log_density(squares, variance, df).sum((1, 2), dtype=torch.float64)
            return total, ((df + 1) * residual / (df * variance + squares)).reshape(output.shape)

        return heavy
    if type(likelihood) is Categorical:
        index = y.reshape(-1, one[0], 1)

        def softmax(output: Tensor) -> tuple[Tensor, Tensor]:
            own = index.expand(len(output), -1, 1)
            log_p = torch.log_softmax(output, -1)
            total = log_p.gather(-1, own).sum((1, 2), dtype=torch.float64)
            one = log_p.new_ones(()).expand(own.shape)
            return total, log_p.exp_().neg_().scatter_add_(-1, own, one)

        return softmax

    def by_autograd(output: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = output.detach().requires_grad_()
            total = row_likelihoods(leaf).sum(1, dtype=torch.float64)
            (gradient,) = torch.autograd.grad(total.sum(), leaf)
        return total.detach(), gradient

    return by_autograd


def _joined(inside: Tensor, beside: Tensor, path: slice) -> Tensor:
    """Insert the gradients of a linear path at their place among those of the network."""
    return torch.cat((inside[:, : path.start], beside, inside[:, path.start :]), 1)
