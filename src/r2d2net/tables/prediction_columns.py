"""Predictions of rows as columns of a table: what `r2d2net predict` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.interval_calibration import IntervalCalibration, interval_of
from r2d2net.prediction import Classification, Mixture, Prediction
from r2d2net.tables.novelty import is_unlike
from r2d2net.tables.prediction_task import Task

if TYPE_CHECKING:
    import pandas as pd


NUMBER_COLUMNS = ("mean", "sd", "low", "high")


def names_of(task: Task) -> list[str]:
    """Return the names of the columns that `prediction_columns` makes.

    Args:
        task: What is predicted.

    >>> names_of(Task("y", "binary", ("no", "yes")))
    ['prediction', 'p(no)', 'p(yes)', 'entropy', 'typicality', 'unlike', 'filled']
    """
    ends = ["typicality", "unlike", "filled"]
    if task.parts:
        return [*(f"{name}_{part}" for name in task.targets for part in NUMBER_COLUMNS), *ends]
    if task.is_regression:
        return [*NUMBER_COLUMNS, *ends]
    return ["prediction", *(f"p({level})" for level in task.classes), "entropy", *ends]


def prediction_columns(
    prediction: Prediction,
    typicality: Values,
    filled: np.ndarray,
    task: Task,
    level: float,
    calibration: IntervalCalibration | None = None,
) -> pd.DataFrame:
    """Write predictions as a table.

    Args:
        prediction: The predictive distributions of the rows.
        typicality: The share of rows like the training rows that lie as far out as each row.
        filled: How many cells of each row were filled in.
        task: What is predicted.
        level: Level of the intervals.
        calibration: Calibration of the intervals by rows left out, if there is one.

    Returns:
        A row each: mean, standard deviation and interval, or class, probabilities and entropy in nats; then typicality,
        whether that is 1% or less (``unlike``), and ``filled``. Columns of several targets begin with their names.
    """
    import pandas as pd

    columns: list[Any]
    if isinstance(prediction, Mixture):
        low, high = interval_of(prediction, level, calibration)
        columns = [part.double().numpy() for part in (prediction.mean, prediction.std, low, high)]
        if task.parts:
            columns = [column[:, j] for j in range(len(task.parts)) for column in columns]
    else:
        assert isinstance(prediction, Classification)
        probs = prediction.probs.double().numpy()
        columns = [np.array(task.classes, dtype=object)[probs.argmax(1)], *probs.T, prediction.entropy.double().numpy()]
    columns += [typicality, is_unlike(typicality), filled]
    return pd.DataFrame(dict(zip(names_of(task), columns, strict=True)))
