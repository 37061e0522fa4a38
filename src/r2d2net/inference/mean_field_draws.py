"""Draws from a mean-field posterior, its KL and its moments.

    w_j = mu_j + s_j e_j,    e of mean 0 and variance 1: normal, or radial (see `radial`)

s_j follows from the parameter rho_j and the prior's precision c_j by a `Form` (see `deviations`); a `Family` is a form
and the distribution of e.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from r2d2net.inference.adam import Moments
from r2d2net.inference.base import Draws, DrawSource
from r2d2net.inference.deviations import Form
from r2d2net.inference.vector_blocks import Blocks
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors


class VariationalState(NamedTuple):
    """State of variational inference: all that changes in training.

    Attributes:
        step: Number of steps taken, an int64 scalar on the CPU.
        mean: Means mu of the weights, (weights,).
        rho: Parameters from which the standard deviations follow, (weights,).
        fixed: Deterministic parameters.
        precision: Prior precision 1 / v of the weights, (weights,).
        moments: Adam's moments by the name of the parameter vector.
        scales: The prior's scales by the name of the parameter tensor.
        noise: Learnt parameters of the likelihood.
        buffers: Buffers of the network.
    """

    step: Tensor
    mean: Tensor
    rho: Tensor
    fixed: Tensor
    precision: Tensor
    moments: dict[str, Moments]
    scales: dict[str, Any]
    noise: Noise
    buffers: Tensors


class UnitNoise(Protocol):
    """The distribution of e = (w - mu) / s, of mean 0 and variance 1."""

    def draw(self, model: BayesianModel[Any], generator: torch.Generator | None, *draws: int) -> Tensor:
        """Draw e of all weights, (*draws, weights)."""

    def entropy(self, model: BayesianModel[Any], deviation: Tensor) -> Tensor:
        """Return the entropy of q(w) in nats, where s is ``deviation``."""


class NormalNoise:
    """Independent standard normal numbers."""

    def draw(self, model: BayesianModel[Any], generator: torch.Generator | None, *draws: int) -> Tensor:
        return torch.empty(*draws, model.size, dtype=model.dtype, device=model.device).normal_(generator=generator)

    def entropy(self, model: BayesianModel[Any], deviation: Tensor) -> Tensor:
        return 0.5 * (math.log(2 * math.pi) + 1) * deviation.numel() + torch.log(deviation).sum()


class Family(NamedTuple):
    """The family of q(w): how s follows from rho, and the distribution of (w - mu) / s."""

    form: Form
    noise: UnitNoise = NormalNoise()

    def deviation(self, state: VariationalState, blocks: Blocks) -> Tensor:
        """Return s, the standard deviation of each weight under q."""
        scale = torch.empty_like(state.rho)
        for block in zip(*map(blocks.of, (scale, state.rho, state.precision)), strict=True):
            self.form.deviation(*block)
        return scale

    def deviations(self, state: VariationalState, blocks: Blocks) -> Iterator[Tensor]:
        """Yield s block by block."""
        for rho, precision in zip(*map(blocks.of, (state.rho, state.precision)), strict=True):
            yield self.form.deviation(torch.empty_like(rho), rho, precision)

    def second_moment(self, state: VariationalState, blocks: Blocks) -> Tensor:
        """Return E w^2 under q."""
        moment = torch.empty_like(state.rho)
        vectors = moment, state.rho, state.precision, state.mean
        for room, rho, precision, mean in zip(*map(blocks.of, vectors), strict=True):
            self.form.deviation(room, rho, precision).square_().addcmul_(mean, mean)
        return moment


class MeanFieldDraws(DrawSource[VariationalState]):
    """A mean-field posterior.

    Args:
        model: The model.
        state: The variational parameters.
        family: The family of q(w).
        blocks: How vectors of weights are cut (see `vector_blocks`).
    """

    def __init__(self, model: BayesianModel[Any], state: VariationalState, family: Family, blocks: Blocks) -> None:
        super().__init__(model, state)
        self.family, self.blocks = family, blocks

    def deviation(self) -> Tensor:
        """Return s, the standard deviation of each weight under q."""
        return self.family.deviation(self.state, self.blocks)

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        state, deviation = self.state, self.deviation()
        for start in range(0, n, n if at_once is None else at_once):
            count = min(n - start, n if at_once is None else at_once)
            weights = self.family.noise.draw(self.model, generator, count).mul_(deviation).add_(state.mean)
            yield Draws.sharing(weights, state.fixed, state.buffers, state.noise)

    def center(self) -> Draws:
        state = self.state
        return Draws.sharing(state.mean[None], state.fixed, state.buffers, state.noise)

    def kl(self) -> Tensor:
        """Return KL(q(w) q(scales) || p(w, scales)) in nats, over all weights and scale variables.

        q(scales) is the coordinate-ascent factor at the present q(w), so -nll N - kl is a true lower bound of the
        evidence in every mode.
        """
        total = -self.family.noise.entropy(self.model, self.deviation())
        moment = self.family.second_moment(self.state, self.blocks)
        for slot in self.model.bayesian:
            assert slot.prior is not None
            second = slot.of(moment)
            total = total - slot.prior.cavi(second, self.state.scales[slot.name]).bound(second)
        return total
