"""A column as inputs of a network: numbers and dates, or categories. See `input_columns`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.tables.cell_parsing import Values
from r2d2net.tables.raw_columns import RawColumn, level_places

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

    def take(self, rows: np.ndarray) -> Encoded:
        """Return some rows."""
        return Encoded(self.x[rows], self.filled[rows], self.strange[rows])

    @classmethod
    def beside(cls, parts: Sequence[Encoded]) -> Encoded:
        """Join the inputs of several columns."""
        filled = np.sum([part.filled for part in parts], axis=0)
        strange = np.any([part.strange for part in parts], axis=0)
        return cls(np.hstack([part.x for part in parts]), filled, strange)


@dataclass(frozen=True)
class NumberEncoder:
    """A column of numbers or dates; ``low`` to ``high`` is the range of the training rows."""

    name: str
    kind: str  # "number" or "date"
    median: float
    mean: float
    sd: float
    low: float
    high: float
    gaps: bool  # training rows had cells to fill in
    form: str = ""  # the number or date format (see `cell_parsing`)
    unreadable: bool = False  # training rows had filled cells that could not be read

    @property
    def inputs(self) -> list[str]:
        return [self.name]

    def encode(self, column: pd.Series | RawColumn, counts: Counts) -> Encoded:
        """Standardise the cells, missing ones as the median; adds to ``counts`` what was not as it should be."""
        cells = RawColumn.of(column)
        values = cells.days(self.form) if self.kind == "date" else cells.numbers(self.form, keep_infinite=True)
        lost, infinite, empty = ~np.isfinite(values), np.isinf(values), cells.empty
        unreadable = lost & ~empty & ~infinite
        counts[self.name, "missing"] += int(empty.sum())
        counts[self.name, "infinite"] += int(infinite.sum())
        counts[self.name, "unreadable"] += int(unreadable.sum())
        values = np.where(infinite, np.clip(values, self.low, self.high), values)
        scaled = (np.where(np.isnan(values), self.median, values) - self.mean) / self.sd
        strange = infinite | (lost & (not self.gaps)) | (unreadable & (not self.unreadable))
        return Encoded(np.clip(scaled, -FARTHEST, FARTHEST)[:, None], lost.astype(np.int64), strange)


@dataclass(frozen=True)
class CategoryEncoder:
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

    def encode(self, column: pd.Series | RawColumn, counts: Counts) -> Encoded:
        """Write a 1 for the level of each cell; adds to ``counts`` what was missing, rare or unseen."""
        codes = RawColumn.of(column).codes
        places = level_places(codes, self.levels)
        empty = np.array([code is None for code in codes], dtype=bool)
        unseen = (places < 0) & ~empty
        filled = empty & (not self.missing)
        rare = set(self.rare)
        counts[self.name, "missing"] += int(filled.sum())
        counts[self.name, "known"] += int((places >= 0).sum()) + sum(code in rare for code in codes[unseen])
        counts[self.name, "rare" if self.other else "unseen"] += int(unseen.sum())
        places = np.where(empty, len(self.levels) + self.other if self.missing else 0, places)
        places = np.where(unseen, len(self.levels) if self.other else -1, places)
        encoded = np.zeros((len(codes), len(self.inputs)))
        rows = np.flatnonzero(places >= 0)
        encoded[rows, places[rows]] = 1.0
        return Encoded(encoded, filled.astype(np.int64), filled | (unseen & (not self.other)))


ColumnEncoder = NumberEncoder | CategoryEncoder
