"""`r2d2net inspect`: what a run is made of and what shrinkage has left of its network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from r2d2net.columns.input_columns import Columns
from r2d2net.errors import CheckpointError
from r2d2net.likelihoods import LogNormal
from r2d2net.posterior import Posterior
from r2d2net.shrinkage import effective_weights
from r2d2net.tables.run_folder import RELEVANCE, FittedRun, read_json

NOISE_DRAWS = 20  # samplers draw the noise too


def inspect_run(run: FittedRun, seed: int | None = None) -> dict[str, Any]:
    """Describe a run: prior, posterior, effective number of weights and inputs kept.

    Args:
        run: A finished run.
        seed: Seed of draws of the noise; by default the run's.

    Returns:
        Plain values, ready for JSON.
    """
    posterior = run.estimator.posterior_
    effective = effective_weights(posterior)
    layers = [
        {
            "parameter": slot.name,
            "shape": list(slot.shape),
            "weights": slot.stop - slot.start,
            "prior": repr(slot.prior),
            "effective_weights": None if effective is None else effective[slot.name],
        }
        for slot in posterior.model.bayesian
    ]
    stacked = posterior.settings["algorithm"]["type"] == "Stacked"
    if stacked:
        layers = [{**layer, "prior": "those of the models"} for layer in layers]
    last = posterior.history[-1] if posterior.history and not stacked else {}
    return {
        "run": str(run.folder),
        "data": run.content["data"].get("file"),
        "task": run.task.plain(),
        "rows": run.content["rows"],
        "algorithm": posterior.settings["algorithm"]["type"],
        "parameters": layers,
        "weights": sum(layer["weights"] for layer in layers),
        "pruned": units_left(posterior),
        "effective_weights": None if effective is None else sum(effective.values()),
        "training_rows": posterior.settings.get("n"),
        "kl": last.get("kl"),
        "epochs": None if stacked else len(posterior.history),
        "candidates": posterior.candidates if stacked else [],
        **_noise(posterior, run.task.targets, run.settings.seed if seed is None else seed),
        "noise_of": "logarithm of the target" if isinstance(posterior.model.likelihood, LogNormal) else "target",
        "inputs": relevance_of_run(run.folder),
        "nothing_kept": nothing_kept(run.folder),
        "columns": columns_in_words(run.columns),
    }


def units_left(posterior: Posterior) -> list[dict[str, Any]] | None:
    """Return the hidden units of each layer before and after a cut; None of a network that was not cut.

    Args:
        posterior: The fitted network.
    """
    rows = posterior.settings.get("smaller", {}).get("units")
    return None if rows is None else [{"layer": row[0], "before": row[1], "after": row[2]} for row in rows[:-1]]


def columns_in_words(columns: Columns) -> list[dict[str, str]]:
    """Say how each column of the table was read.

    Args:
        columns: The columns of a run.

    Returns:
        Name, kind and a line of text for each column; columns that are no inputs are of the kind "left out".
    """
    from r2d2net.report.column_text import column_text
    from r2d2net.report.run_page import format_number

    def entry(name: str, kind: str, text: str) -> dict[str, str]:
        said = columns.read_as.get(name)
        return {"name": name, "kind": kind, "read": f"{text}; {said}" if said else text}

    used = [
        entry(column["name"], column["kind"], column_text(column, format_number)) for column in columns.plain()["used"]
    ]
    return used + [entry(name, "left out", why) for name, why in columns.left_out.items()]


def _noise(posterior: Posterior, targets: Sequence[str], seed: int) -> dict[str, Any]:
    """Return the deviation of the noise, of the target or its logarithm; None for classes; or that of each target."""
    generator = torch.Generator().manual_seed(seed)
    available = posterior.source.available
    count = NOISE_DRAWS if available is None else min(NOISE_DRAWS, available)
    drawn = posterior.source.draws(count, generator, at_once=1)
    variances = [draw.noise["variance"].double() for draw in drawn if "variance" in draw.noise]
    if not variances:
        return {"noise_sd": None}
    deviations = torch.stack(variances).reshape(len(variances), -1).mean(0).sqrt() * posterior.units.y.scale
    if len(targets) == 1:
        return {"noise_sd": float(deviations.mean())}
    return {"noise_sd": None, "noise_sds": dict(zip(targets, deviations.tolist(), strict=True))}


def nothing_kept(folder: Path) -> str | None:
    """Return why no input is kept, where the fit found a reason.

    Args:
        folder: The run folder.
    """
    why = read_json(folder / RELEVANCE).get("nothing_kept")  # runs of earlier versions have none
    return None if why is None else str(why)


def relevance_of_run(folder: Path) -> list[dict[str, Any]]:
    """Return the inputs by rank, as the fit left them.

    Args:
        folder: The run folder.

    Raises:
        CheckpointError: The file is damaged.
    """
    inputs = read_json(folder / RELEVANCE).get("inputs")
    needed = {"name": str, "importance": float, "importance_std": float, "kept": bool, "mean": float}
    if not isinstance(inputs, list) or not all(
        isinstance(entry, dict) and all(isinstance(entry.get(name), kind) for name, kind in needed.items())
        for entry in inputs
    ):
        raise CheckpointError("is damaged", value=folder / RELEVANCE, fix="fit again")
    total = max(1.0, sum(max(0.0, entry["importance"]) for entry in inputs))
    later = [{"share": max(0.0, entry["importance"]) / total, "group": None} for entry in inputs]
    return [{**new, **entry} for new, entry in zip(later, inputs, strict=True)]  # runs of earlier versions have neither
