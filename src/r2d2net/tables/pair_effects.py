"""Pairs of inputs that act together, of the inputs that rank first, for effects.json and the page.

Of each pair there are Friedman's H and the share of the variance of the predictions that is their interaction (see
`r2d2net.shrinkage.interactions`). The pair with the largest share, for each target, is drawn if the lower end of the
share's 90% interval is above `LEAST`: average predictions on a grid of the values of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.input_columns import Columns
from r2d2net.posterior import Posterior
from r2d2net.shrinkage import interactions, partial_dependence
from r2d2net.tables.effects import LEVEL, values_of
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.settings import Settings

MOST_INPUTS = 6
LEAST = 0.01  # share of the variance of the predictions, as of an input that is needed
DRAWS = 30
MOST_ROWS, LEAST_ROWS = 40, 10
BUDGET = 4e9  # products of weights and inputs for all pairs
GRID, LEVELS, GRID_ROWS = 12, 10, 30


def pair_effects_of(
    posterior: Posterior[Any],
    x: Values,
    columns: Columns,
    inputs: list[dict[str, Any]],
    task: Task,
    settings: Settings,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Compare the first inputs two by two.

    Args:
        posterior: The fitted network.
        x: Encoded training rows.
        columns: Which inputs of the network belong to which column.
        inputs: The columns by rank (see `fitting.relevance_of`).
        task: What is predicted.
        settings: The settings of the fit.
        progress: Is given how many curves are done, of how many.

    Returns:
        For JSON: "least", the level; "pairs", of each target the largest share first; and "maps", the grid of the
        strongest pair of each target that is above the level.
    """
    groups = dict(zip(columns.names, columns.groups, strict=True))
    first = [entry["name"] for entry in inputs if entry["name"] in groups][:MOST_INPUTS]
    if len(first) < 2 or len(x) < LEAST_ROWS:
        return {"least": LEAST, "pairs": [], "maps": []}
    draws = min(DRAWS, settings.draws)
    curves = len(first) * (len(first) + 1) / 2
    affordable = int(math.sqrt(BUDGET / (posterior.model.size * draws * curves)))
    rows = max(LEAST_ROWS, min(MOST_ROWS, affordable))
    chosen = [groups[name] for name in first]
    found = interactions(
        posterior, x, groups=chosen, draws=draws, level=LEVEL, rows=rows, seed=settings.seed, progress=progress
    )
    parts = {
        name: values.double().reshape(len(found.pairs), -1).cpu().numpy() for name, values in found._asdict().items()
    }
    names = [[first[j], first[k]] for j, k in found.pairs.tolist()]
    pairs, maps = [], []
    for output, target in enumerate(task.targets):
        of_target = {"target": target} if task.parts else {}
        measures = [name for name in parts if name != "pairs"]
        entries: list[dict[str, Any]] = [
            {"inputs": pair, **of_target, **{name: float(parts[name][place, output]) for name in measures}}
            for place, pair in enumerate(names)
        ]
        entries.sort(key=lambda entry: -entry["share"])
        pairs += entries
        if entries[0]["share_low"] > LEAST:
            maps.append({**entries[0], **_grid(posterior, x, columns, entries[0]["inputs"], task, output, settings)})
    return {"least": LEAST, "pairs": pairs, "maps": maps}


def _grid(
    posterior: Posterior[Any],
    x: Values,
    columns: Columns,
    names: list[str],
    task: Task,
    output: int,
    settings: Settings,
) -> dict[str, Any]:
    """Compute average predictions on the grid of two inputs, the second one along the rows of "mean"."""
    groups = dict(zip(columns.names, columns.groups, strict=True))
    encoders = {column.name: column for column in columns.used}
    axes, cells = [], []
    for name in names:
        labels, values = values_of(encoders[name], x[:, groups[name]])
        most = LEVELS if "levels" in labels else GRID
        kept = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(np.int64))
        axes.append({"kind": encoders[name].kind, **{what: [cell[i] for i in kept] for what, cell in labels.items()}})
        cells.append(values[kept])
    across, up = (len(part) for part in cells)
    both = np.concatenate([np.tile(cells[0], (up, 1)), np.repeat(cells[1], across, axis=0)], axis=1)
    rows = x[np.random.default_rng(settings.seed).permutation(len(x))[:GRID_ROWS]]
    group = [*groups[names[0]], *groups[names[1]]]
    draws = min(DRAWS, settings.draws)
    found = partial_dependence(posterior, rows, group, both, draws=draws, level=LEVEL, seed=settings.seed)
    parts = {name: curve.double().cpu().numpy().reshape(up, across, -1) for name, curve in found._asdict().items()}
    if task.classes:  # the class whose probability varies most
        output = 1 if len(task.classes) == 2 else int(parts["mean"].std((0, 1)).argmax())
    shown = {"class": task.classes[output]} if task.classes else {}
    return {"axes": axes, **shown, **{name: part[..., output].tolist() for name, part in parts.items()}}
