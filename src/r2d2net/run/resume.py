"""Checkpoints of a run, from which it continues after an interruption with bitwise the same result."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from r2d2net import checkpoint
from r2d2net.errors import CheckpointError
from r2d2net.inference.base import flatten, part, unflatten
from r2d2net.manifest import opened
from r2d2net.posterior import FILE, INTERRUPTED, Posterior
from r2d2net.run.row_weights import with_own_likelihood
from r2d2net.saved_json import Each, Maybe, Whole, require_conforming
from r2d2net.saved_posteriors import Saved, read_saved, restored
from r2d2net.saved_values import NUMBER, require_values
from r2d2net.specification import reading

CHECKPOINT = {
    "epoch": Whole(),
    "batch": Whole(),
    "nll": NUMBER,
    "history": [Each(Maybe(NUMBER))],
    "best_score": NUMBER,
    "best_epoch": Whole(-1),
}

TOLD = {  # of settings that are a digest or a long text, which say nothing to the reader
    "data": "it has other data",
    "network": "it has another network",
    "start": "it starts from another posterior or cut",
}

if TYPE_CHECKING:
    from r2d2net.run.train import Plan, Progressing


def store(folder: Path, run: Progressing, generator: torch.Generator, settings: dict[str, Any], ranks: int = 1) -> None:
    """Write the run's checkpoint, which says among how many processes the rows are split."""
    tensors = {f"state/{k}": v for k, v in flatten(run.state).items()}
    if run.best is not None:
        tensors |= {f"best/{k}": v for k, v in flatten(run.best).items()}
    tensors["generator"] = generator.get_state()
    where = {"epoch": run.epoch, "batch": run.batch, "nll": run.nll, "history": run.history}
    best = {"best_score": run.best_score, "best_epoch": run.best_epoch}
    split = {} if ranks == 1 else {"ranks": ranks}
    checkpoint.write(folder / INTERRUPTED, tensors, {"settings": settings, **where, **best, **split})


def restore(
    folder: Path,
    run: Progressing,
    generator: torch.Generator,
    settings: dict[str, Any],
    ranks: int = 1,
    template: Any = None,
) -> None:
    """Restore the run and its generator from the checkpoint; warn if it was split among another number of processes.

    The template has the form of the saved state; None stands for the run's own state.
    """
    path = folder / INTERRUPTED
    with reading(path):
        tensors, header = checkpoint.read(path)
        require_same(path, header["settings"], settings)
        require_conforming(header, CHECKPOINT, path)
        require_values(tensors, path)
        template = run.state if template is None else template
        run.state = unflatten(template, part(tensors, "state/"))
        run.best_score, run.best_epoch = header["best_score"], header["best_epoch"]
        if run.best_epoch >= 0:
            run.best = unflatten(template, part(tensors, "best/"))
        run.epoch, run.batch, run.nll, run.history = (header[name] for name in ("epoch", "batch", "nll", "history"))
        generator.set_state(tensors["generator"])
        before = header.get("ranks", 1)
    if before != ranks:
        now = f"it goes on with {ranks}, to the same posterior within Monte Carlo error and not to the same bits"
        warnings.warn(f"{path} is of a run on {before} process{'es' if before > 1 else ''}: {now}", stacklevel=2)


def finished(folder: Path, plan: Plan) -> Posterior[Any] | None:
    """Return the posterior of this plan, if its run came to its end in this folder."""
    saved = finished_file(folder)
    if saved is None:
        return None
    with reading(saved.path):
        require_same(saved.path, saved.settings, plan.settings)
        return restored(with_own_likelihood(plan.read(part(saved.tensors, "state/"))), saved)


def finished_file(folder: Path) -> Saved | None:
    """Return what a run that came to its end left in this folder; None if there is no such run."""
    if (folder / INTERRUPTED).exists() or not folder.exists():
        return None
    with opened(folder) as parts:
        return read_saved(parts) if parts.has(FILE) else None


def require_same(path: Path, saved: Any, now: Any) -> None:
    """Raise a `CheckpointError` that names the first setting in which two runs differ."""
    changed = difference(saved, json.loads(json.dumps(now)))
    if changed is not None:
        fix = "give the same model, data and settings, or another folder"
        raise CheckpointError(f"is of another run: {changed}", value=path, fix=fix)


def difference(saved: Any, now: Any, name: str = "") -> str | None:
    """Describe the first difference between two trees of settings; the order of keys matters.

    >>> difference({"seed": 1, "lr": {"mean": 0.1}}, {"seed": 1, "lr": {"mean": 0.2}})
    'it has lr.mean=0.1, here lr.mean=0.2'
    """
    if isinstance(saved, dict) and isinstance(now, dict):
        for key in (*now, *saved):
            inner = f"{name}.{key}".lstrip(".")
            if key not in saved or key not in now:
                return f"{inner} is {'not in it' if key in now else 'in it, and not here'}"
            inner_difference = difference(saved[key], now[key], inner)
            if inner_difference is not None:
                return inner_difference
        return None if list(saved) == list(now) else f"it has another order of {name}"
    if saved == now:
        return None
    if name in TOLD:
        return TOLD[name]
    return f"it has {name}={saved!r}, here {name}={now!r}"
