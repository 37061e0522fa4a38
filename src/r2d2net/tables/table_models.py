"""The models of `r2d2net fit`: perceptrons of checked tables, saved as the estimators that load them in Python.

R2D2Regressor.load("run/model")     a run's model, with scikit-learn's interface
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from r2d2net.estimators.perceptron import LabelledPerceptron, Perceptron, class_numbers, numbers_of
from r2d2net.likelihoods import Categorical, Ordinal
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.training_table import TrainingTable


class TableRegressor(Perceptron):
    """A model of numbers."""

    @classmethod
    def saved_as(cls) -> str:
        return "R2D2Regressor"


class TableClassifier(LabelledPerceptron):
    """A model of classes."""

    @classmethod
    def saved_as(cls) -> str:
        return "R2D2Classifier"


def model_for(task: Task) -> type[TableRegressor] | type[TableClassifier]:
    """Return the kind of model that a task needs.

    Args:
        task: The task.
    """
    return TableRegressor if task.is_regression else TableClassifier


def fit_model(
    model: TableRegressor | TableClassifier, table: TrainingTable, folder: Path, begun: float | None = None
) -> None:
    """Fit a model to the training rows of a table.

    Args:
        model: The model.
        table: The table.
        folder: Folder of checkpoints, from which an interrupted fit goes on.
        begun: When the seconds of the model's ``time`` began, by `time.monotonic`; None for now.
    """
    # classes as numbers, since texts would be put in an order of their own: 10 before 2
    y = table.y if table.task.is_regression else table.y.astype(np.int64)
    x, held = table.x, None
    if table.held is not None:
        x, y, held = x[~table.held], y[~table.held], (x[table.held], y[table.held])
    if isinstance(model, TableRegressor):
        model.fit_numbers(x, y, model.validation if held is None else held, folder, begun=begun)
        return
    classes, codes = class_numbers(y)
    validation = model.validation if held is None else (held[0], numbers_of(held[1], classes))
    if isinstance(model.likelihood, Ordinal):
        model.fit_checked(x, codes, 1, model.likelihood, validation, folder, begun=begun)
    else:
        model.fit_checked(x, codes, len(classes), Categorical(), validation, folder, begun=begun)
    model.labels_ = np.array(table.task.classes)
