"""`r2d2net fit --split time`: the test rows are the last ones by a column of dates.

Rows at random say how well rows among those of the training are predicted, rows of a later time how well the future is.
A row without a readable date is a training row. Rows of one date stay in the order of the file.
"""

from __future__ import annotations

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.format_rules import FormatRules, detect_column_format
from r2d2net.columns.phrases import counted, quoted_names
from r2d2net.columns.raw_columns import RawTable
from r2d2net.errors import Argument, DataError, ParameterError
from r2d2net.tables.prediction_task import Task

LEAST_OF_CLASS = 2  # training rows


def times_of(table: RawTable, rules: FormatRules, column: str | None, without: list[str]) -> tuple[str, Values]:
    """Return the column by which rows are ordered in time, and the time of each row.

    Args:
        table: All rows.
        rules: How ambiguous numbers and dates are read.
        column: The column that the user named, of dates or numbers; None for the only one of dates.
        without: Columns that are not considered: the target and those to ignore.

    Returns:
        Its name, and days since 1970 or its numbers; NaN where there is none.

    Raises:
        ParameterError: There is no such column, there are several, or it has no dates or numbers.
    """
    if column is not None:
        if column not in table.names:
            fix = f"the table has {quoted_names(table.names)}"
            raise ParameterError("is no column", argument="split_column", value=column, fix=fix)
        found = [(column, *_read(table, column, rules))]
        if not found[0][1]:
            problem = "has neither dates nor numbers"
            raise ParameterError(problem, argument="split_column", value=column, fix="name another column")
    else:
        named = ((name, *_read(table, name, rules)) for name in table.names if name not in without)
        found = [(name, kind, times) for name, kind, times in named if kind == "date"]
    if len(found) == 1:
        return found[0][0], found[0][2]
    names = quoted_names([name for name, _, _ in found])
    problem = f"needs a column of dates, and there are {names}" if found else "needs a column of dates, there is none"
    raise ParameterError(problem, argument="split", value="time", fix=("name one by ", Argument("split_column")))


def last_rows(times: Values, count: int) -> np.ndarray:
    """Return a mask of the last rows by time.

    Args:
        times: The time of each row, NaN where it has none.
        count: How many rows to take; fewer if not so many have a time.
    """
    order = np.argsort(np.where(np.isnan(times), -np.inf, times), kind="stable")
    held = np.zeros(len(times), dtype=bool)
    held[order[len(times) - count :]] = True
    return held & ~np.isnan(times)


def require_classes(task: Task, y: Values, is_test: np.ndarray) -> None:
    """Refuse a split after which a class has too few training rows.

    Args:
        task: The task.
        y: Targets of all rows.
        is_test: Which rows are test rows.

    Raises:
        DataError: There is such a class.
    """
    if task.is_regression:
        return
    rows = np.bincount(y[~is_test].astype(np.int64), minlength=len(task.classes))
    lacking = [name for name, count in zip(task.classes, rows, strict=True) if count < LEAST_OF_CLASS]
    if lacking:
        problem = f"leaves fewer than {LEAST_OF_CLASS} training rows of {quoted_names(lacking)}"
        fix = ("use ", Argument("split", "random"), ", or fewer rows for the test by ", Argument("test"))
        raise DataError(problem, argument="split", value="time", fix=fix)


def split_note(name: str, times: Values, is_test: np.ndarray) -> str:
    """Say which rows the test rows are.

    Args:
        name: The column of time.
        times: The time of each row.
        is_test: Which rows are test rows.
    """
    lost = int(np.isnan(times).sum())
    gaps = f"; {counted(lost, 'row')} without one used for training" if lost else ""
    return f"the test rows are the last {int(is_test.sum()):,} by {name!r}{gaps}"


def random_note(dated: list[str]) -> list[str]:
    """Return a note that rows have dates and test rows are drawn at random.

    Args:
        dated: The columns of dates.
    """
    if not dated:
        return []
    several = " --split-column NAME" if len(dated) > 1 else ""
    advice = f"if new rows will be of a later time, test on the last rows by --split time{several}"
    return [f"rows have dates ({quoted_names(dated, 3)}), and the test rows are drawn at random: {advice}"]


def _read(table: RawTable, name: str, rules: FormatRules) -> tuple[str, Values]:
    """Return what a column of dates or numbers is, and its values; "" of other columns."""
    column = table[name]
    if column.missing.all():
        return "", np.full(len(table), np.nan)
    detected = detect_column_format(column, rules)
    if not detected.kind:
        return "", np.full(len(table), np.nan)
    return detected.kind, (column.days if detected.kind == "date" else column.numbers)(detected.format)
