"""`fit`: from data and a model to a posterior, and going on after an interruption.

The run is a pure function of (model, data, settings, seed): the order of the rows depends on (seed, epoch), the draws
of Dropout layers on (seed, step), all other randomness on one generator whose state is in every checkpoint. So a run
that is killed at any moment and resumed ends bitwise where the uninterrupted one ends.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from r2d2net import checkpoint
from r2d2net.errors import DataError, DivergenceError, ParameterError, R2D2NetError, require, require_whole
from r2d2net.inference import SVGI, Method, Running
from r2d2net.inference.base import Batch
from r2d2net.model import BayesianModel
from r2d2net.posterior import INTERRUPTED, Posterior
from r2d2net.run.batches import (
    Batches,
    DatasetBatches,
    LoaderBatches,
    Prepare,
    TensorBatches,
    as_arrays,
    default_batch_size,
    mix,
    rows_of,
    take,
)
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.progress import progress
from r2d2net.run.resume import Progressing, data_digest, finished, network_text, restore, store
from r2d2net.specification import describe, describe_model
from r2d2net.units import Units, measure_units, no_units

VALIDATION_DRAWS = 20


def fit(
    model: BayesianModel,
    data: Any,
    algorithm: Method | None = None,
    *,
    epochs: int = 100,
    batch_size: int | None = None,
    seed: int = 0,
    validation: float | tuple[Any, Any] | None = None,
    patience: int | None = None,
    n: int | None = None,
    standardize: bool = True,
    checkpoint_to: str | Path | None = None,
    checkpoint_every: Literal["epoch"] | float = 60.0,
    resume: str | Path | None = None,
    verbose: bool = True,
) -> Posterior:
    """Fit a Bayesian model.

    Args:
        model: The model; it is not changed.
        data: (x, y) as tensors or arrays, a torch Dataset, or a DataLoader.
        algorithm: How to infer; SVGI by default.
        epochs: Passes over the data.
        batch_size: Rows of a step; by default chosen from n. A DataLoader brings its own.
        seed: Seed of everything random in the run.
        validation: Share of the rows to hold out, or (x, y). Its score is the negative log predictive density of a
            row in the user's units, and the epoch with the best score is the one that is kept.
        patience: Stop when the score has not improved for so many epochs; needs validation.
        n: Number of training rows, for streams that cannot tell.
        standardize: Give the network inputs (of tables) and regression targets of mean 0 and variance 1.
        checkpoint_to: Folder for the run's checkpoint, replaced as the run goes on, and for its posterior at the end.
            A checkpoint that is already there is replaced too: to go on from it use ``resume``.
        checkpoint_every: "epoch", or a number of seconds after which the next step is followed by a checkpoint; 0
            writes one after every step. Besides, there is one at the start.
        resume: Folder of an interrupted run with the same model, data and settings: goes on from its checkpoint and
            ends bitwise where the uninterrupted run would. It takes the place of ``checkpoint_to``: where there is no
            checkpoint yet the run starts, and where it is finished the saved posterior is returned.
        verbose: Show progress on a terminal.
    """
    for name, value in (("epochs", epochs), ("patience", patience), ("batch_size", batch_size), ("n", n)):
        if value is not None or name == "epochs":
            require_whole(name, value)
    require(isinstance(seed, int), "seed", repr(seed), "use a whole number")
    if not isinstance(model, BayesianModel):
        raise ParameterError(f"model is a {type(model).__name__}: wrap the network in r2d2net.BayesianModel")
    if algorithm is not None and not callable(getattr(algorithm, "build", None)):
        raise ParameterError(f"algorithm={algorithm!r} is no algorithm: use one of r2d2net.inference, such as SVGI()")
    every = 0.0 if checkpoint_every == "epoch" else checkpoint_every
    in_range = isinstance(every, (int, float)) and every >= 0
    require(in_range, "checkpoint_every", repr(checkpoint_every), "use 'epoch' or a number of seconds from 0")
    if patience is not None and validation is None:
        raise ParameterError(f"patience={patience} needs validation data: give validation=0.1, say")
    if resume is not None and checkpoint_to is not None and Path(resume) != Path(checkpoint_to):
        raise ParameterError(f"resume={resume} and checkpoint_to={checkpoint_to} differ: give resume alone")
    method, seed = SVGI() if algorithm is None else algorithm, int(seed)
    prepared = _prepare(model, data, batch_size, seed, validation, n, standardize)
    running = method.build(
        model, n=prepared.batches.n, steps=epochs * prepared.batches.per_epoch(), inputs=prepared.inputs
    )
    settings = {
        "algorithm": describe(method),
        "model": describe_model(model),
        "network": network_text(model),
        "epochs": int(epochs),
        "batch_size": None if batch_size is None else int(batch_size),
        "seed": seed,
        "validation": "given" if isinstance(validation, (tuple, list)) else validation,
        "patience": None if patience is None else int(patience),
        "standardize": bool(standardize),
        "n": prepared.batches.n,
        "batches": prepared.batches.per_epoch(),
        "inputs": prepared.inputs,
        "flat_target": prepared.flat_target,
        "data": prepared.digest,
    }
    place = checkpoint_to if resume is None else resume
    folder = None if place is None else Path(place)
    if folder is not None and resume is not None:
        done = finished(folder, model, settings)
        if done is not None:
            return done
    generator = torch.Generator(model.device).manual_seed(mix(seed, -1))
    run = Progressing(running.init(prepared.y, generator, prepared.units.y))
    if folder is not None:
        if resume is not None and (folder / INTERRUPTED).exists():
            restore(folder, run, generator, settings)
        else:
            store(folder, run, generator, settings)
        checkpoint.remove_partial(folder)
    _loop(run, running, prepared, generator, settings, folder, checkpoint_every, verbose)
    final = run.state if run.best is None else run.best
    posterior = Posterior(
        running, final, prepared.units, flat_target=prepared.flat_target, history=run.history, settings=settings
    )
    if folder is not None:
        posterior.save(folder)
        (folder / INTERRUPTED).unlink(missing_ok=True)
    return posterior


# --- data


@dataclass(frozen=True)
class Prepared:
    """Data ready to train on."""

    batches: Batches
    y: Tensor  # training targets as the network sees them
    units: Units
    validation: tuple[Any, Tensor] | None  # in the user's units
    flat_target: bool
    inputs: int | None
    digest: str  # of all rows; of a Dataset or DataLoader, of the validation rows alone


def _prepare(
    model: BayesianModel,
    data: Any,
    batch_size: int | None,
    seed: int,
    validation: float | tuple[Any, Any] | None,
    n: int | None,
    standardize: bool,
) -> Prepared:
    if isinstance(data, (DataLoader, Dataset)):
        return _prepare_stream(model, data, batch_size, seed, validation, n)
    x, y = as_arrays(data, model.device, model.dtype)
    if n is not None and n != len(y):
        raise ParameterError(f"n={n}, the data have {len(y)} rows: leave n out")
    held: tuple[Any, Tensor] | None = None
    if isinstance(validation, (tuple, list)):
        held = tuple(as_arrays(validation, model.device, model.dtype))
    elif validation is not None:
        share = isinstance(validation, (int, float)) and 0 < validation < 1
        require(share, "validation", repr(validation), "use a share between 0 and 1, or (x, y)")
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(mix(seed, -2))).to(y.device)
        count = max(1, round(validation * len(y)))
        if count >= len(y):
            raise DataError(f"validation={validation} leaves no training rows of {len(y)}")
        held = take(x, order[:count]), y[order[:count]]
        x, y = take(x, order[count:]), y[order[count:]]
    flat_target = y.dim() == 1
    target = _target(model, y)
    units = (
        measure_units(x, target, inputs=True, targets=model.likelihood.standardizes)
        if standardize
        else no_units(torch.zeros((), dtype=model.dtype, device=model.device))
    )
    seen = units.targets(target)
    rows = min(len(y), default_batch_size(len(y)) if batch_size is None else batch_size)
    inputs = x.shape[1] if isinstance(x, Tensor) and x.dim() == 2 else None
    batches = TensorBatches(units.inputs(x), seen, rows, seed)
    _try_forward(model, next(batches.epoch(0)), seen)
    if held is not None:
        target = units.targets(_target(model, held[1]))
        _try_forward(model, (units.inputs(held[0]), target), target)
    return Prepared(batches, seen, units, held, flat_target, inputs, data_digest(x, y, held))


def _prepare_stream(
    model: BayesianModel,
    data: Any,
    batch_size: int | None,
    seed: int,
    validation: float | tuple[Any, Any] | None,
    n: int | None,
) -> Prepared:
    """A Dataset or DataLoader: nothing is standardised, since the data may change from epoch to epoch."""
    if isinstance(validation, (int, float)):
        raise ParameterError(f"validation={validation}: a Dataset or DataLoader cannot be split; give (x, y)")
    count = rows_of(data, n)
    if isinstance(data, DataLoader) and batch_size is not None:
        raise ParameterError(f"batch_size={batch_size}: a DataLoader brings its own; leave it out")

    def batches(prepare: Prepare) -> Batches:
        if isinstance(data, DataLoader):
            return LoaderBatches(data, count, seed, prepare)
        return DatasetBatches(data, min(count, batch_size or default_batch_size(count)), seed, prepare)

    def raw(batch: Any) -> Batch:
        return as_arrays(batch, model.device, model.dtype)

    first = next(batches(raw).epoch(0), None)
    if first is None:
        raise DataError("data gives no batch: give at least one row")
    y = _target(model, first[1])
    width = _try_forward(model, (first[0], y), y)
    held: tuple[Any, Tensor] | None = None
    if validation is not None:
        held = raw(validation)
        target = _target(model, held[1])
        _try_forward(model, (held[0], target), target)

    def checked(batch: Any) -> Batch:
        x, target = raw(batch)
        target = _target(model, target)
        model.likelihood.require_width(width, target)
        return x, target

    like = torch.zeros((), dtype=model.dtype, device=model.device)
    return Prepared(batches(checked), y, no_units(like), held, first[1].dim() == 1, None, data_digest(held))


def _target(model: BayesianModel, y: Tensor) -> Tensor:
    """Targets as the likelihood reads them, floating ones in the model's dtype."""
    target = model.likelihood.target(y)
    return target.to(model.dtype) if target.is_floating_point() else target


def _try_forward(model: BayesianModel, batch: Batch, y: Tensor) -> int:
    """One forward pass before training, so that shapes are judged at once; returns the width of the output."""
    weights, fixed = model.own_weights()
    x, target = batch
    try:
        with torch.no_grad():
            output = model.forward(weights, fixed, model.buffers(), take(x, slice(0, 2)))
    except R2D2NetError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        parts = x if isinstance(x, tuple) else (x,)
        seen = " and ".join(f"{tuple(part.shape)} {part.dtype}" for part in parts)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"net does not take x of shape {seen}: {reason}") from error
    width = output[:1].numel()
    model.likelihood.require_width(width, y)
    model.likelihood.log_prob(output, target[:2], model.likelihood.init(y))
    return width


# --- the loop


def _loop(
    run: Progressing,
    running: Running,
    prepared: Prepared,
    generator: torch.Generator,
    settings: dict[str, Any],
    folder: Path | None,
    every: Literal["epoch"] | float,
    verbose: bool,
) -> None:
    epochs, patience, device = settings["epochs"], settings["patience"], running.model.device
    last = time.monotonic()

    def store_if_due(at_end: bool) -> None:
        nonlocal last
        if folder is not None and (at_end if every == "epoch" else time.monotonic() - last >= every):
            _require_finite(run, running)
            store(folder, run, generator, settings)
            last = time.monotonic()

    with progress(epochs, run.epoch, verbose=verbose) as report:
        while run.epoch < epochs:
            if patience is not None and run.best_epoch >= 0 and run.epoch - 1 - run.best_epoch >= patience:
                break
            for batch in prepared.batches.epoch(run.epoch, run.batch):
                with lent_generator(mix(settings["seed"], -3 - int(run.state.step)), device):
                    run.state, info = running.step(run.state, batch, generator)
                run.batch += 1
                nll = float(info.nll)
                run.nll += nll
                if not math.isfinite(nll):
                    _require_finite(run, running, nll)
                if run.batch < settings["batches"]:
                    store_if_due(at_end=False)
            _require_finite(run, running)
            _close_epoch(run, running, prepared)
            report(run.history[-1])
            store_if_due(at_end=True)


def _close_epoch(run: Progressing, running: Running, prepared: Prepared) -> None:
    entry = {"epoch": float(run.epoch + 1), "nll": run.nll / max(1, run.batch), "kl": float(running.kl(run.state))}
    variance = run.state.noise.get("variance")
    if variance is not None:
        entry["noise"] = float((variance.sqrt() * prepared.units.y.scale).mean())
    if prepared.validation is not None:
        entry["validation"] = score = _score(running, run.state, prepared)
        if score < run.best_score:
            run.best_score, run.best_epoch = score, run.epoch
            run.best = checkpoint.unflatten(run.state, {k: v.clone() for k, v in checkpoint.flatten(run.state).items()})
    run.history.append(entry)
    run.epoch, run.batch, run.nll = run.epoch + 1, 0, 0.0


def _score(running: Running, state: Any, prepared: Prepared) -> float:
    """Negative log predictive density of the validation rows, in the user's units."""
    assert prepared.validation is not None
    x, y = prepared.validation
    posterior = Posterior(running, state, prepared.units, flat_target=False)
    target = running.model.likelihood.target(y)
    return -float(posterior.predict(x, VALIDATION_DRAWS, seed=0).log_prob(target).mean())


def _require_finite(run: Progressing, running: Running, nll: float = 0.0) -> None:
    """A state that is not finite is an error before it can replace a good checkpoint."""
    flat = ((running.model.bayesian, run.state.mean), (running.model.fixed, run.state.fixed))
    names = [slot.name for slots, v in flat for slot in slots if not bool(torch.isfinite(slot.of(v)).all())]
    if math.isfinite(nll) and not names:
        return
    what = "training diverged" if math.isfinite(nll) else f"the loss became {nll}"
    where = f"parameter {names[0]!r} is not finite" if names else "all parameters are finite"
    raise DivergenceError(
        f"{what} at step {int(run.state.step)}: {where}; use a smaller lr, clip=1.0, or check the data's scale"
    )
