"""A column as inputs of a network: numbers, or categories by level. See `input_columns`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.raw_columns import RawColumn, level_places

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
    """A column of numbers, or of dates as days since 1970; ``low`` to ``high`` is the range of the training rows."""

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
    indicator: bool = False  # whether an input of its own says that a cell is missing

    @property
    def inputs(self) -> list[str]:
        return [self.name] + [f"{self.name}={MISSING}"] * self.indicator

    def encode(self, column: pd.Series | RawColumn, counts: Counts) -> Encoded:
        """Standardise the cells, missing ones as the median; adds to ``counts`` what was not as it should be.

        Args:
            column: The cells.
            counts: Counts by column and kind.

        Returns:
            The numbers, and where there is an indicator, 1 for missing cells beside them.
        """
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
        parts = [np.clip(scaled, -FARTHEST, FARTHEST)] + [np.isnan(values).astype(np.float64)] * self.indicator
        return Encoded(np.stack(parts, axis=1), lost.astype(np.int64), strange)


@dataclass(frozen=True)
class CategoryEncoder:
    """A column of levels, the most frequent first.

    A missing cell that is no level, and a level that neither is known nor shares the input "other", is the average of
    the training rows' inputs: the network then predicts about what it does for the levels on average.
    """

    name: str
    levels: list[str]
    other: bool  # rare levels have an input, which they share
    missing: bool  # missing cells have an input
    kind: str = "category"
    known: float = 1.0  # share of the filled cells of the training rows that are of these levels
    rare: list[str] = field(default_factory=list)  # other levels of training rows
    average: list[float] = field(default_factory=list)  # of the inputs over filled training cells; none in older runs
    seldom_missing: bool = False  # training rows had missing cells, too few for an input of their own

    @property
    def inputs(self) -> list[str]:
        ends = [OTHER] * self.other + [MISSING] * self.missing
        return [f"{self.name}={level}" for level in self.levels + ends]

    @property
    def gaps(self) -> bool:
        return self.missing or self.seldom_missing

    def encode(self, column: pd.Series | RawColumn, counts: Counts) -> Encoded:
        """Write a 1 for the level of each cell; adds to ``counts`` what was missing, rare or unseen.

        Args:
            column: The cells.
            counts: Counts by column and kind.

        Returns:
            One input a level.
        """
        codes = RawColumn.of(column).codes
        places = level_places(codes, self.levels)
        empty = np.array([code is None for code in codes], dtype=bool)
        unseen = (places < 0) & ~empty
        filled = empty & (not self.missing)
        rare = set(self.rare)
        counts[self.name, "missing"] += int(filled.sum())
        counts[self.name, "known"] += int((places >= 0).sum()) + sum(code in rare for code in codes[unseen])
        what = "rare" if self.other else "average" if self.rare else "unseen"
        counts[self.name, what] += int(unseen.sum())
        width = len(self.inputs)
        units = np.eye(width)
        average = np.array(self.average) if self.average else None
        for_missing = units[-1] if self.missing else units[0] if average is None else average
        for_unseen = units[len(self.levels)] if self.other else np.zeros(width) if average is None else average
        inputs = np.vstack([units[: len(self.levels)], for_missing, for_unseen])
        places = np.where(empty, len(self.levels), np.where(unseen, len(self.levels) + 1, places))
        strange = (empty & (not self.gaps)) | (unseen & (not (self.other or self.rare)))
        return Encoded(inputs[places], filled.astype(np.int64), strange)
