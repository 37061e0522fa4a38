"""Chains of several runs on small perceptrons, advanced side by side: folds of a cross-validation, candidates.

The C chains of each of K runs walk as K C chains of one batched pass, each on the rows of its own run; SVGI's runs,
from which they start, are `members` of their own. Gibbs sweeps are each run's. A run draws from its own generator in
the order of a run by itself and equals it up to the rounding of batched products, which chains magnify as they go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.base import Trainer
from r2d2net.inference.chain_metric import metric_of
from r2d2net.inference.chain_potential import row_log_likelihoods
from r2d2net.inference.chain_walk import Walkers, walk
from r2d2net.inference.layered_gradient import slope_of
from r2d2net.inference.mclmc import MCLMCState, MicrocanonicalChains, there_in
from r2d2net.inference.members import MeanFieldMembers, are_alike
from r2d2net.inference.microcanonical import Point, Potential, StepSize


def chains_are_alike(trainers: Sequence[Trainer[Any]], rows: int) -> bool:
    """Tell whether the chains of runs can walk side by side, with a gain.

    Args:
        trainers: The trainers of the runs.
        rows: Rows of each run.

    Returns:
        True for `MCLMC` with the same settings, gradients of all rows and a unit for each weight, on networks of one
        architecture whose gradients are written out and small; their priors may differ.
    """
    first = trainers[0]
    if not isinstance(first, MicrocanonicalChains):
        return False
    settings = first.settings
    if first.draws_rows or settings.adjusted or settings.directions or first.potential.layered is None:
        return False
    same = all(isinstance(other, MicrocanonicalChains) and other.settings == settings for other in trainers)
    sizes = {(other.n, other.steps, other.start_steps) for other in trainers if isinstance(other, MicrocanonicalChains)}
    starts = [other.svgi.trainer for other in trainers if isinstance(other, MicrocanonicalChains)]
    return same and len(sizes) == 1 and are_alike(starts, rows)


class ChainMembers:
    """Runs of chains that are advanced together.

    Args:
        trainers: The trainers of the runs, for which `chains_are_alike` is True.
        states: Their states.

    Attributes:
        states: The states.
    """

    def __init__(self, trainers: Sequence[MicrocanonicalChains], states: Sequence[MCLMCState]) -> None:
        self.trainers, self.trainer = list(trainers), trainers[0]
        self.starts = MeanFieldMembers([t.svgi.trainer for t in trainers], [state.start for state in states])
        self.states = [state._replace(start=own) for state, own in zip(states, self.starts.states, strict=True)]

    @property
    def temperature(self) -> float:
        """Weight of the prior."""
        return self.trainer.settings.temperature

    def step(self, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]) -> list[float]:
        """Take one epoch of all runs.

        Args:
            batch: Inputs (runs, rows, inputs) and targets (runs, rows, ...).
            generators: Source of randomness of each run.

        Returns:
            The loss of each run.
        """
        if int(self.states[0].step) < self.trainer.start_epochs:
            return self._start(batch, generators)
        outputs = self._walk(batch, generators)
        losses: list[float] = []
        for k, (trainer, own) in enumerate(zip(self.trainers, outputs, strict=True)):
            if not bool(torch.isfinite(own.sum())):  # diverged: what is left of it is for its caller to see
                losses.append(math.nan)
                continue
            rows = (batch[0][k], batch[1][k])
            self.states[k], info = trainer.after_move(self.states[k], own, rows, generators[k])
            losses.append(float(info.nll))
        return losses

    def _start(self, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]) -> list[float]:
        x, y = batch
        number = self.trainer.steps_of_start(int(self.states[0].step))
        order = [self.trainer.svgi.rows(number, y.device, generator) for generator in generators]
        runs, losses = torch.arange(len(y), device=y.device).unsqueeze(1), [0.0] * len(y)
        for rows in zip(*order, strict=True):
            index = torch.stack(rows)
            found = self.starts.step((x[runs, index], y[runs, index]), generators)
            losses = [total + loss / number for total, loss in zip(losses, found, strict=True)]
        for k, trainer in enumerate(self.trainers):
            state = self.states[k]._replace(start=self.starts.states[k])
            self.states[k] = trainer.after_start(state, (x[k], y[k]), generators[k])
        return losses

    def _walk(self, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]) -> Sequence[Tensor]:
        """Move the weights of all chains; return the outputs of each run there."""
        states, chains = self.states, self.trainer.settings.chains
        precision = torch.cat([state.prior.precision for state in states])
        data_precision = torch.cat([state.start.rho.exp().expand(chains, -1) for state in states])
        metric = metric_of(precision, data_precision, torch.cat([state.curvature for state in states]))
        potential = self._potential(precision, batch)
        sizes = zip(*(state.step_size for state in states), strict=True)
        at = Walkers(
            potential(torch.cat([state.weights for state in states])),
            torch.cat([state.direction for state in states]),
            StepSize(*(torch.cat(parts) for parts in sizes)),
            torch.cat([state.divergences for state in states]),
        )
        learns = self.trainer.learns(states[0])
        there = walk(potential, metric, at, self.trainer.pace, generators, learns=learns)
        own = [slice(k * chains, (k + 1) * chains) for k in range(len(states))]
        self.states = [there_in(state, _part(there, place)) for state, place in zip(states, own, strict=True)]
        return [there.point.output[place] for place in own]

    def _potential(self, precision: Tensor, batch: tuple[Tensor, Tensor]) -> Potential:
        """Return U of all chains, those of each run on its own rows."""
        chains, likelihood, layered = self.trainer.settings.chains, self.trainer.model.likelihood, self._layered
        noise = {name: torch.cat([state.noise[name] for state in self.states]) for name in self.states[0].noise}
        each = [row_log_likelihoods(likelihood, y, s.noise, chains) for y, s in zip(batch[1], self.states, strict=True)]

        def by_row(output: Tensor) -> Tensor:
            parts = output.split(chains)
            return torch.cat([own(part) for own, part in zip(each, parts, strict=True)])

        x, y = (part.repeat_interleave(chains, 0) for part in batch)
        slope = slope_of(likelihood, y, noise, by_row, by_chain=True)
        return self.trainer.potential.of_blocks([partial(layered, x=x, slope=slope)], precision)

    @property
    def _layered(self) -> Any:
        layered = self.trainer.potential.layered
        assert layered is not None
        return layered


def _part(there: Walkers, place: slice) -> Walkers:
    """Return where some of the chains stand, in tensors of their own."""
    point = Point(*(tensor[place].clone() for tensor in there.point))
    step_size = StepSize(*(tensor[place].clone() for tensor in there.step_size))
    return Walkers(point, there.direction[place].clone(), step_size, there.divergences[place].clone())
