"""Predictive checks of the test rows of a run, for its report: see `r2d2net.predictive_checks`.

An input of the check is a column of the table: its number, the number of its level where the network sees several
columns with few different rows (categories), else each of these columns (dates).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2d2net.columns.input_columns import Columns
from r2d2net.prediction import Prediction
from r2d2net.predictive_checks import LEAST_ROWS, check_prediction
from r2d2net.tables.training_table import TrainingTable

FILE = "checks.json"
MOST_LEVELS = 12


def checks_of(prediction: Prediction, table: TrainingTable, seed: int) -> dict[str, Any]:
    """Check the predictions of the test rows.

    Args:
        prediction: The prediction of the test rows.
        table: The table of the run.
        seed: Seed of what counts draw.

    Returns:
        Under "checks" one entry for each target, for JSON; none of very few rows.
    """
    if len(prediction) < LEAST_ROWS:
        return {"checks": []}
    inputs, names = inputs_of(table.test.x, table.columns)
    targets = [part.task.target for part in table.each] if table.task.parts else [table.task.target]
    entries = []
    for output, target in enumerate(targets):
        found = check_prediction(prediction, table.y_test, inputs, names, output=output, seed=seed)
        entries.append({"target": target, **found.plain()})
    return {"checks": entries}


def inputs_of(x: np.ndarray, columns: Columns) -> tuple[np.ndarray, list[str]]:
    """Return the columns of a table as numbers.

    Args:
        x: Rows as the network sees them.
        columns: Which of its inputs belong to which column.

    Returns:
        One or more numbers for each column, (rows, numbers), and their names.
    """
    values: list[np.ndarray] = []
    names: list[str] = []
    for name, group in zip(columns.names, columns.groups, strict=True):
        own = np.asarray(x[:, group], dtype=float)
        if own.shape[1] > 1:
            levels, codes = np.unique(own, axis=0, return_inverse=True)
            if len(levels) <= MOST_LEVELS:
                own = codes.reshape(-1, 1).astype(float)
        values.append(own)
        names += [name] if own.shape[1] == 1 else [f"{name} ({k + 1})" for k in range(own.shape[1])]
    return (np.concatenate(values, 1) if values else np.zeros((len(x), 0))), names
