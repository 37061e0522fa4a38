"""Predictions of rows as columns of a table: what `r2d2net predict` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.prediction import Classification, Prediction, Regression
from r2d2net.tables.cell_parsing import Values
from r2d2net.tables.novelty import is_unlike
from r2d2net.tables.prediction_task import Task

if TYPE_CHECKING:
    import pandas as pd


def names_of(task: Task) -> list[str]:
    """The columns of `prediction_columns`.

    >>> names_of(Task("y", "binary", ("no", "yes")))
    ['prediction', 'p(no)', 'p(yes)', 'entropy', 'typicality', 'unlike', 'filled']
    """
    ends = ["typicality", "unlike", "filled"]
    if task.is_regression:
        return ["mean", "sd", "low", "high", *ends]
    return ["prediction", *(f"p({label})" for label in task.classes), "entropy", *ends]


def prediction_columns(
    prediction: Prediction, typicality: Values, filled: np.ndarray, task: Task, level: float
) -> pd.DataFrame:
    """A row each: mean, sd and interval, or class, probabilities and entropy (nats); how typical its inputs are.

    Typicality is the share of rows like the training rows that lie as far out; ``unlike`` flags those of 1% or less,
    and ``filled`` counts the cells that were filled in.
    """
    import pandas as pd

    columns: list[Any]
    if isinstance(prediction, Regression):
        low, high = prediction.interval(level)
        columns = [part.double().numpy() for part in (prediction.mean, prediction.std, low, high)]
    else:
        assert isinstance(prediction, Classification)
        probs = prediction.probs.double().numpy()
        columns = [np.array(task.classes, dtype=object)[probs.argmax(1)], *probs.T, prediction.entropy.double().numpy()]
    columns += [typicality, is_unlike(typicality), filled]
    return pd.DataFrame(dict(zip(names_of(task), columns, strict=True)))
