"""What a target asks for: a number (regression), one of two classes (binary) or of more (multiclass).

Texts and truth values are classes. Of numbers, two different ones are classes, and so are the whole numbers 0, 1, ...
or 1, 2, ... up to ten of them; all other numbers are regression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.errors import CheckpointError, DataError, require
from r2d2net.tables.cells import LARGEST, NOTHING, READABLE, alike, codes, is_empty, numbers, places
from r2d2net.tables.conventions import SECONDS, UNKNOWN, Convention, Form, is_duration, is_iso, number_form
from r2d2net.tables.file_reader import shown
from r2d2net.tables.number_formats import date_spelling, unit_of, written_numbers

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("auto", "regression", "binary", "multiclass")
MOST_NUMBERED = 10  # whole numbers that are taken for classes
MOST_CLASSES = 100
LEAST, MOST = 1e-15, 1e15  # size of a target whose square, a variance, is a number in float32, too
WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,99})")
CODE = re.compile(r"0\d+$")


@dataclass(frozen=True)
class Task:
    """A target and its kind.

    Attributes:
        target: The column's name.
        kind: One of `TASKS`, not "auto".
        classes: Texts, in the order of the network's outputs.
        form: How numbers are written (see `spelling`), and for the user ``said``.
    """

    target: str
    kind: str
    classes: tuple[str, ...] = ()
    form: str = ""
    said: str = ""

    @property
    def is_regression(self) -> bool:
        return self.kind == "regression"

    def read(self, column: pd.Series) -> np.ndarray:
        """Targets as float64, nan where there is none; class numbers for classes, -1 for a class unknown here."""
        if self.is_regression:
            return written_numbers(column, self.form)
        cells = codes(column)
        found = places(cells, self.classes).astype(np.float64)
        strange = (found < 0) & cells.notna().to_numpy()
        if strange.any():
            places_of = {key: place for place, key in enumerate(_keys(self.classes, self.form))}
            found[strange] = [places_of.get(key, -1) for key in _keys(cells[strange], self.form)]
        found[cells.isna().to_numpy() | (is_empty(column) & (found < 0))] = np.nan  # NA, unless it is a class
        return found

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def of(cls, plain: Any) -> Task:
        """Back from JSON."""
        try:
            task = cls(plain["target"], plain["kind"], tuple(plain["classes"]), plain["form"], plain["said"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"the task of the run cannot be read: {type(error).__name__} {error}") from error
        texts = (task.target, *task.classes, task.form, task.said)
        if task.kind not in TASKS[1:] or not all(isinstance(one, str) for one in texts):
            raise CheckpointError(f"the task of the run is {plain!r}: no such kind")
        return task


def detect_task(column: pd.Series, target: str, told: str = "auto", convention: Convention = UNKNOWN) -> Task:
    """The task that a target's filled cells ask for, or the one that the user told."""
    require(told in TASKS, "task", told, f"use one of {', '.join(TASKS)}")
    cells = alike(codes(column))
    form = number_form(column, convention.decimal) or Form("", "", SECONDS if is_duration(column) else "")
    values = written_numbers(column, form.form)
    filled = int(cells.notna().sum())
    if filled == 0:
        raise DataError(f"--target {target} is empty: choose a column with values")
    readable = values[~np.isnan(values)]
    is_number = 0 < len(readable) >= READABLE * int((~is_empty(column)).sum())
    if told in ("auto", "regression") and not is_number:
        _require_no_giants(target, column)
    kind = told
    if told in ("auto", "regression") and not is_number and (is_iso(column) or date_spelling(column) is not None):
        sample = cells[~is_empty(column)].iloc[0]
        fix = "write them as numbers, such as days since the first, or take each as a class by --task multiclass"
        raise DataError(f"--target {target} has dates such as {sample!r}: {fix}")
    levels = cells
    if is_number:
        levels = cells.mask(is_empty(column), None)
        if len(np.unique(readable)) <= MOST_CLASSES:
            levels = _same_numbers(levels, form.form)
    if told == "auto":
        distinct = levels[~np.isnan(values)].nunique() if is_number else cells.nunique()
        classes = distinct == 2 or not is_number or _numbered(readable)
        kind = ("binary" if distinct == 2 else "multiclass") if classes else "regression"
    if kind == "regression":
        task = _regression(target, column, readable, filled, is_number)
        return replace(task, form=form.form, said=form.said)
    task = _classification(target, kind, levels, told, is_number, unit_of(column))
    words = [level for level in task.classes if level.lower() in NOTHING]
    said = [
        f"{shown(group)} are classes of their own: write them alike if they are one" for group in _near(task.classes)
    ]
    if words:
        said.insert(0, f"{shown(words)} is taken as a class: leave its cells empty if it means that there is none")
    if told == "auto":
        said.append(unit_of(column))
    return replace(task, form=form.form if is_number else "", said="; ".join(filter(None, said)))


def _require_no_giants(target: str, column: pd.Series) -> None:
    """Refuse numbers that are too large to be read as such, lest they be taken for classes."""
    values = numbers(column, far=np.inf)
    if np.isinf(values).any() and int((~np.isnan(values)).sum()) >= READABLE * int((~is_empty(column)).sum()):
        raise DataError(
            f"--target {target} has values beyond {LARGEST:g}: rescale it to between {LEAST:g} and {MOST:g}"
        )


def _same_numbers(cells: pd.Series, form: str) -> pd.Series:
    """Texts with one spelling for each number, the most frequent one: 1.5 and 1.50 are one class."""
    counts = cells.value_counts()
    found = sorted(counts.index, key=lambda text: (-counts[text], len(text), text))
    spelling: dict[Any, str] = {}
    return cells.map(
        {text: spelling.setdefault(key, text) for text, key in zip(found, _keys(found, form), strict=True)}
    )


def _keys(cells: Iterable[str], form: str) -> list[Any]:
    """What texts are told apart by: whole numbers by all their digits, others by value, and words and 007 as texts."""
    import pandas as pd

    texts = pd.Series(list(cells), dtype=object)
    values = written_numbers(texts, form)
    return [
        int(text) if re.fullmatch(WHOLE, text) else text if np.isnan(value) or CODE.match(text) else float(value)
        for text, value in zip(texts, values, strict=True)
    ]


def _near(classes: tuple[str, ...]) -> list[list[str]]:
    """Classes that differ only in case or blanks."""
    groups: dict[str, list[str]] = {}
    for one in classes:
        groups.setdefault("".join(one.casefold().split()), []).append(one)
    return [group for group in groups.values() if len(group) > 1]


def _numbered(values: np.ndarray) -> bool:
    """Whether numbers look like class numbers."""
    distinct = np.unique(values)
    return 2 < len(distinct) <= MOST_NUMBERED and distinct[0] in (0, 1) and bool((np.diff(distinct) == 1).all())


def _regression(target: str, column: pd.Series, readable: np.ndarray, filled: int, is_number: bool) -> Task:
    if not is_number:
        sample = next(str(cell) for cell in column[column.notna()] if np.isnan(numbers(column[column == cell])[0]))
        share = f"only {len(readable)} of {filled} values are numbers, {sample[:40]!r} is not"
        raise DataError(f"--task regression: {share}: choose another --target or task")
    if len(np.unique(readable)) < 2:
        raise DataError(f"--target {target} has one value, {readable[0]:g}: there is nothing to learn")
    return Task(target, "regression")


def _classification(target: str, kind: str, cells: pd.Series, told: str, is_number: bool, unit: str) -> Task:
    counts = cells.value_counts()
    if len(counts) < 2:
        raise DataError(f"--target {target} has one value, {counts.index[0]!r}: there is nothing to learn")
    if kind == "binary" and len(counts) > 2:
        raise DataError(f"--task binary: {target} has {len(counts)} classes: use multiclass")
    if len(counts) > MOST_CLASSES:
        hint = "use --task regression, or another target"
        if told == "auto":
            hint = f"{unit}, or choose another target" if unit else "choose another target"
        raise DataError(f"--target {target} has {len(counts)} different values, {MOST_CLASSES} classes at most: {hint}")
    rare = sorted(level for level in counts.index if counts[level] < 2)
    if rare and is_number and told == "auto":
        few = f"{kind} was detected, {len(counts)} classes by their numbers, and {shown(rare)} has one row"
        if len(rare) > 1:
            few = few.replace(" has one row", " have one row each")
        fix = "use --task regression if it is a quantity or a count, or give at least two rows a class"
        raise DataError(f"--target {target}: {few}: {fix}")
    if rare:
        raise DataError(f"--target {target} has one row of {shown(rare)}: give at least two rows a class")
    return Task(target, kind, tuple(sorted(counts.index, key=_order)))


def _order(level: str) -> tuple[bool, float, str]:
    """Numbers by size, before texts."""
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level
