"""The fits of a search for a stack of models: candidates on all rows but those of a fold, or on all rows.

Every fit is an ordinary run in a folder of its own, as in `several_runs`, so an interrupted search goes on with what is
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError
from r2d2net.likelihoods import Likelihood
from r2d2net.posterior import Posterior
from r2d2net.run.batches import mix
from r2d2net.run.fit import Request
from r2d2net.run.prepare import prepare
from r2d2net.run.several_runs import run_all
from r2d2net.run.stack_candidates import Candidate
from r2d2net.run.stacked_network import model_of
from r2d2net.run.train import Plan

FOLDS = 4
MOST_ROWS, HELD_SHARE, MOST_HELD = 3000, 0.1, 2000  # of folds; above, so many rows are held out once
WHOLE = -1  # number of the fit to all rows, beside those of the folds


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched: the table as the networks see it, and the candidates.

    Attributes:
        x: Standardised inputs, (n, p).
        y: Targets as the likelihood takes them.
        likelihood: The likelihood of the targets as the networks see them.
        network: Arguments of `mlp` without ``linear``.
        candidates: The models.
        folds: Rows that each fold leaves out.
        seed: Seed of everything random.
        checkpoint_every: Seconds between checkpoints of a run.
        own: The likelihood of the targets in the user's units.
        log_slope: What log densities in the user's units have more than on the network's scale, (n,).
        calibrate: Whether rows left out calibrate intervals.
        weights: Weights of the rows, (n,); None for none.
    """

    x: Tensor
    y: Tensor
    likelihood: Likelihood[Any]
    network: dict[str, Any]
    candidates: Sequence[Candidate]
    folds: Sequence[Tensor]
    seed: int
    checkpoint_every: float
    own: Likelihood[Any]
    log_slope: Tensor
    calibrate: bool = False
    weights: Tensor | None = None

    def of_rows(self, rows: Tensor) -> Tensor | None:
        """Return the weights of some rows; None where there are none."""
        return None if self.weights is None else self.weights[rows]

    def rows_of(self, fold: int) -> Tensor:
        """Return the numbers of the rows to which a fold's fits are fitted: as many for each, so that they go together.

        Where folds are of unequal size, a row that the fold does not leave out is missing in some; among classes it is
        one of the most frequent.
        """
        kept = torch.ones(len(self.y), dtype=torch.bool, device=self.y.device)
        if fold == WHOLE:
            return kept.nonzero().squeeze(1)
        kept[self.folds[fold]] = False
        extra = int(kept.sum()) - (len(self.y) - max(map(len, self.folds)))
        if extra > 0:
            spare = self.folds[(fold + 1) % len(self.folds)]  # in a random order of all rows these are any
            if self.likelihood.has_classes:
                labels = self.y[spare].reshape(-1)
                spare = spare[labels == labels.mode().values]
            kept[spare[len(spare) // 2 :][:extra]] = False
        return kept.nonzero().squeeze(1)

    def plan(self, candidate: Candidate, fold: int) -> Plan:
        """Build the run of a candidate on the rows that a fold does not leave out, or on all rows."""
        rows = self.rows_of(fold)
        data = self.x[rows], self.y[rows]
        model = model_of(candidate.form, candidate.prior, self.network, self.likelihood, self.seed, self.x)
        request = Request(
            model=model,
            method=candidate.method,
            epochs=candidate.epochs,
            seed=mix(self.seed, fold + 1),
            standardize=False,
            checkpoint_every=self.checkpoint_every,
            weighs=self.weights is not None,
        ).checked(data)
        weights = self.of_rows(rows)
        prepared = prepare(model, data, request.batch_size, request.seed, None, None, False, weights)
        plan = request.plans(prepared)[0]
        name = candidate.name.replace(", ", "-").replace(" ", "-").lower()
        settings = {**plan.settings, "candidate": f"{name}-{'whole' if fold == WHOLE else fold}"}
        return replace(plan, settings=settings, is_part=True)  # the health that counts is that of the mixture


class Fitted(NamedTuple):
    """A candidate that has been fitted."""

    candidate: Candidate
    posterior: Posterior[Any]


def folds_of(y: Tensor, seed: int, *, has_classes: bool) -> list[Tensor]:
    """Divide the rows into folds, or hold out one share of many.

    Args:
        y: Targets; classes are spread evenly over the folds.
        seed: Seed of the division.
        has_classes: Whether the targets are classes.

    Returns:
        The rows that each fit leaves out.
    """
    n = len(y)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(mix(seed, -3)))
    if n > MOST_ROWS:
        return [order[: min(MOST_HELD, round(HELD_SHARE * n))].to(y.device)]
    if has_classes:
        order = order[y.reshape(-1).cpu()[order].argsort(stable=True)]
    count = max(2, min(FOLDS, n))
    return [order[start::count].sort().values.to(y.device) for start in range(count)]


def fit_folds(
    search: Search, chosen: Sequence[int], folds: Sequence[int], folder: Path, jobs: int | None, verbose: bool
) -> list[list[Fitted | None]]:
    """Fit some of the candidates to all rows but those of each fold; None for the other ones."""
    fitted = fit_all(search, [(search.candidates[k], fold) for fold in folds for k in chosen], folder, jobs, verbose)
    by_fold = [dict(zip(chosen, fitted[at:], strict=False)) for at in range(0, len(fitted), len(chosen))]
    return [[each.get(k) for k in range(len(search.candidates))] for each in by_fold]


def fit_all(
    search: Search, wanted: Sequence[tuple[Candidate, int]], folder: Path, jobs: int | None, verbose: bool
) -> list[Fitted | None]:
    """Fit candidates; None for those that diverged or do not suit the rows."""
    plans: list[Plan] = []
    places: list[int] = []
    for position, (candidate, fold) in enumerate(wanted):
        try:
            plan = search.plan(candidate, fold)
            plan.trainer  # noqa: B018 (refuses what does not go together)
        except (DataError, ParameterError):
            continue
        plans.append(plan)
        places.append(position)
    fitted: list[Fitted | None] = [None] * len(wanted)
    if not plans:
        return fitted
    for position, posterior in zip(places, run_all(plans, folder, jobs, verbose), strict=True):
        if posterior is not None:
            fitted[position] = Fitted(wanted[position][0], posterior)
    return fitted
