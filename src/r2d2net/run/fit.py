"""`fit`: from data and a model to a posterior; and `save`, `load`, and going on after an interruption.

The run is a pure function of (model, data, settings, seed): the order of the rows depends on (seed, epoch), all other
randomness on one generator whose state is in every checkpoint. So a run that is killed at any moment and resumed ends
bitwise where the uninterrupted one ends.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from r2d2net.errors import CheckpointError, DataError, DivergenceError, ParameterError, require
from r2d2net.inference import SVGI, Method, Running
from r2d2net.inference.base import Batch
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.provenance import provenance
from r2d2net.run import checkpoint
from r2d2net.run.batches import (
    Batches,
    DatasetBatches,
    LoaderBatches,
    TensorBatches,
    as_arrays,
    default_batch_size,
    mix,
    rows_of,
    take,
)
from r2d2net.run.progress import progress
from r2d2net.specification import describe, describe_model, method_from, model_from
from r2d2net.units import Units, measure_units, no_units

POSTERIOR, CHECKPOINT = "posterior.safetensors", "checkpoint.safetensors"
VALIDATION_DRAWS = 20


@dataclass
class Progressing:
    """Where a run stands between two batches."""

    state: Any
    epoch: int = 0
    batch: int = 0
    nll: float = 0.0  # sum over the batches of the epoch so far
    history: list[dict[str, float]] = field(default_factory=list)
    best: Any = None  # the state with the best validation score
    best_score: float = math.inf
    best_epoch: int = -1


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
    checkpoint_seconds: float = 60.0,
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
        validation: Share of the rows to hold out, or (x, y); its score is the negative log predictive density.
        patience: Stop when the score has not improved for so many epochs, and keep the best state; needs validation.
        n: Number of training rows, for streams that cannot tell.
        standardize: Give the network inputs (of tables) and regression targets of mean 0 and variance 1.
        checkpoint_to: Folder for checkpoints, written after an epoch whenever ``checkpoint_seconds`` have passed.
        checkpoint_seconds: Least time between checkpoints; 0 writes one after every step.
        resume: Folder of an interrupted run with the same model, data and settings; goes on from its checkpoint, or
            starts if there is none yet. Checkpoints go there too.
        verbose: Show progress on a terminal.
    """
    require(epochs >= 1, "epochs", epochs, "use a whole number from 1")
    require(patience is None or patience >= 1, "patience", patience, "use a whole number from 1")
    require(checkpoint_seconds >= 0, "checkpoint_seconds", checkpoint_seconds, "use 0 or a positive number")
    if patience is not None and validation is None:
        raise ParameterError(f"patience={patience} needs validation data: give validation=0.1, say")
    method = SVGI() if algorithm is None else algorithm
    prepared = _prepare(model, data, batch_size, seed, validation, n, standardize)
    running = method.build(
        model, n=prepared.batches.n, steps=epochs * prepared.batches.per_epoch(), inputs=prepared.inputs
    )
    generator = torch.Generator(model.device).manual_seed(mix(seed, -1))
    settings = {
        "algorithm": describe(method),
        "model": describe_model(model),
        "epochs": epochs,
        "batches": prepared.batches.per_epoch(),
        "n": prepared.batches.n,
        "inputs": prepared.inputs,
        "seed": seed,
        "patience": patience,
        "flat_target": prepared.flat_target,
    }
    state = running.init(prepared.y, generator)
    run = Progressing(state)
    folder = Path(resume) if resume is not None else None if checkpoint_to is None else Path(checkpoint_to)
    if resume is not None and (Path(resume) / CHECKPOINT).exists():
        _restore(Path(resume) / CHECKPOINT, run, generator, settings, prepared.units)
    _loop(run, running, prepared, generator, settings, folder, checkpoint_seconds, verbose)
    final = run.state if run.best is None else run.best
    posterior = Posterior(
        running, final, prepared.units, flat_target=prepared.flat_target, history=run.history, settings=settings
    )
    if folder is not None:
        save(posterior, folder)
        (folder / CHECKPOINT).unlink(missing_ok=True)
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


def _prepare(
    model: BayesianModel,
    data: Any,
    batch_size: int | None,
    seed: int,
    validation: float | tuple[Any, Any] | None,
    n: int | None,
    standardize: bool,
) -> Prepared:
    require(batch_size is None or batch_size >= 1, "batch_size", batch_size, "use a whole number from 1")
    if isinstance(data, (DataLoader, Dataset)):
        return _prepare_stream(model, data, batch_size, seed, validation, n)
    x, y = as_arrays(data, model.device, model.dtype)
    held: tuple[Any, Tensor] | None = None
    if isinstance(validation, tuple):
        held = tuple(as_arrays(validation, model.device, model.dtype))
    elif validation is not None:
        require(0 < validation < 1, "validation", validation, "use a share between 0 and 1, or (x, y)")
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(mix(seed, -2))).to(y.device)
        count = max(1, round(validation * len(y)))
        if count >= len(y):
            raise DataError(f"validation={validation} leaves no training rows of {len(y)}")
        held = take(x, order[:count]), y[order[:count]]
        x, y = take(x, order[count:]), y[order[count:]]
    flat_target = y.dim() == 1
    target = model.likelihood.target(y)
    units = (
        measure_units(x, target, inputs=True, targets=model.likelihood.standardizes)
        if standardize
        else no_units(x if isinstance(x, Tensor) else x[0])
    )
    seen = units.targets(target)
    rows = min(len(y), default_batch_size(len(y)) if batch_size is None else batch_size)
    inputs = x.shape[1] if isinstance(x, Tensor) and x.dim() == 2 else None
    batches = TensorBatches(units.inputs(x), seen, rows, seed)
    _try_forward(model, next(batches.epoch(0)), seen)
    return Prepared(batches, seen, units, held, flat_target, inputs)


def _prepare_stream(
    model: BayesianModel,
    data: Any,
    batch_size: int | None,
    seed: int,
    validation: float | tuple[Any, Any] | None,
    n: int | None,
) -> Prepared:
    """A Dataset or DataLoader: nothing is standardised, since the data may change from epoch to epoch."""
    if isinstance(validation, float):
        raise ParameterError(f"validation={validation}: a Dataset or DataLoader cannot be split; give (x, y)")
    held = None if validation is None else tuple(as_arrays(validation, model.device, model.dtype))

    def prepare(batch: Batch) -> Batch:
        x, y = as_arrays(batch, model.device, model.dtype)
        return x, model.likelihood.target(y)

    count = rows_of(data, n)
    batches: Batches
    if isinstance(data, DataLoader):
        if batch_size is not None:
            raise ParameterError(f"batch_size={batch_size}: a DataLoader brings its own; leave it out")
        batches = LoaderBatches(data, count, prepare)
    else:
        batches = DatasetBatches(data, min(count, batch_size or default_batch_size(count)), seed, prepare)
    first = next(batches.epoch(0))
    y = first[1]
    _try_forward(model, first, y)
    like = torch.zeros((), dtype=model.dtype, device=model.device)
    flat = y.dim() == 1 or y.shape[1] == 1
    return Prepared(batches, y, no_units(like), held, flat, None)


def _try_forward(model: BayesianModel, batch: Batch, y: Tensor) -> None:
    """One forward pass before training, so that shapes are judged at once."""
    weights, fixed = model.own_weights()
    x, target = batch
    try:
        with torch.no_grad():
            output = model.forward(weights, fixed, model.buffers(), take(x, slice(0, 2)))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        shapes = [tuple(part.shape) for part in (x if isinstance(x, tuple) else (x,))]
        raise DataError(f"net does not take x of shape {shapes if len(shapes) > 1 else shapes[0]}: {reason}") from error
    width = model.likelihood.outputs(y)
    if width is not None and output.flatten(1).shape[1] != width:
        raise DataError(
            f"net gives {output.flatten(1).shape[1]} outputs, the likelihood needs {width} for these targets"
        )
    model.likelihood.log_prob(output, target[:2], model.likelihood.init(y))


# --- the loop


def _loop(
    run: Progressing,
    running: Running,
    prepared: Prepared,
    generator: torch.Generator,
    settings: dict[str, Any],
    folder: Path | None,
    every: float,
    verbose: bool,
) -> None:
    epochs, patience = settings["epochs"], settings["patience"]
    last = time.monotonic()
    with progress(epochs, run.epoch, verbose=verbose) as report:
        while run.epoch < epochs:
            if patience is not None and run.best_epoch >= 0 and run.epoch - 1 - run.best_epoch >= patience:
                break
            for batch in prepared.batches.epoch(run.epoch, run.batch):
                run.state, info = running.step(run.state, batch, generator)
                run.batch += 1
                run.nll += _finite(float(info.nll), run, running)
                if folder is not None and every == 0 and run.batch < settings["batches"]:
                    _store(folder / CHECKPOINT, run, generator, settings, prepared.units)
            _close_epoch(run, running, prepared)
            report(run.history[-1])
            if folder is not None and time.monotonic() - last >= every:
                _store(folder / CHECKPOINT, run, generator, settings, prepared.units)
                last = time.monotonic()


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


def _finite(nll: float, run: Progressing, running: Running) -> float:
    if math.isfinite(nll):
        return nll
    names = [slot.name for slot in running.model.bayesian if not bool(torch.isfinite(slot.of(run.state.mean)).all())]
    where = f"parameter {names[0]!r} is not finite" if names else "all parameters are finite"
    raise DivergenceError(
        f"the loss became {nll} at step {int(run.state.step)}: {where}; "
        "use a smaller lr, clip=1.0, or check the data's scale"
    )


# --- saving


def save(posterior: Posterior, folder: str | Path) -> Path:
    """Save a posterior into a folder; `load` reads it."""
    path = Path(folder) / POSTERIOR
    tensors = {f"state/{k}": v for k, v in checkpoint.flatten(posterior.state).items()}
    tensors |= {f"units/{k}": v for k, v in checkpoint.flatten(posterior.units).items()}
    header = {"history": posterior.history, **provenance(posterior.settings, posterior.settings.get("seed"))}
    checkpoint.write(path, tensors, header)
    return path


def load(folder: str | Path, net: nn.Module) -> Posterior:
    """Load a posterior that was saved for a network of this architecture."""
    tensors, header = checkpoint.read(Path(folder) / POSTERIOR)
    settings = header["settings"]
    model = model_from(net, settings["model"])
    method = method_from(settings["algorithm"])
    running = method.build(
        model, n=settings["n"], steps=settings["epochs"] * settings["batches"], inputs=settings["inputs"]
    )
    units = Units.of({k.removeprefix("units/"): v for k, v in tensors.items() if k.startswith("units/")}, model.device)
    state = _state_like(running, {k.removeprefix("state/"): v for k, v in tensors.items() if k.startswith("state/")})
    return Posterior(
        running, state, units, flat_target=settings["flat_target"], history=header["history"], settings=settings
    )


def _state_like(running: Running, tensors: dict[str, Tensor]) -> Any:
    """A state of the algorithm's form, filled from saved tensors."""
    template = running.init(torch.zeros(1, 1), torch.Generator(running.model.device).manual_seed(0))
    noise = {k.removeprefix("noise/"): v for k, v in tensors.items() if k.startswith("noise/")}
    return checkpoint.unflatten(template._replace(noise=noise), tensors)


def _store(path: Path, run: Progressing, generator: torch.Generator, settings: dict[str, Any], units: Units) -> None:
    tensors = {f"state/{k}": v for k, v in checkpoint.flatten(run.state).items()}
    if run.best is not None:
        tensors |= {f"best/{k}": v for k, v in checkpoint.flatten(run.best).items()}
    tensors |= {f"units/{k}": v for k, v in checkpoint.flatten(units).items()}
    tensors["generator"] = generator.get_state()
    where = {"epoch": run.epoch, "batch": run.batch, "nll": run.nll.hex(), "history": run.history}
    best = {"best_score": run.best_score.hex(), "best_epoch": run.best_epoch}
    checkpoint.write(path, tensors, {"settings": settings, **where, **best})


def _restore(path: Path, run: Progressing, generator: torch.Generator, settings: dict[str, Any], units: Units) -> None:
    tensors, header = checkpoint.read(path)
    for name, value in settings.items():
        if header["settings"].get(name) != value:
            raise CheckpointError(f"{path} was made with another {name}: resume with the settings of the run")
    for name, value in checkpoint.flatten(units).items():
        if not torch.equal(tensors[f"units/{name}"].to(value.device), value):
            raise CheckpointError(f"{path} was made with other data: resume with the data of the run")

    def tree(prefix: str) -> Any:
        return checkpoint.unflatten(
            run.state, {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )

    best = tree("best/") if header["best_epoch"] >= 0 else None
    run.state, run.best = tree("state/"), best
    run.epoch, run.batch, run.history = header["epoch"], header["batch"], header["history"]
    run.nll, run.best_score = float.fromhex(header["nll"]), float.fromhex(header["best_score"])
    run.best_epoch = header["best_epoch"]
    generator.set_state(tensors["generator"])
