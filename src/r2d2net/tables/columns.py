"""What the columns of a table are and how a row becomes inputs of a network, learnt from training rows, as plain JSON.

    number    (x - mean) / sd in float64; missing cells become the median
    date      the same, of days since 1970
    category  one 0/1 input a level; rare levels share the input "other"; missing cells are a level if training rows had
              some, else the most frequent level. A level never seen is "other", or all zeros where there is none.

Columns that are empty, constant, row numbers or nearly all different texts are left out, and it is said why.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.errors import CheckpointError, DataError
from r2d2net.tables.cells import Values, codes, days, is_empty, numbers
from r2d2net.tables.reading import shown

if TYPE_CHECKING:
    import pandas as pd

FARTHEST = 1e6  # standard deviations; farther cells are moved there, where float32 still has digits
OTHER, MISSING = "(other)", "(missing)"

Counts = Counter[tuple[str, str]]  # (column, what): cells


@dataclass(frozen=True)
class Number:
    """A column of numbers or dates."""

    name: str
    kind: str  # "number" or "date"
    median: float
    mean: float
    sd: float

    @property
    def inputs(self) -> list[str]:
        return [self.name]

    def encode(self, column: pd.Series, counts: Counts) -> Values:
        values = days(column) if self.kind == "date" else numbers(column)
        empty, lost = is_empty(column), np.isnan(values)
        counts[self.name, "missing"] += int(empty.sum())
        counts[self.name, "unreadable"] += int((lost & ~empty).sum())
        scaled = (np.where(lost, self.median, values) - self.mean) / self.sd
        return np.clip(scaled, -FARTHEST, FARTHEST)[:, None]


@dataclass(frozen=True)
class Category:
    """A column of levels, the most frequent first."""

    name: str
    levels: list[str]
    other: bool  # training rows had rare levels
    missing: bool  # training rows had missing cells
    kind: str = "category"

    @property
    def inputs(self) -> list[str]:
        ends = [OTHER] * self.other + [MISSING] * self.missing
        return [f"{self.name}={level}" for level in self.levels + ends]

    def encode(self, column: pd.Series, counts: Counts) -> Values:
        import pandas as pd

        cells = codes(column)
        at = pd.Index(self.levels, dtype=object).get_indexer(cells)
        empty = cells.isna().to_numpy()
        unseen = (at < 0) & ~empty
        if not self.missing:
            counts[self.name, "missing"] += int(empty.sum())
        counts[self.name, "rare" if self.other else "unseen"] += int(unseen.sum())
        at = np.where(empty, len(self.levels) + self.other if self.missing else 0, at)
        at = np.where(unseen, len(self.levels) if self.other else -1, at)
        encoded = np.zeros((len(cells), len(self.inputs)))
        rows = np.flatnonzero(at >= 0)
        encoded[rows, at[rows]] = 1.0
        return encoded


Column = Number | Category


@dataclass(frozen=True)
class Columns:
    """The inputs of a network, by column.

    Attributes:
        used: Columns that are inputs.
        left_out: Other columns of the training table, and why they are no inputs.
    """

    used: tuple[Column, ...]
    left_out: dict[str, str]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.used]

    @property
    def groups(self) -> list[list[int]]:
        """Which inputs of the network belong to each column."""
        ends = np.cumsum([0, *(len(column.inputs) for column in self.used)]).tolist()
        return [list(range(start, end)) for start, end in pairwise(ends)]

    def match(self, found: list[str], where: str, target: str | None = None) -> list[str]:
        """Refuse a table that lacks columns; names of columns that the model has never seen."""
        lacking = [name for name in self.names if name not in found]
        if lacking:
            alike = {name.lower(): name for name in found}
            near = [alike[name.lower()] for name in lacking if name.lower() in alike]
            hint = f"; it has {shown(near)}: rename" if near else ": add them, they may be empty"
            raise DataError(f"{where} lacks the columns {shown(lacking, 20)}{hint}")
        return [name for name in found if name not in {*self.names, *self.left_out, target}]

    def encode(self, table: pd.DataFrame, counts: Counts | None = None) -> Values:
        """Inputs of the network, (rows, inputs); adds to ``counts`` what was missing, unreadable or unseen."""
        kept: Counts = Counter() if counts is None else counts
        return np.hstack([column.encode(table[column.name], kept) for column in self.used])

    def unseen(self, x: Values) -> np.ndarray:
        """Which encoded rows have a level that training rows did not have, nor any rare one in that column."""
        each = zip(self.used, self.groups, strict=True)
        levels = [x[:, group].sum(1) == 0 for column, group in each if isinstance(column, Category)]
        return np.any(levels, axis=0) if levels else np.zeros(len(x), dtype=bool)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"used": [asdict(column) for column in self.used], "left_out": self.left_out}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Columns:
        """Back from JSON."""
        try:
            used = [(Category if one["kind"] == "category" else Number)(**one) for one in plain["used"]]
            return cls(tuple(used), dict(plain["left_out"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the columns of the run cannot be read: {type(error).__name__} {error}") from error


def ignored(extra: list[str]) -> list[str]:
    """What is said of columns that the model has never seen."""
    return [f"columns that the model does not know, ignored: {shown(extra)}"] if extra else []


def notes_of(counts: Counts) -> list[str]:
    """What was done about cells that were not as in training, a line each."""
    did = {
        "missing": "missing, filled in (median, or the most frequent level)",
        "unreadable": "unreadable, taken as missing",
        "unseen": "of levels unknown to the model",
        "rare": 'of levels that are rare or unknown, taken as "other"',
    }
    lines = []
    for what, text in did.items():
        found = {name: n for (name, kind), n in counts.items() if kind == what and n}
        if found:
            each = [f"{name} {n:,}" for name, n in sorted(found.items(), key=lambda item: -item[1])]
            more = f", {len(each) - 6} columns more" if len(each) > 6 else ""
            lines.append(f"{sum(found.values()):,} cells {text}: {', '.join(each[:6])}{more}")
    return lines
