"""A column as inputs of a network: numbers and dates, or categories. See `columns`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.tables.cells import Values, codes, is_empty, places
from r2d2net.tables.number_formats import written_days, written_numbers

if TYPE_CHECKING:
    import pandas as pd

FARTHEST = 1e6  # standard deviations; farther cells are moved there, where float32 still has digits
OTHER, MISSING = "(other)", "(missing)"

Counts = Counter[tuple[str, str]]  # (column, what): cells


class Encoded(NamedTuple):
    """Rows as inputs of a network.

    Attributes:
        x: (rows, inputs).
        filled: How many cells of a row were filled in.
        strange: Which rows have a cell such as no training row had.
    """

    x: Values
    filled: np.ndarray
    strange: np.ndarray


@dataclass(frozen=True)
class Number:
    """A column of numbers or dates; ``low`` to ``high`` is the range of the training rows."""

    name: str
    kind: str  # "number" or "date"
    median: float
    mean: float
    sd: float
    low: float
    high: float
    gaps: bool  # training rows had cells to fill in
    form: str = ""  # how cells are written (see `spelling`)
    unreadable: bool = False  # training rows had filled cells that could not be read

    @property
    def inputs(self) -> list[str]:
        return [self.name]

    def encode(self, column: pd.Series, counts: Counts) -> Encoded:
        date = self.kind == "date"
        values = written_days(column, self.form) if date else written_numbers(column, self.form, far=np.inf)
        lost, infinite, empty = ~np.isfinite(values), np.isinf(values), is_empty(column)
        unreadable = lost & ~empty & ~infinite
        counts[self.name, "missing"] += int(empty.sum())
        counts[self.name, "infinite"] += int(infinite.sum())
        counts[self.name, "unreadable"] += int(unreadable.sum())
        values = np.where(infinite, np.clip(values, self.low, self.high), values)
        scaled = (np.where(np.isnan(values), self.median, values) - self.mean) / self.sd
        strange = infinite | (lost & (not self.gaps)) | (unreadable & (not self.unreadable))
        return Encoded(np.clip(scaled, -FARTHEST, FARTHEST)[:, None], lost.astype(np.int64), strange)


@dataclass(frozen=True)
class Category:
    """A column of levels, the most frequent first."""

    name: str
    levels: list[str]
    other: bool  # training rows had rare levels
    missing: bool  # training rows had missing cells
    kind: str = "category"
    known: float = 1.0  # share of the filled cells of the training rows that are of these levels
    rare: list[str] = field(default_factory=list)  # other levels of training rows

    @property
    def inputs(self) -> list[str]:
        ends = [OTHER] * self.other + [MISSING] * self.missing
        return [f"{self.name}={level}" for level in self.levels + ends]

    @property
    def gaps(self) -> bool:
        return self.missing

    def encode(self, column: pd.Series, counts: Counts) -> Encoded:
        cells = codes(column)
        at = places(cells, self.levels)
        empty = cells.isna().to_numpy()
        unseen = (at < 0) & ~empty
        filled = empty & (not self.missing)
        counts[self.name, "missing"] += int(filled.sum())
        counts[self.name, "known"] += int((at >= 0).sum() + cells[unseen].isin(self.rare).sum())
        counts[self.name, "rare" if self.other else "unseen"] += int(unseen.sum())
        at = np.where(empty, len(self.levels) + self.other if self.missing else 0, at)
        at = np.where(unseen, len(self.levels) if self.other else -1, at)
        encoded = np.zeros((len(cells), len(self.inputs)))
        rows = np.flatnonzero(at >= 0)
        encoded[rows, at[rows]] = 1.0
        return Encoded(encoded, filled.astype(np.int64), filled | (unseen & (not self.other)))


Column = Number | Category
