"""SWAG (Maddox, Garipov, Izmailov, Vetrov and Wilson, 2019): a Gaussian fitted to the iterates of training.

    w = mean + sqrt(variance / 2) z + D e / sqrt(2 (K - 1)),      z ~ N(0, I), e ~ N(0, I_K)

mean and variance are those of the iterates after the burn-in, D holds the last K of their deviations from the running
mean. Training is that of MAP with a constant step size. The authors pass over the data once more for each draw, to
recompute the statistics of batch normalisation; here draws share those of the last step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import require, require_whole
from r2d2net.inference import Draws, DrawSource, Info, Trainer
from r2d2net.inference.base import Batch
from r2d2net.inference.descent import Training
from r2d2net.inference.point import Point, PointState
from r2d2net.likelihoods import Noise, Unit
from r2d2net.model import BayesianModel


@dataclass(frozen=True, kw_only=True)
class SWAG(Training):
    """Stochastic weight averaging, Gaussian; the other arguments are those of `Training`, the priors those of `MAP`.

    Args:
        burn_in: Share of the steps before iterates are collected.
        iterates: Number of iterates that are collected, evenly spaced over the steps that follow.
        rank: Number of deviations that are kept for the covariance, K.
    """

    optimizes: ClassVar[bool] = False  # the posterior is made of many steps: no early stopping
    suits_every_prior: ClassVar[bool] = False

    schedule: Literal["cosine", "constant"] = "constant"
    burn_in: float = 0.5
    iterates: int = 100
    rank: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.burn_in < 1, "burn_in", self.burn_in, "use a share from 0 to below 1")
        require_whole("iterates", self.iterates)
        require_whole("rank", self.rank, least=2)

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> SWAGTrainer:
        return SWAGTrainer(self, model, n=n, steps=steps)


class SWAGState(NamedTuple):
    """All that changes in a run."""

    step: Tensor  # number of steps taken, an int64 scalar on the CPU
    point: PointState  # where training stands
    collected: Tensor  # number of iterates, an int64 scalar on the CPU
    mean: Tensor  # of the iterates, (weights,)
    square: Tensor  # mean of their squares, (weights,)
    deviations: Tensor  # D, (rank, weights); the oldest is replaced
    noise: Noise  # that of the point, where posteriors look for it


class SWAGTrainer(Trainer[SWAGState]):
    """MAP training that collects its iterates."""

    def __init__(self, settings: SWAG, model: BayesianModel[Any], *, n: int, steps: int) -> None:
        self.settings, self.model = settings, model
        self.point = Point(settings, model, n=n, steps=steps)  # refuses priors without a finite mode
        self.first = int(settings.burn_in * steps)
        self.every = max(1, (steps - self.first) // settings.iterates)

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> SWAGState:
        point = self.point.init(y, generator, unit)
        deviations = point.mean.new_zeros(self.settings.rank, len(point.mean))
        mean, square = torch.zeros_like(point.mean), torch.zeros_like(point.mean)
        return SWAGState(point.step, point, torch.zeros_like(point.step), mean, square, deviations, point.noise)

    def step(self, state: SWAGState, batch: Batch, generator: torch.Generator) -> tuple[SWAGState, Info]:
        point, info = self.point.step(state.point, batch, generator)
        state = state._replace(step=point.step, point=point, noise=point.noise)
        taken = int(point.step) - self.first
        if taken > 0 and taken % self.every == 0:
            count = state.collected + 1
            mean = torch.lerp(state.mean, point.mean, 1 / int(count))
            square = torch.lerp(state.square, point.mean.square(), 1 / int(count))
            deviations = state.deviations.clone()
            deviations[int(state.collected) % self.settings.rank] = point.mean - mean
            state = state._replace(collected=count, mean=mean, square=square, deviations=deviations)
        return state, info

    def source(self, state: SWAGState) -> SWAGDraws:
        return SWAGDraws(self.model, state)

    def present(self, state: SWAGState) -> Draws:
        return self.point.present(state.point)


class SWAGDraws(DrawSource[SWAGState]):
    """Draws from the Gaussian; before the first iterate is collected, the network where training stands."""

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        size = n if at_once is None else at_once
        for start in range(0, n, size):
            yield self._networks(self._weights(min(size, n - start), generator))

    def center(self) -> Draws:
        return self._networks(self._mean()[None])

    def _mean(self) -> Tensor:
        return self.state.mean if int(self.state.collected) else self.state.point.mean

    def _weights(self, n: int, generator: torch.Generator | None) -> Tensor:
        state, kept = self.state, min(int(self.state.collected), len(self.state.deviations))
        if kept < 2:
            return self._mean().expand(n, -1)
        variance = (state.square - state.mean.square()).clamp(min=0)
        normal = torch.empty(n, len(state.mean), dtype=variance.dtype, device=variance.device)
        along = torch.empty(n, kept, dtype=variance.dtype, device=variance.device)
        spread = (variance / 2).sqrt() * normal.normal_(generator=generator)
        spread += along.normal_(generator=generator) @ state.deviations[:kept] / math.sqrt(2 * (kept - 1))
        return state.mean + spread

    def _networks(self, weights: Tensor) -> Draws:
        point = self.state.point
        return Draws.sharing(weights, point.fixed, point.buffers, self.state.noise)
