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
them. Inputs and targets are standardised once, by all rows, so that all draws are of one network. The fits are in
`stack_fits`, what rows left out say of them in `stack_scores`, and the posterior's draws in `stack_mixture`.
"""

from __future__ import annotations

import shutil
import tempfile
import time as clock
from collections.abc import Sequence
from functools import partial as partial_of
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import Tensor

from r2d2net import checkpoint
from r2d2net.errors import CheckpointError, DivergenceError, require
from r2d2net.folder_lock import writing
from r2d2net.interval_calibration import FEWEST, IntervalCalibration
from r2d2net.likelihoods import Likelihood
from r2d2net.likelihoods.weighted import Weighted
from r2d2net.manifest import tidy
from r2d2net.nets import mlp
from r2d2net.posterior import FILE, INTERRUPTED, Posterior
from r2d2net.priors import R2D2
from r2d2net.run.batches import TensorBatches
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.health import warn_of
from r2d2net.run.prepare import Prepared, prepare
from r2d2net.run.progress import lines
from r2d2net.run.resume import finished_file, require_same
from r2d2net.run.row_weights import in_proportion
from r2d2net.run.several_runs import FOLDER, clear
from r2d2net.run.stack_budget import Budget
from r2d2net.run.stack_candidates import Shape, candidates_for
from r2d2net.run.stack_fits import WHOLE, Fitted, Search, fit_all, fit_folds, folds_of
from r2d2net.run.stack_mixture import mixture_of
from r2d2net.run.stack_scores import (
    average,
    choose_spread,
    gain_of,
    least_levels,
    log_densities,
    mixture_densities,
    user_shift,
    with_held_out,
    with_spread,
)
from r2d2net.run.stacked_network import model_of
from r2d2net.run.stacking_weights import stacking_weights
from r2d2net.saved_posteriors import load_saved
from r2d2net.specification import describe, reading

HELD_DENSITY = -50.0  # log density of a row in standardised units below which a candidate is no worse for it


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
        with writing(resume):
            started = resume / INTERRUPTED
            if started.exists():
                with reading(started):
                    require_same(started, checkpoint.read(started)[1]["settings"], request)
            else:
                clear(resume)
                checkpoint.write(started, {}, {"settings": request})
            tidy(resume)
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
        partial += fit_folds(search, chosen, folds, folder, jobs, verbose)
        rows += [search.folds[fold] for fold in folds]
        if time is None:
            continue
        budget.note(f"fold {first + 1}", begun, budget.together(chosen) or None)
        if not any(partial[0]) and len(chosen) < len(names):  # those that were chosen cannot be fitted
            chosen = list(range(len(names)))
            partial = fit_folds(search, chosen, folds, folder, jobs, verbose)
        budget.learn(chosen, clock.monotonic() - begun)
        if budget.used + (1 + longer) * budget.together(chosen) > time:  # another fold and fits to all rows
            break
    budget.skipped = [name for k, name in enumerate(names) if k not in chosen]
    spreads = [choose_spread(search, [each[k] for each in partial], rows) for k in range(len(names))]
    partial = [[with_spread(member, c) for member, c in zip(each, spreads, strict=True)] for each in partial]
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
    begun = clock.monotonic()
    found = fit_all(search, [(search.candidates[k], WHOLE) for k in refitted], folder, jobs, verbose)
    budget.note("fits to all rows", begun, longer * budget.together(refitted) if refitted else None)
    whole_of = dict(zip(refitted, found, strict=True))
    wholes = [with_spread(whole_of.get(k), spreads[k]) for k in kept]
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
        levels = torch.cat(
            [least_levels(search, each, left, weights) for each, left in zip(partial, rows, strict=True)]
        )
        levels = levels if counts is None else levels[in_proportion(counts, len(counts)).to(levels.device)]
    entries = []
    for k, candidate in enumerate(search.candidates):
        score = float(average(densities[:, k].cpu() + shift, counts))
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
    posterior = mixture_of(search, prepared, request, [pair for own in members for pair in own], entries, len(rows))
    mixed, left = mixture_densities(densities, weights), torch.cat(rows).cpu()
    gain = gain_of(search, mixed, left)
    posterior.health = with_held_out(posterior.health, mixed + shift, left, len(search.y), gain)
    posterior.calibration = None if levels is None else IntervalCalibration.of(levels)
    if time is not None:
        stack = {**posterior.settings["stack"], "time": budget.record()}
        posterior.settings = {**posterior.settings, "stack": stack}
    return posterior


def _finished(folder: Path, request: dict[str, Any], seed: int, like: Tensor) -> Posterior[Any] | None:
    """Return the posterior of a search that came to its end in this folder, or None."""
    path = folder / FILE
    saved = finished_file(folder)
    if saved is None:
        return None
    settings = saved.settings
    with reading(path):
        if "stack" not in settings:
            raise CheckpointError("holds a run of another kind", value=folder, fix="give another folder")
        require_same(path, settings["stack"]["request"], request)
        with lent_generator(seed, torch.device("cpu")):
            net = mlp(**settings["stack"]["network"]).to(like.device)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return load_saved(saved, net)
