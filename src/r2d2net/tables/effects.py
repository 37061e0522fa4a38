"""How the prediction changes with each of the first inputs: the curves of report.html, kept in effects.json.

Beside them the file has pairs of inputs that act together (see `pair_effects`).

They are partial dependences (see `r2d2net.shrinkage.partial_dependence`) over some training rows: averages, so no row
can be told from them. A number takes quantiles of the training rows, a date too, with its season, and the
average of weekdays and times of day; a category takes its levels, one of many levels some at equal steps of their
average target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.column_encoders import MISSING, OTHER, CategoryEncoder
from r2d2net.columns.date_inputs import SEASON, DateEncoder
from r2d2net.columns.input_columns import ColumnEncoder, Columns
from r2d2net.columns.target_statistics import TargetEncoder
from r2d2net.posterior import Posterior
from r2d2net.shrinkage import partial_dependence
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.settings import Settings

FILE = "effects.json"
MOST_INPUTS, MOST_CLASSES = 8, 6
POINTS, SEASON_POINTS, MOST_LEVELS = 15, 40, 12
MOST_ROWS, LEAST_ROWS, DRAWS = 100, 10, 50
BUDGET = 2e10  # products of weights and inputs for all curves
LEVEL = 0.9


def effects_of(
    posterior: Posterior[Any],
    x: Values,
    columns: Columns,
    inputs: list[dict[str, Any]],
    task: Task,
    settings: Settings,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Compute the effects of the inputs that rank first.

    Args:
        posterior: The fitted network.
        x: Encoded training rows.
        columns: Which inputs of the network belong to which column.
        inputs: The columns by rank (see `fitting.relevance_of`).
        task: What is predicted.
        settings: The settings of the fit.
        progress: Is given how many columns are done, of how many.

    Returns:
        For each column its values and the average prediction there, with a band of 90%; for classes of each of the
        first classes, and of several targets an entry for each. Ready for JSON.
    """
    draws = min(DRAWS, settings.draws)
    groups = dict(zip(columns.names, columns.groups, strict=True))
    encoders = {column.name: column for column in columns.used}
    first = [entry["name"] for entry in inputs[:MOST_INPUTS] if entry["name"] in groups]
    affordable = int(BUDGET / (posterior.model.size * draws * POINTS * max(1, len(first))))
    count = max(LEAST_ROWS, min(MOST_ROWS, affordable))
    rows = x[np.random.default_rng(settings.seed).permutation(len(x))[:count]]
    classes = task.classes[1:] if len(task.classes) == 2 else task.classes[:MOST_CLASSES]
    effects = []
    for done, name in enumerate(first):
        group, column = groups[name], encoders[name]
        labels, values = values_of(column, x[:, group])
        if len(values) > 1:
            found = partial_dependence(posterior, rows, group, values, draws=draws, level=LEVEL, seed=settings.seed)
            parts = {part: curve.double().cpu().numpy() for part, curve in found._asdict().items()}
            entry = {"name": name, "kind": column.kind, **labels}
            if task.classes:
                places = [task.classes.index(label) for label in classes]
                curves = [
                    {"class": label, **{part: curve[:, place].tolist() for part, curve in parts.items()}}
                    for label, place in zip(classes, places, strict=True)
                ]
                effects.append({**entry, "curves": curves})
            for output, target in enumerate(() if task.classes else task.targets):
                own = {part: curve.reshape(len(values), -1)[:, output].tolist() for part, curve in parts.items()}
                effects.append({**entry, **({"target": target} if task.parts else {}), "curves": [own]})
        progress(done + 1, len(first))
    return effects


def values_of(column: ColumnEncoder, cells: Values) -> tuple[dict[str, Any], Values]:
    """Choose values that a column takes.

    Args:
        column: The column.
        cells: Its encoded cells of the training rows.

    Returns:
        The values as the user writes them ("levels" or "values"), and as inputs of the network.
    """
    if isinstance(column, CategoryEncoder):
        places = np.argsort(-cells.mean(0), kind="stable")[:MOST_LEVELS]
        levels = [*column.levels, *[OTHER] * column.other, *[MISSING] * column.missing]
        return {"levels": [levels[i] for i in places]}, np.eye(cells.shape[1])[places]
    if isinstance(column, TargetEncoder):
        ranked = sorted(range(len(column.levels)), key=lambda place: (column.means[place], place))
        steps = np.linspace(0, len(ranked) - 1, min(len(ranked), MOST_LEVELS)).round().astype(np.int64)
        places = np.array(ranked)[steps]
        return {"levels": [column.levels[i] for i in places]}, column.standardised(np.array(column.means)[places])
    has_season = isinstance(column, DateEncoder) and SEASON in column.parts
    shares = np.linspace(0.02, 0.98, SEASON_POINTS if has_season else POINTS)
    at = np.unique(np.quantile(cells[:, 0], shares))
    values = np.zeros((len(at), cells.shape[1]))  # no cell is missing
    values[:, 0] = at
    if isinstance(column, DateEncoder) and column.parts:
        values[:, -len(column.averages) :] = column.average_parts(at * column.sd + column.mean)
    return {"values": (at * column.sd + column.mean).tolist()}, values
