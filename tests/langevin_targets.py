"""Targets of known law for the Langevin samplers, thousands of independent copies side by side in one network.

`Means` is the network: its weights, whatever the input. With a Gaussian likelihood of known noise each weight has a
Gaussian likelihood of its own; under a hierarchical prior each row of weights is a layer with its own global scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.inference.langevin import Langevin, LangevinState, Sampling


class Means(nn.Module):
    """(copies, p) weights; the output is the same for every row of data, (rows, copies * p)."""

    def __init__(self, copies: int, p: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(copies, p, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.reshape(1, -1).expand(len(x), -1)


class Chain:
    """A sampler on `Means`, with no burn-in and a constant step size unless the settings say otherwise.

    Every step sees ``rows`` rows: ``y`` is what they have in common, of shape (copies * p,); ``noise_of_gradients`` is
    the deviation of the gradient of the mean loss about its expectation.
    """

    def __init__(
        self,
        settings: Sampling,
        prior: Any,
        y: Tensor,
        p: int = 1,
        *,
        rows: int = 1,
        noise: float = 1.0,
        steps: int,
        seed: int = 0,
        noise_of_gradients: float = 0.0,
    ) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.y, self.rows, self.shift = y, rows, noise_of_gradients * noise**2
        model = rn.BayesianModel(Means(len(y) // p, p), prior, rn.likelihoods.Gaussian(noise=noise))
        running: Any = settings.build(model, n=rows, steps=steps)
        self.running: Langevin = running
        self.state: LangevinState = running.init(y.expand(rows, -1), self.generator)

    def run(self, steps: int, look: Callable[[LangevinState], None] | None = None) -> None:
        x = torch.zeros(self.rows, 1, dtype=torch.float64)
        for _ in range(steps):
            y = self.y
            if self.shift:
                y = y + self.shift * torch.randn(y.shape, generator=self.generator, dtype=y.dtype)
            self.state, _ = self.running.step(self.state, (x, y.expand(self.rows, -1)), self.generator)
            if look is not None:
                look(self.state)

    def independent_layers(self, prior: Any) -> None:
        """Give every row of weights global scales of its own, and weights drawn from the prior given them."""
        shape = tuple(self.running.model.bayesian[0].shape)
        scales = prior.init_scales(shape, self.generator, groups=(shape[0], 1), dtype=torch.float64)
        self.state.scales["weight"] = scales
        variance = prior.variance(scales).reshape(-1)
        self.state.precision.copy_(1 / variance)
        self.state.weights.normal_(generator=self.generator).mul_(variance.sqrt())


def variance_z(sample: Tensor, expected: float) -> float:
    """z-score of the variance of normal draws whose mean is known to be right or is of no interest."""
    n = sample.numel()
    return float((sample.var() / expected - 1) / np.sqrt(2 / (n - 1)))


def normal_means(a_pi: float, b: float, y: np.ndarray) -> dict[str, Any]:
    """y_j ~ N(w_j, 1), w with the R2D2 prior: posterior E w, E w^2 and E log xi by quadrature.

    On a grid of log xi, log T and log psi; given xi the weights are independent.
    """
    log_xi, log_t, log_psi = np.arange(-12, 4, 0.2), np.arange(-70, 25, 0.25), np.arange(-25, 5, 0.25)
    psi_weight = np.exp(log_psi - np.exp(log_psi) / 2)
    v = np.exp(log_t[:, None] + log_psi[None, :]) / 2
    shrink = v / (1 + v)
    t_weight = np.exp(a_pi * (log_t + log_xi[:, None]) - np.exp(log_t + log_xi[:, None]))  # (xi, T)
    evidence, first, second = (np.zeros((len(log_xi), len(y))) for _ in range(3))
    for j, at in enumerate(y):
        density = psi_weight * np.exp(-0.5 * at**2 / (1 + v)) / np.sqrt(1 + v)
        evidence[:, j] = t_weight @ density.sum(1)
        first[:, j] = t_weight @ (density * shrink * at).sum(1)
        second[:, j] = t_weight @ (density * (shrink + (shrink * at) ** 2)).sum(1)
    xi_weight = np.exp(b * log_xi - np.exp(log_xi)) * evidence.prod(1)
    xi_weight /= xi_weight.sum()
    return {
        "w": (xi_weight[:, None] * first / evidence).sum(0),
        "w2": (xi_weight[:, None] * second / evidence).sum(0),
        "log_xi": float(xi_weight @ log_xi),
    }
