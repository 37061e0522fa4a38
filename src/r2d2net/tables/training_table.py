"""A table made ready for a fit: the task, the rows held out for the test, the columns as inputs, and what was done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.column_detection import Targets, learn_inputs
from r2d2net.columns.column_encoders import CategoryEncoder, Encoded, NumberEncoder
from r2d2net.columns.column_names import FIX, are_data, meant
from r2d2net.columns.format_rules import FormatRules, detect_format_rules
from r2d2net.columns.input_columns import Columns, chosen_columns, notes_of
from r2d2net.columns.phrases import counted, quoted_names
from r2d2net.columns.raw_columns import RawColumn, RawTable
from r2d2net.errors import Argument, DataError, ParameterError
from r2d2net.tables.file_reader import encoding_note, read_table, separator_of
from r2d2net.tables.prediction_task import Task, detect_task
from r2d2net.tables.settings import AUTO, Settings
from r2d2net.tables.time_split import last_rows, random_note, require_classes, split_note, times_of

LEAST_ROWS = 10
CLASSES, WITHOUT = "is for numbers, and the target is a class", "leave it out"  # of a likelihood


@dataclass(frozen=True)
class TrainingTable:
    """Inputs and targets; the training rows include those that the fit holds out for validation.

    Attributes:
        y: Targets of the training rows, (rows,), or (rows, targets) of several.
        test: Inputs of the test rows.
        test_rows: Their numbers in the file, from 0.
        validation: Share of the training rows to hold out.
        held: Which of them are held out. For classes of each its share; for numbers the fit draws
            them, unless units are to be cut by them.
    """

    task: Task
    columns: Columns
    x: Values
    y: Values
    test: Encoded
    test_rows: np.ndarray
    y_test: Values
    validation: float | None
    held: np.ndarray | None
    notes: tuple[str, ...]

    @property
    def each(self) -> list[TrainingTable]:
        """The table with each of the targets; of one target the table itself."""
        if not self.task.parts:
            return [self]
        columns = enumerate(self.task.parts)
        return [replace(self, task=part, y=self.y[:, j], y_test=self.y_test[:, j]) for j, part in columns]

    @property
    def rows(self) -> dict[str, int]:
        held = max(1, round(self.validation * len(self.y))) if self.validation else 0
        held = held if self.held is None else int(self.held.sum())
        return {"training": len(self.y) - held, "validation": held, "test": len(self.y_test)}


def read_training_table(path: Path, settings: Settings) -> TrainingTable:
    """Read a file and make it ready for a fit; columns and fillings are learnt from training rows alone.

    Args:
        path: CSV or Parquet file.
        settings: The settings of the fit.

    Returns:
        Inputs and targets of training and test rows, and notes for the user.

    Raises:
        DataError: The file or its target cannot be used.
        ParameterError: A setting names a column that there is not, or the network is too large.
    """
    table = RawTable(read_table(path))
    names = table.names
    targets = _target_names(settings.target, names, path)
    if len(table) < LEAST_ROWS:
        raise DataError(f"has {counted(len(table), 'row')}", value=path, fix=f"give at least {LEAST_ROWS}")
    without = chosen_columns(settings.ignore, names, "ignore")
    both = next((target for target in targets if target in without), None)
    if both is not None:
        fix = ("leave it out here, as a target is no input, or of ", Argument("target"))
        raise ParameterError("is to be predicted", argument="ignore", value=both, fix=fix)
    skip = chosen_columns(settings.categorical, names, "categorical") + without
    rules = detect_format_rules(table, separator_of(path), settings.decimal, settings.dates, skip)
    tasks = [_task_of(table[target], target, settings, rules) for target in targets]
    task = tasks[0] if len(tasks) == 1 else Task.of_several(tasks)
    y = task.read_from(table)
    there = ~np.isnan(y).reshape(len(y), -1).any(1)
    if int(there.sum()) < LEAST_ROWS:
        problem = f"has {counted(int(there.sum()), 'row')} with a target"
        raise DataError(problem, value=path, fix=f"give at least {LEAST_ROWS}")
    notes = encoding_note(path)
    if are_data(names):
        notes.append(f"the first line is taken as names, {quoted_names(names, 3)}: if it is data, {FIX}")
    if task.said:
        notes.append(f"target {task.target}: {task.said}")
    if not there.all():
        notes.append(f"{counted(int((~there).sum()), 'row')} without a readable {task.target} left out")
    rows, y = np.flatnonzero(there), y[there]
    classes = not task.is_regression
    count = round(settings.test * len(y))
    if settings.split == "time":
        by, times = times_of(table, rules, settings.split_column, [*targets, *without])
        is_test = last_rows(times[rows], count)
        require_classes(task, y, is_test)
        notes.append(split_note(by, times[rows], is_test))
    else:
        is_test = held_out(y, count, settings.seed, by_class=classes, stay=2)
    columns, encoded, counts = learn_inputs(
        table,
        targets,
        settings.categorical,
        settings.ignore,
        settings.keep,
        rules,
        rows=rows,
        training=rows[~is_test],
        targets=Targets.of(y[~is_test], task.classes or task.targets, settings.seed),
    )
    settings.require_size(encoded.x.shape[1], max(len(targets), len(task.classes)))
    x, test = encoded.x[~is_test], encoded.take(is_test)
    notes += [f"column {name} left out: {why}" for name, why in columns.left_out.items() if why != "as told"]
    notes += [f"column {name}: {how}" for name, how in columns.read_as.items()]
    share = settings.validation / (1 - settings.test) if settings.validation else None
    held = None
    if share and (classes or settings.prune):
        count = max(1, round(share * len(x)))
        held = held_out(y[~is_test], count, settings.seed, by_class=classes, stay=1)
    notes += notes_of(counts)
    if settings.split == "random":
        notes += random_note([column.name for column in columns.used if column.kind == "date"])
    levels = [column.name for column in columns.used if isinstance(column, CategoryEncoder) and column.missing]
    if levels:
        notes.append(f"missing cells are a level of their own in {quoted_names(levels)}")
    indicators = [column.name for column in columns.used if isinstance(column, NumberEncoder) and column.indicator]
    if indicators:
        notes.append(f"an input of its own says which cells are missing in {quoted_names(indicators)}")
    return TrainingTable(task, columns, x, y[~is_test], test, rows[is_test], y[is_test], share, held, tuple(notes))


def _task_of(column: RawColumn, target: str, settings: Settings, rules: FormatRules) -> Task:
    """Find the task of a target, and tell of a likelihood of numbers if that is why it cannot be read."""
    try:
        return detect_task(column, target, settings.task, rules, settings.ordinal)
    except DataError as error:
        if settings.likelihood == AUTO or settings.task != "regression" or error.argument != "task":
            raise
        raise ParameterError(CLASSES, argument="likelihood", value=settings.likelihood, fix=WITHOUT) from error


def _target_names(given: str, names: list[str], path: Path) -> list[str]:
    """Return the targets that an option names: one, or several by commas; a name with commas is a name first."""
    targets = [given] if given in names else [part.strip() for part in given.split(",") if part.strip()]
    unknown = next((target for target in targets if target not in names), None)
    if unknown is None and len(set(targets)) == len(targets):
        return targets
    value = given if unknown is None else unknown
    if unknown is None:
        raise ParameterError("names a column twice", argument="target", value=value, fix="name each once")
    if are_data(names):
        problem = f"is no column of {path}, whose first line looks like data ({quoted_names(names, 3)})"
        raise ParameterError(problem, argument="target", value=value, fix=FIX)
    fix = f"it has {quoted_names(names, 20)}{meant(value, names)}"
    raise ParameterError(f"is no column of {path}", argument="target", value=value, fix=fix)


def held_out(y: Values, count: int, seed: int, *, by_class: bool, stay: int) -> np.ndarray:
    """Draw the rows to hold out; of each class its share.

    How many rows a class gives is found at equal steps through the rows in the order of classes: its share up to one
    row, however few it has. (scikit-learn's stratified split refuses classes of few rows, and may hold out all of one.)

    Args:
        y: Targets.
        count: How many rows to hold out.
        seed: Seed of the draw.
        by_class: Whether the targets are classes.
        stay: So many rows of each class always stay.

    Returns:
        A mask of the rows held out.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.arange(len(y)))
    held = np.zeros(len(y), dtype=bool)
    if not by_class:
        held[order[: min(count, len(y) - stay)]] = True
        return held
    steps = ((np.arange(count) + rng.random()) * len(y) / max(1, count)).astype(np.int64)
    given = np.sort(y)[steps]
    for level in np.unique(y):
        rows = order[y[order] == level]
        held[rows[: min(int((given == level).sum()), len(rows) - stay)]] = True
    return held
