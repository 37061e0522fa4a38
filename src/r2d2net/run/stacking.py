"""Several models of a table, combined by stacking of predictive densities into one posterior.

1. Every candidate (`stack_candidates`) is fitted to all but one of K folds, K times; tables of more than `MOST_ROWS`
   rows hold out one share of the rows instead. The densities of the rows left out give the weights
   (`stacking_weights`).
   Linear models of classes first get the spread of their draws (`linear_spread`) that suits these rows best: exact
   draws of nearly separable classes spread too widely.
2. The candidates with a weight are fitted to all rows. Half of such a candidate's draws are of that fit, and half of
   its fits of the folds, which cost nothing more and start elsewhere: chains of networks find other modes there.
3. Draws of all candidates, in proportion to the weights, are stored as draws of the smallest network of the form
   y = A x + f(x) that has them as special cases.

Rows left out also calibrate intervals (`r2d2net.interval_calibration`), by the mixture of the fits that have not seen
them. Inputs and targets are standardised once, by all rows, so that all draws are of one network. Every fit is an
ordinary run in a folder of its own, as in `several_runs`, so an interrupted search goes on with what is there.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial as partial_of
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import torch
from torch import Tensor

from r2d2net import checkpoint
from r2d2net.errors import CheckpointError, DataError, DivergenceError, ParameterError, require
from r2d2net.inference.collection import Collection, CollectionState
from r2d2net.inference.linear_collection import LinearCollection
from r2d2net.inference.stacked import TRAITS, Stacked
from r2d2net.interval_calibration import FEWEST, IntervalCalibration, containing_level
from r2d2net.likelihoods import Likelihood
from r2d2net.likelihoods.weighted import Weighted
from r2d2net.nets import mlp
from r2d2net.posterior import FILE, INTERRUPTED, Posterior, load
from r2d2net.priors import R2D2
from r2d2net.run.batches import TensorBatches, mix
from r2d2net.run.fit import Request
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.health import NOT_CHECKED, look_at, warn_of
from r2d2net.run.health_line import flags, line
from r2d2net.run.prepare import Prepared, prepare
from r2d2net.run.progress import lines
from r2d2net.run.resume import require_same
from r2d2net.run.row_weights import in_proportion
from r2d2net.run.several_runs import FOLDER, clear, run_all
from r2d2net.run.stack_budget import Budget
from r2d2net.run.stack_candidates import Candidate, Form, Shape, candidates_for
from r2d2net.run.stacked_network import embed, form_network, model_of
from r2d2net.run.stacking_weights import stacking_weights
from r2d2net.run.train import Plan
from r2d2net.specification import describe, describe_model, network_text, reading

FOLDS = 4
MOST_ROWS, HELD_SHARE, MOST_HELD = 3000, 0.1, 2000  # of folds; above, so many rows are held out once
DRAWS = 400  # of the mixture
MEMORY = 1 << 28  # most bytes of them
SCORE_DRAWS = 200  # networks that predict a row left out
HELD_DENSITY = -50.0  # log density of a row in standardised units below which a candidate is no worse for it
SPREADS = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the draws of linear models of classes
BY_WEIGHTS = ("loo_k", "loo_bad", "loo_exact", "elpd_gain", "elpd_gain_error", "flags", "line")  # measures of a health
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

    def plan(self, candidate: Candidate, fold: int) -> Plan:
        """Build the run of a candidate on the rows that a fold does not leave out, or on all rows."""
        rows = torch.ones(len(self.y), dtype=torch.bool, device=self.y.device)
        if fold != WHOLE:
            rows[self.folds[fold]] = False
        data = self.x[rows], self.y[rows]
        model = model_of(candidate.form, candidate.prior, self.network, self.likelihood, self.seed, self.x)
        request = Request(
            model=model,
            method=candidate.method,
            automatic=False,
            epochs=candidate.epochs,
            batch_size=None,
            seed=mix(self.seed, fold + 1),
            validation=None,
            patience=None,
            score="nll",
            prior=None,
            restarts=1,
            jobs=1,
            n=None,
            standardize=False,
            checkpoint_to=None,
            checkpoint_every=self.checkpoint_every,
            resume=None,
            weighs=self.weights is not None,
        ).checked(data)
        weights = self.of_rows(rows)
        prepared = prepare(model, data, request.batch_size, request.seed, None, None, False, weights)
        plan = request.plans(prepared)[0]
        name = candidate.name.replace(", ", "-").replace(" ", "-").lower()
        return replace(plan, settings={**plan.settings, "candidate": f"{name}-{'whole' if fold == WHOLE else fold}"})


class Fitted(NamedTuple):
    """A candidate that has been fitted."""

    candidate: Candidate
    posterior: Posterior[Any]


def fit_stacked(
    data: tuple[Any, Any],
    likelihood: Likelihood[Any],
    *,
    hidden: Sequence[int] = (50, 50),
    outputs: int = 1,
    activation: str = "relu",
    seed: int = 0,
    device: Any = None,
    time: float | None = None,
    begun: float | None = None,
    jobs: int | None = None,
    resume: Path | None = None,
    checkpoint_every: float = 60.0,
    verbose: bool = True,
    calibrate: bool = True,
    weights: Any = None,
) -> Posterior[Any]:
    """Fit several models to a table and combine them by stacking.

    Args:
        data: Inputs (n, p) and targets, tensors or arrays.
        likelihood: The likelihood.
        hidden: Widths of the networks' hidden layers.
        outputs: Number of outputs.
        activation: Name of the networks' activation.
        seed: Seed of everything random.
        device: Device of the computation.
        time: Seconds for the search: candidates whose fits are not expected to end in time are skipped, folds and fits
            to all rows that are not are left out (`stack_budget`); one fit is always made. What the search finds then
            depends on the machine. None for no bound.
        begun: When these seconds began, by `time.monotonic`; None for now.
        jobs: Fits at a time, in processes of one thread each; None for as many as there are cores.
        resume: Folder in which runs are kept, and the posterior in the end; an interrupted search is continued.
        checkpoint_every: Seconds between checkpoints of a run.
        verbose: Show progress on a terminal.
        calibrate: Calibrate intervals of numbers by the rows left out, where there are 100 or more.
        weights: How much each row counts, (n,), in fits, scores and calibration; None for alike.

    Returns:
        The posterior of a network whose arguments for `mlp` are ``posterior.settings["stack"]["network"]``.
        ``posterior.candidates`` has name, prior, algorithm, weight, spread and score of each candidate; the score is
        the mean log density of rows left out, in the user's units.

    Raises:
        DataError: If the data cannot be used.
        DivergenceError: If no candidate could be fitted.
    """
    is_number = isinstance(time, (int, float)) and not isinstance(time, bool)
    require(time is None or (is_number and time > 0), "time", time, "use a number of seconds above 0")
    start = clock.monotonic() if begun is None else begun
    inputs = int(torch.as_tensor(data[0][:1]).shape[1])
    widths = [int(width) for width in hidden]
    network = {"inputs": inputs, "hidden": widths, "outputs": outputs, "activation": activation}
    place = torch.zeros((), device=device)
    whole = model_of("both", R2D2(), network, likelihood, seed, place)
    prepared = prepare(whole, data, None, seed, None, None, True, weights)
    assert isinstance(prepared.batches, TensorBatches)
    x, y = prepared.batches.x, prepared.own_y
    shape = Shape(len(y), inputs, tuple(widths), outputs)
    request = {
        "network": network,
        "likelihood": describe(likelihood),
        "seed": seed,
        "time": time,
        "data": prepared.digest,
        **({} if calibrate else {"calibrate": False}),
    }
    done = None if resume is None else _finished(resume, request, seed, place)
    if done is not None:
        return done
    scaled = likelihood.on_network_scale()
    search = Search(
        x=x,
        y=y,
        likelihood=scaled,
        network=network,
        candidates=candidates_for(shape, Weighted.of(scaled, prepared.weights)),
        folds=folds_of(y, seed, has_classes=likelihood.has_classes),
        seed=seed,
        checkpoint_every=checkpoint_every,
        own=likelihood,
        log_slope=likelihood.log_slope(likelihood.target(torch.as_tensor(data[1]))),
        calibrate=calibrate and not likelihood.has_classes,
        weights=prepared.weights,
    )
    prepared = prepared.plain()
    if resume is None:
        with tempfile.TemporaryDirectory(prefix="r2d2net-") as temporary:
            posterior = _searched(search, prepared, request, Path(temporary), time, start, jobs, verbose)
    else:
        started = resume / INTERRUPTED
        if started.exists():
            with reading(started):
                require_same(started, checkpoint.read(started)[1]["settings"], request)
        else:
            clear(resume)
            checkpoint.write(started, {}, {"settings": request})
        posterior = _searched(search, prepared, request, resume / FOLDER, time, start, jobs, verbose)
        posterior.save(resume)
        started.unlink()
        clear(resume)
    warn_of(posterior.health, "stacking")
    return posterior


def _searched(
    search: Search,
    prepared: Prepared,
    request: dict[str, Any],
    folder: Path,
    time: float | None,
    start: float,
    jobs: int | None,
    verbose: bool,
) -> Posterior[Any]:
    """Score the candidates, weigh them, fit those with a weight to all rows and mix the draws."""
    show, names = lines(verbose=verbose), [candidate.name for candidate in search.candidates]
    budget = Budget(time, start, joblib.cpu_count() if jobs is None else jobs)
    longer = len(search.y) / max(1, len(search.y) - len(search.folds[0]))  # all rows beside those of a fold's fits
    chosen = budget.first({k: partial_of(search.plan, each, 0) for k, each in enumerate(search.candidates)})
    jobs = jobs if time is None else budget.workers
    partial: list[list[Fitted | None]] = []
    rows: list[Tensor] = []
    batch = len(search.folds) if time is None else 1
    for first in range(0, len(search.folds), batch):
        folds = range(first, min(first + batch, len(search.folds)))
        begun = clock.monotonic()
        partial += _fit_folds(search, chosen, folds, folder, jobs, verbose)
        rows += [search.folds[fold] for fold in folds]
        if time is None:
            continue
        if not any(partial[0]) and len(chosen) < len(names):  # those that were chosen cannot be fitted
            chosen = list(range(len(names)))
            partial = _fit_folds(search, chosen, folds, folder, jobs, verbose)
        budget.learn(chosen, clock.monotonic() - begun)
        if budget.used + (1 + longer) * budget.together(chosen) > time:  # another fold and fits to all rows
            break
    budget.skipped = [name for k, name in enumerate(names) if k not in chosen]
    spreads = [_choose_spread(search, [each[k] for each in partial], rows) for k in range(len(names))]
    partial = [[_spread(member, c) for member, c in zip(each, spreads, strict=True)] for each in partial]
    densities = torch.cat([log_densities(search, each, left) for each, left in zip(partial, rows, strict=True)])
    fits = ~densities.isnan().any(0)
    if not bool(fits.any()):
        raise DivergenceError("no candidate of the search could be fitted", fix="look for extreme values in columns")
    weights = torch.zeros(len(names), dtype=torch.float64)
    counts = search.of_rows(torch.cat(rows))
    counts = None if counts is None else counts.cpu()
    weights[fits] = stacking_weights(densities[:, fits].clamp(min=HELD_DENSITY), rows=counts).cpu()
    kept = [k for k in range(len(names)) if weights[k] > 0]
    refitted = sorted(budget.affordable(sorted(kept, key=lambda k: -float(weights[k])), longer))
    budget.not_refitted = [names[k] for k in kept if k not in refitted]
    found = _fit_all(search, [(search.candidates[k], WHOLE) for k in refitted], folder, jobs, verbose)
    whole_of = dict(zip(refitted, found, strict=True))
    wholes = [_spread(whole_of.get(k), spreads[k]) for k in kept]
    members: list[list[tuple[Fitted, float]]] = []
    for k, whole in zip(kept, wholes, strict=True):
        of_folds = [member for each in partial if (member := each[k]) is not None]
        share = 0.5 if whole is not None and of_folds else 1.0
        own = [] if whole is None else [(whole, share)]
        own += [(member, share / len(of_folds)) for member in of_folds]
        members.append([(member, float(weights[k]) * part) for member, part in own])
    shift = user_shift(prepared, search)[torch.cat(rows).cpu()]
    levels = None
    if search.calibrate and sum(map(len, rows)) >= FEWEST:
        levels = torch.cat([_levels(search, each, left, weights) for each, left in zip(partial, rows, strict=True)])
        levels = levels if counts is None else levels[in_proportion(counts, len(counts)).to(levels.device)]
    entries = []
    for k, candidate in enumerate(search.candidates):
        score = float(_average(densities[:, k].cpu() + shift, counts))
        entries.append(
            {
                "name": candidate.name,
                "prior": type(candidate.prior).__name__,
                "algorithm": type(candidate.method).__name__,
                "weight": round(float(weights[k]), 4),
                "spread": spreads[k],
                "score": score if np.isfinite(score) else None,
            }
        )
        show(f"candidate {candidate.name}: weight {weights[k]:.2f}, log density {score:.4g}")
    posterior = _mixture(search, prepared, request, [pair for own in members for pair in own], entries, len(rows))
    posterior.health = with_held_out(posterior.health, mixture_densities(densities, weights) + shift)
    posterior.calibration = None if levels is None else IntervalCalibration.of(levels)
    if time is not None:
        stack = {**posterior.settings["stack"], "time": budget.record()}
        posterior.settings = {**posterior.settings, "stack": stack}
    return posterior


def _average(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of numbers of rows, by their weights."""
    return values.mean() if weights is None else (values * weights).sum() / weights.sum()


# --- fits


def _fit_folds(
    search: Search, chosen: Sequence[int], folds: Sequence[int], folder: Path, jobs: int | None, verbose: bool
) -> list[list[Fitted | None]]:
    """Fit some of the candidates to all rows but those of each fold; None for the other ones."""
    fitted = _fit_all(search, [(search.candidates[k], fold) for fold in folds for k in chosen], folder, jobs, verbose)
    by_fold = [dict(zip(chosen, fitted[at:], strict=False)) for at in range(0, len(fitted), len(chosen))]
    return [[each.get(k) for k in range(len(search.candidates))] for each in by_fold]


def _fit_all(
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


def log_densities(search: Search, fitted: Sequence[Fitted | None], left_out: Tensor) -> Tensor:
    """Compute the log density of rows by candidates, on the network's scale.

    Args:
        search: What is searched.
        fitted: The fits.
        left_out: Numbers of the rows.

    Returns:
        The log densities, (rows, candidates); NaN for candidates that were not fitted.
    """
    columns = []
    for each in fitted:
        if each is None:
            columns.append(torch.full((len(left_out),), torch.nan, dtype=torch.float64))
            continue
        predicted = each.posterior.predict(search.x[left_out], SCORE_DRAWS, seed=search.seed)
        log_density = predicted.log_prob(search.y[left_out]).double().cpu()
        columns.append(log_density.reshape(len(left_out), -1).sum(1))
    return torch.stack(columns, 1)


def mixture_densities(densities: Tensor, weights: Tensor) -> Tensor:
    """Compute the log density of rows left out by the mixture of the candidates.

    Args:
        densities: Log density of each row by each candidate, (rows, candidates).
        weights: The weights, (candidates,); 0 of those that were not fitted.

    Returns:
        The log densities, (rows,).

    >>> mixture_densities(torch.tensor([[0.0, -1.0, torch.nan]]), torch.tensor([1.0, 0.0, 0.0])).tolist()
    [0.0]
    """
    kept = weights.cpu() > 0
    return torch.logsumexp(densities.cpu()[:, kept] + weights.cpu()[kept].log(), 1)


def with_held_out(health: dict[str, Any], densities: Tensor) -> dict[str, Any]:
    """Give a health the log density of rows that were really left out, in place of its estimate by importance weights.

    Args:
        health: The measures of `look_at`, with their line.
        densities: Log density of each row left out by the mixture, in the user's units.

    Returns:
        The health, with "elpd_by" that says by what rows the density is.
    """
    measured = {name: value for name, value in health.items() if name not in BY_WEIGHTS}
    if measured["verdict"] != NOT_CHECKED and bool(densities.isfinite().all()):
        error = float(densities.std(correction=0)) / len(densities) ** 0.5
        measured |= {"elpd": float(densities.mean()), "elpd_error": error, "elpd_by": "rows left out by folds"}
    else:
        measured = {name: value for name, value in measured.items() if name not in ("elpd", "elpd_error")}
    measured["flags"] = flags(measured)
    return {**measured, "line": line(measured)}


def user_shift(prepared: Prepared, search: Search) -> Tensor:
    """Compute what log densities in the user's units have more than those of the networks' targets.

    Args:
        prepared: The data as prepared with the user's likelihood.
        search: What is searched.

    Returns:
        The differences, (n,), on the CPU.
    """
    scale = prepared.units.y.scale.double().log().sum() if search.own.standardizes else torch.zeros(())
    return search.log_slope.double().cpu() - scale.cpu()


def _levels(search: Search, fitted: Sequence[Fitted | None], left_out: Tensor, weights: Tensor) -> Tensor:
    """Return the least levels at which intervals of the mixture contain rows left out, (rows, outputs)."""
    y, total = search.y[left_out], 0.0
    at, before = torch.zeros_like(y, dtype=torch.float64), torch.zeros_like(y, dtype=torch.float64)
    for each, weight in zip(fitted, weights.tolist(), strict=True):
        if each is None or weight == 0:
            continue
        predicted = each.posterior.predict(search.x[left_out], SCORE_DRAWS, seed=search.seed)
        below = predicted.cdf(y)
        at, total = at + weight * below, total + weight
        before = before + weight * (predicted.cdf(y - 1) if predicted.is_discrete else below)
    return containing_level(at / total, before / total)


def _choose_spread(search: Search, fitted: Sequence[Fitted | None], rows: Sequence[Tensor]) -> float:
    """Return the spread with the highest density of rows left out; 1 unless it gains more than a standard error."""
    members = [(member, left) for member, left in zip(fitted, rows, strict=True) if member is not None]
    if not (search.likelihood.has_classes and members and isinstance(members[0][0].posterior.source, LinearCollection)):
        return 1.0
    scores = torch.stack(
        [
            torch.cat([log_densities(search, [_spread(member, c)], left) for member, left in members])[:, 0]
            for c in SPREADS
        ]
    )
    best = int(scores.mean(1).argmax())
    gain = scores[best] - scores[SPREADS.index(1.0)]
    return SPREADS[best] if float(gain.mean()) > float(gain.std(correction=0)) / len(gain) ** 0.5 else 1.0


def _spread(fitted: Fitted | None, spread: float) -> Fitted | None:
    """Return a fitted linear model with another spread of its draws."""
    if fitted is None or spread == 1:
        return fitted
    posterior, source = copy.copy(fitted.posterior), fitted.posterior.source
    assert isinstance(source, LinearCollection)
    posterior.source = source.with_spread(spread)
    return Fitted(fitted.candidate, posterior)


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


# --- the mixture


def _mixture(
    search: Search,
    prepared: Prepared,
    request: dict[str, Any],
    members: Sequence[tuple[Fitted, float]],
    entries: list[dict[str, Any]],
    folds: int,
) -> Posterior[Any]:
    """Store draws of the members, in proportion to their weights, as one posterior."""
    forms: set[Form] = {fitted.candidate.form for fitted, _ in members}
    form: Form = next(iter(forms)) if len(forms) == 1 else "both"
    whole = model_of(form, R2D2(), search.network, search.own, search.seed, search.x)
    total = max(len(members), min(DRAWS, MEMORY // (4 * whole.size)))
    generator = torch.Generator(search.x.device).manual_seed(mix(search.seed, -4))
    weights, noises = [], []
    for (fitted, _), count in zip(members, shares([weight for _, weight in members], total), strict=True):
        if count == 0:
            continue
        drawn = fitted.posterior.source.joined(count, generator)
        weights.append(embed(drawn, fitted.candidate.form, fitted.posterior.model, form, whole))
        noises.append(drawn.noise)
    stored = torch.cat(weights)[None]
    noise = {name: torch.cat([each[name] for each in noises])[None] for name in noises[0]}
    state = CollectionState(
        step=torch.zeros((), dtype=torch.int64),
        weights=stored,
        fixed=stored.new_zeros(*stored.shape[:2], 0),
        buffers={},
        noise=noise,
        divergences=torch.zeros(1, dtype=torch.int64),
    )
    source = Collection(whole, state, **TRAITS)
    best = max(members, key=lambda member: member[1])[0].posterior
    settings = {
        **best.settings,
        "algorithm": describe(Stacked(folds=folds)),
        "model": describe_model(whole),
        "network": network_text(whole),
        "candidate": "mixture",
        "seed": search.seed,
        "n": len(search.y),
        "standardize": True,
        "flat_target": prepared.flat_target,
        "data": prepared.digest,
        "chosen": in_words(entries),
        "stack": {"network": form_network(form, search.network), "request": request},
    }
    return Posterior(
        source,
        prepared.units,
        flat_target=prepared.flat_target,
        history=best.history,
        settings=settings,
        candidates=entries,
        health=look_at(source, prepared),
    )


def shares(weights: Sequence[float], total: int) -> list[int]:
    """Divide a number of draws in proportion to weights, the largest remainders first.

    >>> shares([0.5, 0.3, 0.2], 10), shares([0.5, 0.25, 0.25], 2)
    ([5, 3, 2], [1, 1, 0])
    """
    exact = np.asarray(weights, dtype=np.float64) / sum(weights) * total
    counts = np.floor(exact).astype(int)
    for position in np.argsort(counts - exact, kind="stable")[: total - counts.sum()]:
        counts[position] += 1
    return [int(count) for count in counts]


def in_words(entries: Sequence[dict[str, Any]]) -> str:
    """Say which candidates a mixture is made of, the heaviest first.

    >>> in_words([{"name": "linear, R2D2", "weight": 0.25}, {"name": "network, R2D2", "weight": 0.75}])
    'stacking of 2 models: 75% network, R2D2; 25% linear, R2D2'
    """
    ranked = sorted((entry for entry in entries if entry["weight"] > 0), key=lambda entry: -entry["weight"])
    parts = "; ".join(f"{entry['weight']:.0%} {entry['name']}" for entry in ranked)
    return f"stacking of {len(entries)} models: {parts}"


def _finished(folder: Path, request: dict[str, Any], seed: int, like: Tensor) -> Posterior[Any] | None:
    """Return the posterior of a search that came to its end in this folder, or None."""
    path = folder / FILE
    if not path.exists() or (folder / INTERRUPTED).exists():
        return None
    with reading(path):
        settings = checkpoint.read(path)[1]["settings"]
        if "stack" not in settings:
            raise CheckpointError("holds a run of another kind", value=folder, fix="give another folder")
        require_same(path, settings["stack"]["request"], request)
        with lent_generator(seed, torch.device("cpu")):
            net = mlp(**settings["stack"]["network"]).to(like.device)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return load(folder, net)
