"""The potential of a batch of chains of networks: U(w) = -log p(y | w, e) / temperature + sum_j c_j w_j^2 / 2.

Chains differ in their weights w, the prior's precisions c and the noise e. Their networks share one batched pass:
that of small perceptrons of tables is written out (`layered_gradient`), others are differentiated automatically
(`network_batch`), with one call of the likelihood wherever it can: rows of all chains are so many rows.

With more rows than a gradient can afford the likelihood is that of m drawn rows S out of n, corrected about a point w0
such that value and gradient there are those of all rows (a control variate):

    L(w) ~ L(w0) + (n / m) (L_S(w) - L_S(w0)) + (grad L(w0) - (n / m) grad L_S(w0))' (w - w0)

What is left of the error is of second order in w - w0, in which the curvature of S stands for that of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.base import Batch
from r2d2net.inference.layered_gradient import Fit, LayeredGradient, RowLikelihoods, slope_of
from r2d2net.inference.microcanonical import Point, Potential
from r2d2net.inference.network_batch import NetworkBatch
from r2d2net.likelihoods.base import Likelihood, Noise
from r2d2net.model import BayesianModel, Tensors

BLOCK = 1 << 21  # numbers of a layer's outputs that a pass holds at a time


class ChainPotential:
    """The potential, bound to a model.

    Args:
        model: The model.
        chains: Number of chains.
        temperature: Weight of the prior.
    """

    def __init__(self, model: BayesianModel[Any], chains: int, temperature: float) -> None:
        self.model, self.chains, self.temperature = model, chains, temperature
        self.networks = NetworkBatch(model)
        self.layered = LayeredGradient.of(model)
        self.rows = max(1, BLOCK // (chains * max(slot.shape[0] if slot.shape else 1 for slot in model.bayesian)))

    def at(self, precision: Tensor, noise: Noise, fixed: Tensor, buffers: Tensors, batch: Batch) -> Potential:
        """Return U as a function of the weights.

        Args:
            precision: c, (chains, weights).
            noise: Learnt parameters of the likelihood, (chains, ...).
            fixed: Deterministic parameters.
            buffers: Buffers by name.
            batch: Inputs and targets of all rows.

        Returns:
            The function from weights, (chains, weights), to the point there; its output is the networks'.
        """
        likelihood, blocks = self.model.likelihood, []
        for inputs, targets in _blocks(*batch, self.rows):
            by_row = row_log_likelihoods(likelihood, targets, noise, self.chains)
            if self.layered is not None and self.layered.takes(inputs):
                blocks.append(partial(self.layered, x=inputs, slope=slope_of(likelihood, targets, noise, by_row)))
            else:
                blocks.append(partial(self._differentiated, fixed, buffers, inputs, by_row))
        return self.of_blocks(blocks, precision)

    def outputs(self, weights: Tensor, fixed: Tensor, buffers: Tensors, x: Any) -> Tensor:
        """Compute the outputs of all chains, a block of rows at a time.

        Args:
            weights: Weights of the chains, (chains, weights).
            fixed: Deterministic parameters.
            buffers: Buffers by name.
            x: Inputs.

        Returns:
            The outputs, (chains, rows, width).
        """
        parts = x if isinstance(x, tuple) else (x,)
        blocks = zip(*(part.split(self.rows) for part in parts), strict=True)
        inputs = [block if isinstance(x, tuple) else block[0] for block in blocks]
        return torch.cat([self.networks(weights, fixed, buffers, block) for block in inputs], 1)

    def near(
        self,
        position: Tensor,
        rows: Tensor,
        precision: Tensor,
        noise: Noise,
        fixed: Tensor,
        buffers: Tensors,
        batch: Batch,
    ) -> Potential:
        """Return U near a position, by some of the rows with the gradient of all as control variate.

        Args:
            position: w0, (chains, weights).
            rows: Numbers of the drawn rows, (m,).
            precision: c, (chains, weights).
            noise: Learnt parameters of the likelihood, (chains, ...).
            fixed: Deterministic parameters.
            buffers: Buffers by name.
            batch: Inputs and targets of all rows.

        Returns:
            The function from weights to the point there; its output is the networks' for the drawn rows.
        """
        x, y = batch
        none = torch.zeros_like(precision)
        drawn = (tuple(part[rows] for part in x) if isinstance(x, tuple) else x[rows], y[rows])
        whole = self.at(none, noise, fixed, buffers, batch)(position)
        part, factor = self.at(none, noise, fixed, buffers, drawn), len(y) / len(rows)
        at_start = part(position)
        correction = whole.gradient - factor * at_start.gradient

        def evaluate(weights: Tensor) -> Point:
            point, pull = part(weights), precision * weights
            energy = whole.energy + factor * (point.energy - at_start.energy)
            moved = torch.linalg.vecdot(correction, weights - position)
            energy = energy + (moved + torch.linalg.vecdot(pull, weights) / 2).to(torch.float64)
            return Point(weights, energy, pull + factor * point.gradient + correction, point.output)

        return evaluate

    def of_blocks(self, blocks: Sequence[Callable[[Tensor], Fit]], precision: Tensor) -> Potential:
        """Return U from the log likelihoods of blocks of rows.

        Args:
            blocks: Functions from weights to how the chains fit some rows.
            precision: c, (chains, weights).

        Returns:
            The function from weights to the point there.
        """

        def evaluate(position: Tensor) -> Point:
            gradient, outputs = precision * position, []
            energy = torch.linalg.vecdot(gradient, position).to(torch.float64) / 2
            for block in blocks:
                fit = block(position)
                gradient.sub_(fit.gradient, alpha=1 / self.temperature)
                energy -= fit.log_likelihood / self.temperature
                outputs.append(fit.output)
            return Point(position, energy, gradient, outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1))

        return evaluate

    def _differentiated(
        self, fixed: Tensor, buffers: Tensors, inputs: Any, by_row: RowLikelihoods, position: Tensor
    ) -> Fit:
        """Compute log likelihoods and gradients of any networks by automatic differentiation."""
        leaf = position.detach().requires_grad_()
        with torch.enable_grad():
            output = self.networks(leaf, fixed, buffers, inputs)
            fit = by_row(output).sum(1, dtype=torch.float64)
            (slope,) = torch.autograd.grad(fit.sum(), leaf)
        return Fit(fit.detach(), slope, output.detach())


def row_log_likelihoods(
    likelihood: Likelihood[Any], y: Tensor, noise: Noise, chains: int
) -> Callable[[Tensor], Tensor]:
    """Return the log likelihoods of all rows under all chains as a function of the outputs.

    Args:
        likelihood: The likelihood.
        y: Targets of the rows.
        noise: Learnt parameters of the likelihood, (chains, ...).
        chains: Number of chains.

    Returns:
        The function from outputs, (chains, rows, width), to log likelihoods, (chains, rows).
    """
    rows = len(y)
    if not noise or likelihood.takes_noise_by_row:
        targets = y.repeat(chains, *[1] * (y.dim() - 1))
        by_row = {name: tensor.repeat_interleave(rows, 0) for name, tensor in noise.items()}
        return lambda output: likelihood.log_prob(output.flatten(0, 1), targets, by_row).view(chains, rows)
    own = [{name: tensor[i] for name, tensor in noise.items()} for i in range(chains)]
    return lambda output: torch.stack([likelihood.log_prob(output[i], y, own[i]) for i in range(chains)])


def _blocks(x: Any, y: Tensor, rows: int) -> Iterator[Batch]:
    parts = x if isinstance(x, tuple) else (x,)
    for *inputs, targets in zip(*(part.split(rows) for part in parts), y.split(rows), strict=True):
        yield (tuple(inputs) if isinstance(x, tuple) else inputs[0]), targets
