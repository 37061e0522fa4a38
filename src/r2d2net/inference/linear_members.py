"""Gibbs sampling of several linear layers, each on rows of its own, as one batch of chains: folds of a table.

    y_k = b_k + X_k w_k + e_k,      k = 1, ..., K runs of C chains each:      one sweep of K C chains

A sweep is that of `linear_sweep` or `linear_classes`, in which each chain has its own inputs and targets. For tables of
some hundred rows it costs little more than one of a single run. Everything is drawn chain by chain given its own data;
only the direction in which scales are scanned is one for all. The random numbers are those of the first run's generator
(its own for the start of a regression): a run has the law of a run by itself, and other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.base import Batch, Trainer
from r2d2net.inference.linear_gibbs import LinearChains, LinearGibbsState

MOST_NUMBERS = 1 << 20  # inputs of the chains of a run, each of which has a copy in float64


def linear_are_alike(trainers: Sequence[Trainer[Any]], rows: int) -> bool:
    """Tell whether the chains of linear layers can be swept as one batch, with a gain; their models are the same.

    Args:
        trainers: The trainers of the runs.
        rows: Rows of each run.

    Returns:
        True for `LinearGibbs` with the same settings on small tables, without weights of rows and without leave-one-out
        moments.
    """
    first = trainers[0]
    if not isinstance(first, LinearChains):
        return False
    numbers = first.settings.chains * first.targets.rows * rows * first.weight.shape[1]
    if first.settings.loo_draws > 0 or not first.targets.leaves_out or numbers > MOST_NUMBERS:
        return False
    same = (isinstance(other, LinearChains) and other.settings == first.settings for other in trainers)
    return all(same) and len({(other.n, other.steps) for other in trainers if isinstance(other, LinearChains)}) == 1


class LinearMembers:
    """Runs of linear chains that are swept together; one that is done, or lost, stays as it is.

    Args:
        trainers: The trainers of the runs, for which `linear_are_alike` is True.
        states: Their states.

    Attributes:
        states: The states.
    """

    temperature = 1.0

    def __init__(self, trainers: Sequence[LinearChains], states: Sequence[LinearGibbsState]) -> None:
        self.trainers, self.trainer, self.states = list(trainers), trainers[0], list(states)
        self._problems: tuple[list[Any], Any] | None = None  # those of the runs, and of all chains

    def step(self, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]) -> list[float]:
        """Take one sweep of all runs that are not done.

        Args:
            batch: Inputs (runs, rows, inputs) and targets (runs, rows, ...).
            generators: Source of randomness of each run.

        Returns:
            The loss of each run; 0 of one that is done or lost.
        """
        losses = [0.0] * len(self.states)
        going = [k for k in range(len(self.states)) if self._goes_on(k)]
        if not going:
            return losses
        rows = [(batch[0][k], batch[1][k]) for k in going]
        problem = self._joined([self.trainers[k].problem_of(own) for k, own in zip(going, rows, strict=True)])
        if int(self.states[going[0]].step) == 0:
            self._start(problem, rows, generators)
        chains = joined([self.states[k].chains for k in going])
        rate = self.trainer.learning_rate(int(self.states[going[0]].step))
        chains = self.trainer.targets.sweep(problem, chains, generators[0], rate)
        for k, own, part in zip(going, rows, parts(chains, len(going)), strict=True):
            self.states[k], info = self.trainers[k].after_sweep(self.states[k], part, own, generators[0])
            losses[k] = float(info.nll)
        return losses

    def _start(self, problem: Any, rows: Sequence[Batch], generators: Sequence[torch.Generator]) -> None:
        """Find where the chains of all runs start."""
        targets, runs = self.trainer.targets, len(self.states)
        if targets.starts_jointly:
            chains = targets.start(problem, joined([state.chains for state in self.states]), generators[0])
            placed = zip(self.trainers, self.states, parts(chains, runs), strict=True)
            self.states = [trainer.at_start(state, own) for trainer, state, own in placed]
        else:
            each = zip(self.trainers, self.states, rows, generators, strict=True)
            self.states = [trainer.started(state, own, generator) for trainer, state, own, generator in each]

    def _goes_on(self, k: int) -> bool:
        """Tell whether a run is neither done nor lost to numbers that are not finite."""
        state = self.states[k]
        return not self.trainers[k].is_done(state) and bool(state.chains.linear.weights.isfinite().all())

    def _joined(self, problems: list[Any]) -> Any:
        """Return the problem of all chains, built anew when the runs are others."""
        known = self._problems
        if known is None or list(map(id, known[0])) != list(map(id, problems)):
            known = problems, self.trainer.targets.joined(problems, self.trainer.settings.chains)
            self._problems = known
        return known[1]


def joined(trees: Sequence[Any]) -> Any:
    """Join chains of several runs.

    Args:
        trees: The chains of each run: NamedTuples of NamedTuples and tensors, chains first.

    Returns:
        The chains of all runs, one run after the other.
    """
    first = trees[0]
    if isinstance(first, Tensor):
        return torch.cat(list(trees))
    return type(first)(*(joined(values) for values in zip(*trees, strict=True)))


def parts(tree: Any, runs: int) -> list[Any]:
    """Split chains into those of each run; the inverse of `joined`.

    Args:
        tree: The chains of all runs.
        runs: Number of runs.

    Returns:
        The chains of each run, in tensors of their own.
    """
    if isinstance(tree, Tensor):
        return [part.clone() for part in tree.chunk(runs)]
    return [type(tree)(*values) for values in zip(*(parts(value, runs) for value in tree), strict=True)]
