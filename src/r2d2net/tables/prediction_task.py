"""What a target asks for: a number (regression), one of two classes (binary) or of more (multiclass).

Levels in an order (low, medium, high) are ordinal if the user says so, or if Parquet has them as an ordered category.
Texts and truth values are classes. Of numbers, two different ones are classes, and so are the whole numbers 0, 1, ...
or 1, 2, ... up to ten of them; all other numbers are regression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.columns.cell_parsing import LARGEST, MISSING_WORDS, Values, parse_numbers
from r2d2net.columns.date_formats import detect_date_formats
from r2d2net.columns.format_rules import DURATIONS_NOTE, NO_RULES, ColumnFormat, FormatRules, choose_number_format
from r2d2net.columns.number_formats import unit_note
from r2d2net.columns.phrases import quoted_names
from r2d2net.columns.raw_columns import READABLE, RawColumn, RawTable, level_places, merge_truth_values
from r2d2net.errors import Argument, CheckpointError, DataError, Shown, Text, Value, require

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("auto", "regression", "binary", "multiclass", "ordinal")
MOST_NUMBERED = 10  # whole numbers that are taken for classes
MOST_CLASSES = 100
LEAST, MOST = 1e-15, 1e15  # size of a target whose square, a variance, is a number in float32, too
REGRESSION, MULTICLASS = Argument("task", "regression"), Argument("task", "multiclass")
WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,99})")
CODE = re.compile(r"0\d+$")


@dataclass(frozen=True)
class Task:
    """A target, or several, and its kind.

    Attributes:
        target: The column's name, or those of several.
        kind: One of `TASKS`, not "auto".
        classes: Texts, in the order of the network's outputs; where they are ordinal, from the lowest.
        form: How numbers are written (see `cell_parsing`).
        said: What the user should know of how the target is read.
        parts: Of several targets the task of each, in the order of the network's outputs.
    """

    target: str
    kind: str
    classes: tuple[str, ...] = ()
    form: str = ""
    said: str = ""
    parts: tuple[Task, ...] = ()

    @classmethod
    def of_several(cls, parts: Sequence[Task]) -> Task:
        """Join the tasks of several targets, all of them numbers.

        Args:
            parts: The task of each target.

        Raises:
            DataError: A target is no number.
        """
        if all(part.is_regression for part in parts):
            said = "; ".join(f"{part.target}: {part.said}" for part in parts if part.said)
            return cls(", ".join(part.target for part in parts), "regression", said=said, parts=tuple(parts))
        kinds = ", ".join(f"{part.target} is {part.kind}" for part in parts)
        fix = ("fit each by itself, or give ", REGRESSION, " if all are numbers")
        names = Shown(",".join(part.target for part in parts))
        raise DataError(f"are several and not all numbers ({kinds})", argument="target", value=names, fix=fix)

    @property
    def each(self) -> tuple[Task, ...]:
        """The task of each target; of one target the task itself."""
        return self.parts or (self,)

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets."""
        return tuple(part.target for part in self.each)

    @property
    def is_regression(self) -> bool:
        return self.kind == "regression"

    def read(self, column: pd.Series | RawColumn) -> np.ndarray:
        """Read targets.

        Args:
            column: The column of the target.

        Returns:
            Numbers, or for classes their places in `classes`, -1 for a class unknown here; NaN where there is none.
        """
        cells = RawColumn.of(column)
        if self.is_regression:
            return cells.numbers(self.form)
        codes = cells.codes
        missing = np.array([code is None for code in codes], dtype=bool)
        labels = level_places(codes, self.classes).astype(np.float64)
        strange = (labels < 0) & ~missing
        if strange.any():
            labels_by_key = {key: label for label, key in enumerate(_keys(self.classes, self.form))}
            labels[strange] = [labels_by_key.get(key, -1) for key in _keys(codes[strange], self.form)]
        labels[missing | (cells.empty & (labels < 0))] = np.nan  # NA, unless it is a class
        return labels

    def read_from(self, table: RawTable | pd.DataFrame) -> Values:
        """Read the targets of a table.

        Args:
            table: The table, with the columns of the targets.

        Returns:
            What `read` returns, (rows,), or (rows, targets) of several.
        """
        columns = [part.read(table[part.target]) for part in self.each]
        return np.stack(columns, 1) if self.parts else columns[0]

    def plain(self) -> dict[str, Any]:
        """Return the task as plain values for JSON."""
        plain = {name: value for name, value in asdict(self).items() if name != "parts"}
        parts = {"parts": [part.plain() for part in self.parts]} if self.parts else {}
        return {**plain, "classes": list(self.classes), **parts}

    @classmethod
    def of(cls, plain: Any) -> Task:
        """Restore a task from the values of `plain`.

        Args:
            plain: What a file kept.

        Raises:
            CheckpointError: The values are no task.
        """
        try:
            task = cls(plain["target"], plain["kind"], tuple(plain["classes"]), plain["form"], plain["said"])
            task = replace(task, parts=tuple(cls.of(part) for part in plain.get("parts", ())))
        except (KeyError, TypeError) as error:
            problem = f"cannot be read: {type(error).__name__} {error}"
            raise CheckpointError(problem, value=Shown("the task of the run"), fix="fit the table anew") from error
        texts = (task.target, *task.classes, task.form, task.said)
        if task.kind not in TASKS[1:] or not all(isinstance(text, str) for text in texts):
            raise CheckpointError(("the task of the run is ", Value(plain), ": no such kind"), fix="fit the table anew")
        return task


def detect_task(
    column: pd.Series | RawColumn,
    target: str,
    requested: str = "auto",
    rules: FormatRules = NO_RULES,
    order: Sequence[str] = (),
) -> Task:
    """Find the task that a target's filled cells ask for, or take the one that the user requested.

    Args:
        column: The column of the target.
        target: Its name.
        requested: One of `TASKS`.
        rules: How ambiguous numbers and dates are read.
        order: Levels from the lowest to the highest, if the user gives them.

    Returns:
        The task.

    Raises:
        DataError: The cells do not suit the task, or no task.
    """
    require(requested in TASKS, "task", requested, f"use one of {', '.join(TASKS)}")
    cells = RawColumn.of(column)
    texts = merge_truth_values(cells.codes)
    detected = choose_number_format(cells, rules.decimal)
    detected = detected or ColumnFormat("", note=DURATIONS_NOTE if cells.is_duration else "")
    values = cells.numbers(detected.format)
    filled = sum(text is not None for text in texts)
    if filled == 0:
        raise DataError("is empty", argument="target", value=target, fix="choose a column with values")
    readable = values[~np.isnan(values)]
    is_number = 0 < len(readable) >= READABLE * int((~cells.empty).sum())
    if requested in ("auto", "regression") and not order and not is_number:
        _require_no_giants(target, cells)
        _require_no_dates(target, cells, texts)
    levels = texts
    if is_number:
        levels = texts.copy()
        levels[cells.empty] = None
        if len(np.unique(readable)) <= MOST_CLASSES:
            levels = _same_numbers(levels, detected.format)
    kind = "ordinal" if order else requested
    if kind == "auto" and len(cells.ordered_levels) > 2:
        kind, order = "ordinal", [level for level in cells.ordered_levels if level in set(texts)]
    elif kind == "ordinal" and not order and not is_number:
        order = [level for level in cells.ordered_levels if level in set(texts)]
        if not order:
            fix: Text = ("list its levels by ", Argument("ordinal", Shown("low,medium,high")), ", from the lowest")
            raise DataError("is of texts, whose order is not known", argument="target", value=target, fix=fix)
    if kind == "auto":
        distinct = len({level for level in (levels[~np.isnan(values)] if is_number else texts) if level is not None})
        classes = distinct == 2 or not is_number or _numbered(readable)
        kind = ("binary" if distinct == 2 else "multiclass") if classes else "regression"
    if kind == "regression":
        task = _regression(target, cells, readable, filled, is_number)
        return replace(task, form=detected.format, said=detected.note)
    task = _classification(target, kind, levels, requested, is_number, unit_note(cells))
    if order:
        task = replace(task, classes=_in_order(target, task.classes, order, detected.format if is_number else ""))
    words = [level for level in task.classes if level.lower() in MISSING_WORDS]
    notes = [
        f"{quoted_names(group)} are classes of their own: write them alike if they are one"
        for group in _near(task.classes)
    ]
    if words:
        notes.insert(
            0, f"{quoted_names(words)} is taken as a class: leave its cells empty if it means that there is none"
        )
    if requested == "auto" and kind != "ordinal":
        notes.append(unit_note(cells))
    return replace(task, form=detected.format if is_number else "", said="; ".join(filter(None, notes)))


def _require_no_giants(target: str, column: RawColumn) -> None:
    """Refuse numbers that are too large to be read as such, lest they be taken for classes."""
    values = column.numbers(keep_infinite=True)
    if np.isinf(values).any() and int((~np.isnan(values)).sum()) >= READABLE * int((~column.empty).sum()):
        fix = f"rescale it to between {LEAST:g} and {MOST:g}"
        raise DataError(f"has values beyond {LARGEST:g}", argument="target", value=target, fix=fix)


def _require_no_dates(target: str, column: RawColumn, texts: np.ndarray) -> None:
    """Refuse dates, lest each be taken for a class."""
    if column.holds_iso_dates() or detect_date_formats(column) is not None:
        fix = ("write them as numbers, such as days since the first, or take each as a class by ", MULTICLASS)
        problem = f"has dates such as {texts[~column.empty][0]!r}"
        raise DataError(problem, argument="target", value=target, fix=fix)


def _same_numbers(texts: np.ndarray, number_format: str) -> np.ndarray:
    """Write each number in its most frequent spelling: 1.5 and 1.50 are one class."""
    counts = Counter(text for text in texts if text is not None)
    by_frequency = sorted(counts, key=lambda text: (-counts[text], len(text), text))
    spelling: dict[Any, str] = {}
    keys = _keys(by_frequency, number_format)
    written = {text: spelling.setdefault(key, text) for text, key in zip(by_frequency, keys, strict=True)}
    same = texts.copy()
    same[:] = [None if text is None else written[text] for text in texts]
    return same


def _keys(texts: Iterable[str], number_format: str) -> list[Any]:
    """Return the keys of texts: all digits of whole numbers, the value of other numbers, words and 007 as texts."""
    cells = np.array([*texts, None], dtype=object)[:-1]
    values = parse_numbers(cells, number_format)
    return [
        int(text) if re.fullmatch(WHOLE, text) else text if not np.isfinite(value) or CODE.match(text) else float(value)
        for text, value in zip(cells, values, strict=True)
    ]


def _in_order(target: str, classes: Sequence[str], order: Sequence[str], number_format: str) -> tuple[str, ...]:
    """Bring the classes of a target into an order, in which numbers may be written otherwise."""
    by_key = dict(zip(_keys(classes, number_format), classes, strict=True))
    keys = _keys(order, number_format)
    listed = Argument("ordinal", Shown(",".join(order)))
    unknown = [level for key, level in by_key.items() if key not in keys]
    if unknown:
        problem = ("has ", Value(unknown[0]), ", which ", listed, " does not list")
        raise DataError(problem, argument="target", value=target, fix="add it, or empty its cells")
    absent = [level for key, level in zip(keys, order, strict=True) if key not in by_key]
    if absent or len(set(keys)) < len(keys):
        wrong = f"lists {absent[0]!r}, which no row of {target} has" if absent else "lists a level twice"
        raise DataError(wrong, argument="ordinal", value=Shown(",".join(order)), fix="leave it out")
    return tuple(by_key[key] for key in keys)


def _near(classes: tuple[str, ...]) -> list[list[str]]:
    """Return groups of classes that differ only in case or blanks."""
    groups: dict[str, list[str]] = {}
    for level in classes:
        groups.setdefault("".join(level.casefold().split()), []).append(level)
    return [group for group in groups.values() if len(group) > 1]


def _numbered(values: np.ndarray) -> bool:
    """Return whether numbers look like class numbers."""
    distinct = np.unique(values)
    return 2 < len(distinct) <= MOST_NUMBERED and distinct[0] in (0, 1) and bool((np.diff(distinct) == 1).all())


def _regression(target: str, column: RawColumn, readable: np.ndarray, filled: int, is_number: bool) -> Task:
    if not is_number:
        sample = next(text for text in column.texts[np.isnan(column.numbers())] if text is not None)
        problem = (":", f" only {len(readable)} of {filled} values are numbers, {sample[:40]!r} is not")
        fix = ("choose another ", Argument("target"), " or task")
        raise DataError(problem, argument="task", value="regression", fix=fix)
    if len(np.unique(readable)) < 2:
        raise _one_value(target, f"{readable[0]:g}")
    return Task(target, "regression")


def _classification(target: str, kind: str, texts: np.ndarray, requested: str, is_number: bool, unit: str) -> Task:
    counts = Counter(text for text in texts if text is not None)
    if len(counts) < 2:
        raise _one_value(target, repr(next(iter(counts))))
    if kind == "binary" and len(counts) > 2:
        too_many = (":", f" {target} has {len(counts)} classes")
        raise DataError(too_many, argument="task", value="binary", fix="use multiclass")
    if len(counts) > MOST_CLASSES:
        hint: Text = ("use ", REGRESSION, ", or another target")
        if requested == "auto":
            hint = f"{unit}, or choose another target" if unit else "choose another target"
        problem = f"has {len(counts)} different values, {MOST_CLASSES} classes at most"
        raise DataError(problem, argument="target", value=target, fix=hint)
    rare = sorted(level for level, count in counts.items() if count < 2)
    if rare and is_number and requested == "auto":
        rows = f"{quoted_names(rare)} {'has one row' if len(rare) == 1 else 'have one row each'}"
        single = (":", f" {kind} was detected, {len(counts)} classes by their numbers, and {rows}")
        fix = ("use ", REGRESSION, " if it is a quantity or a count, or give at least two rows a class")
        raise DataError(single, argument="target", value=target, fix=fix)
    if rare:
        problem = f"has one row of {quoted_names(rare)}"
        raise DataError(problem, argument="target", value=target, fix="give at least two rows a class")
    return Task(target, kind, tuple(sorted(counts, key=_order)))


def _one_value(target: str, value: str) -> DataError:
    return DataError(f"has one value, {value}", argument="target", value=target, fix="there is nothing to learn")


def _order(level: str) -> tuple[bool, float, str]:
    """Sort numbers by size, before texts."""
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level
