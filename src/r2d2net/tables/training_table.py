"""A table made ready for a fit: the task, the rows held out for the test, the columns as inputs, and what was done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from r2d2net.errors import DataError, ParameterError
from r2d2net.tables.cells import Values
from r2d2net.tables.columns import Category, Columns, Counts, notes_of
from r2d2net.tables.learning import learn_columns
from r2d2net.tables.reading import read_table, shown
from r2d2net.tables.settings import Settings
from r2d2net.tables.task import Task, detect_task

LEAST_ROWS = 10


@dataclass(frozen=True)
class TrainingTable:
    """Inputs and targets; the training rows include those that the fit holds out for validation."""

    task: Task
    columns: Columns
    x: Values
    y: Values
    test_rows: np.ndarray  # their numbers in the file, from 0
    x_test: Values
    y_test: Values
    validation: float | None  # share of the training rows
    notes: tuple[str, ...]

    @property
    def rows(self) -> dict[str, int]:
        held = max(1, round(self.validation * len(self.y))) if self.validation else 0
        return {"training": len(self.y) - held, "validation": held, "test": len(self.y_test)}


def read_training_table(path: Path, settings: Settings) -> TrainingTable:
    """Read a file and make it ready; columns and fillings are learnt from training rows alone."""
    table = read_table(path)
    target = settings.target
    if target not in table.columns:
        raise ParameterError(f"--target {target} is no column of {path}: it has {shown(list(table.columns), 20)}")
    task = detect_task(table[target], target, settings.task)
    y = task.read(table[target])
    there = ~np.isnan(y)
    if int(there.sum()) < LEAST_ROWS:
        raise DataError(f"{path} has {int(there.sum())} rows with a target: give at least {LEAST_ROWS}")
    notes = []
    if not there.all():
        notes.append(f"{int((~there).sum()):,} rows without a readable {target} left out")
    table, y = table[there], y[there]
    is_test = _test_rows(y, settings.test, settings.seed, by_class=not task.is_regression)
    columns = learn_columns(table[~is_test], target, settings.categorical, settings.ignore)
    settings.require_size(sum(len(one.inputs) for one in columns.used), max(1, len(task.classes)))
    counts: Counts = Counter()
    x, x_test = columns.encode(table[~is_test], counts), columns.encode(table[is_test], counts)
    notes += [f"column {name} left out: {why}" for name, why in columns.left_out.items() if why != "as told"]
    share = settings.validation / (1 - settings.test) if settings.validation else None
    rows = table.index.to_numpy()[is_test]
    notes += notes_of(counts)
    levels = [one.name for one in columns.used if isinstance(one, Category) and one.missing]
    if levels:
        notes.append(f"missing cells are a level of their own in {shown(levels)}")
    return TrainingTable(task, columns, x, y[~is_test], rows, x_test, y[is_test], share, tuple(notes))


def _test_rows(y: Values, share: float, seed: int, *, by_class: bool) -> np.ndarray:
    """Which rows are for the test: drawn by the seed, of each class its share; two rows of a class always train."""
    rng = np.random.default_rng(seed)
    is_test = np.zeros(len(y), dtype=bool)
    for level in np.unique(y) if by_class else [None]:
        rows = np.flatnonzero(y == level) if by_class else np.arange(len(y))
        count = min(round(share * len(rows)), len(rows) - 2)
        is_test[rng.permutation(rows)[:count]] = True
    return is_test
