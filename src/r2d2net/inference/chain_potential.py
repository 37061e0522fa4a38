"""The potential of a batch of chains of networks: U(w) = -log p(y | w, e) / temperature + sum_j c_j w_j^2 / 2.

Chains differ in their weights w, the prior's precisions c and the noise e. Their networks share one batched pass
(`network_batch`), and their likelihood one call wherever it can: rows of all chains are so many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.base import Batch
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
        likelihood, temperature = self.model.likelihood, self.temperature
        blocks = [
            (inputs, row_log_likelihoods(likelihood, targets, noise, self.chains))
            for inputs, targets in _blocks(*batch, self.rows)
        ]

        def evaluate(position: Tensor) -> Point:
            leaf = position.detach().requires_grad_()
            gradient, outputs = precision * position, []
            energy = torch.linalg.vecdot(gradient, position).to(torch.float64) / 2
            for inputs, log_likelihoods in blocks:
                with torch.enable_grad():
                    output = self.networks(leaf, fixed, buffers, inputs)
                    fit = log_likelihoods(output).sum(1, dtype=torch.float64)
                    (slope,) = torch.autograd.grad(fit.sum(), leaf)
                gradient.sub_(slope, alpha=1 / temperature)
                energy -= fit.detach() / temperature
                outputs.append(output.detach())
            return Point(position, energy, gradient, outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1))

        return evaluate


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
