"""Columns as they were read from a file: their cells as texts, numbers or days since 1970, each worked out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from r2d2net.columns.cell_parsing import (
    Values,
    are_empty,
    cell_texts,
    code_texts,
    days_since_1970,
    have_leading_zeros,
    parse_days,
    parse_numbers,
    with_infinite,
)

if TYPE_CHECKING:
    import pandas as pd

READABLE = 0.9  # share of the filled cells that must be numbers, or dates, for a column to be one
KEPT_ROWS = 1000  # of a table up to this length, all columns stay as they were worked out
TRUTH_WORDS = ("true", "false")  # Python and Parquet write True, spreadsheets TRUE, JSON true: one level


class RawColumn:
    """A column, or some rows of it (`take`), which share what was worked out for the whole.

    Attributes:
        texts: The cells without surrounding blanks; None where a cell is missing or blank.
        codes: The same as levels of a category, which have no ".0".
        missing: Which cells have no value.
        empty: Which cells are missing or blank, or have a word that says so (n/a), as in columns of numbers and dates.
    """

    def __init__(self, column: pd.Series) -> None:
        self._whole = _WholeColumn(column)
        self._rows: np.ndarray | None = None

    @classmethod
    def of(cls, column: pd.Series | RawColumn) -> RawColumn:
        """Take a column of pandas, or one that is already raw."""
        return column if isinstance(column, RawColumn) else cls(column)

    def take(self, rows: np.ndarray) -> RawColumn:
        """Return some rows, by their places or a mask."""
        part = RawColumn.__new__(RawColumn)
        part._whole = self._whole
        part._rows = (np.flatnonzero(rows) if rows.dtype == bool else rows) if self._rows is None else self._rows[rows]
        return part

    def __len__(self) -> int:
        return len(self._whole.column) if self._rows is None else len(self._rows)

    @property
    def is_text(self) -> bool:
        """Whether the cells are texts or Python objects, not numbers, truth values, moments or durations."""
        return self._whole.is_text

    @property
    def is_duration(self) -> bool:
        """Whether the cells are spans of time, as Parquet has them."""
        return self._whole.is_duration

    @property
    def texts(self) -> np.ndarray:
        return self._part(self._whole.texts)

    @property
    def codes(self) -> np.ndarray:
        return self._part(self._whole.codes)

    @property
    def missing(self) -> NDArray[np.bool_]:
        return self._part(self._whole.missing)

    @property
    def empty(self) -> NDArray[np.bool_]:
        return self._part(self._whole.empty)

    @property
    def ordered_levels(self) -> tuple[str, ...]:
        """The levels of an ordered category, as Parquet has them, from the lowest; none of other columns."""
        return self._whole.ordered_levels

    def first_code(self) -> str | None:
        """Return the first cell such as 00123, by which a column of texts holds codes; None if there is none."""
        coded = self._part(self._whole.leading_zeros) if self.is_text else np.zeros(0, dtype=bool)
        return str(self.texts[coded.argmax()]) if coded.any() else None

    def filled(self) -> RawColumn:
        """Return the filled cells of a column of texts; no cells of another column."""
        return self.take(~self.empty if self.is_text else np.zeros(len(self), dtype=bool))

    def numbers(self, number_format: str = "", *, keep_infinite: bool = False) -> Values:
        """Return the cells as numbers; durations are seconds.

        Args:
            number_format: Marks for decimals, thousands and unit (see `cell_parsing`); "" for plain numbers.
            keep_infinite: Whether numbers beyond all bounds are infinite, not NaN.

        Returns:
            The numbers, NaN where a cell is empty or not written so.
        """
        values = self._part(self._whole.numbers(number_format))
        return values if keep_infinite else np.where(np.isinf(values), np.nan, values)

    def days(self, date_format: str = "") -> Values:
        """Return dates in a format of strptime, or ISO 8601 (""), as days since 1970; NaN where there is none."""
        return self._part(self._whole.days(date_format))

    def holds_plain_numbers(self) -> bool:
        """Return whether nine tenths of the filled cells are plain numbers."""
        return _count(self.numbers()) >= READABLE * max(1, int((~self.empty).sum()))

    def holds_iso_dates(self) -> bool:
        """Return whether nine tenths of the filled cells are dates of ISO 8601 or moments of time."""
        return 0 < _count(self.days()) >= READABLE * int((~self.empty).sum())

    def _part(self, values: np.ndarray) -> np.ndarray:
        return values if self._rows is None else values[self._rows]


class _WholeColumn:
    """All rows of a column of pandas and what is worked out of them."""

    def __init__(self, column: pd.Series) -> None:
        import pandas as pd

        types = pd.api.types
        self.column = column
        self.is_text = types.is_object_dtype(column) or types.is_string_dtype(column)
        self.is_duration = not self.is_text and types.is_timedelta64_dtype(column)
        self.is_moment = not self.is_text and types.is_datetime64_any_dtype(column)
        self.is_bool = not self.is_text and types.is_bool_dtype(column)
        self.is_numeric = not self.is_text and types.is_numeric_dtype(column)
        self._numbers: dict[str, Values] = {}
        self._days: dict[str, Values] = {}

    @cached_property
    def texts(self) -> np.ndarray:
        return cell_texts(self.column)

    @cached_property
    def codes(self) -> np.ndarray:
        return code_texts(self.texts)

    @cached_property
    def ordered_levels(self) -> tuple[str, ...]:
        import pandas as pd

        kind = self.column.dtype
        if not isinstance(kind, pd.CategoricalDtype) or not kind.ordered:
            return ()
        return tuple(code_texts(cell_texts(pd.Series(kind.categories))).tolist())

    @cached_property
    def missing(self) -> np.ndarray:
        return np.asarray(self.column.isna().to_numpy())

    @cached_property
    def empty(self) -> np.ndarray:
        if self.is_numeric or self.is_moment or self.is_duration:
            return self.missing
        return are_empty(self.texts)

    @cached_property
    def leading_zeros(self) -> np.ndarray:
        return have_leading_zeros(self.texts)

    def numbers(self, number_format: str) -> Values:
        key = "" if self.is_numeric else number_format
        if key not in self._numbers:
            self._numbers[key] = self._read_numbers(key)
        return self._numbers[key]

    def _read_numbers(self, number_format: str) -> Values:
        import pandas as pd

        if number_format:
            return parse_numbers(self.texts, number_format)
        if self.is_bool or self.is_moment:
            return np.full(len(self.column), np.nan)
        if self.is_duration:
            return with_infinite(self.column.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan))
        if self.is_numeric and not pd.api.types.is_complex_dtype(self.column):
            return with_infinite(self.column.to_numpy(dtype=np.float64, na_value=np.nan))
        return parse_numbers(self.texts, "")

    def days(self, date_format: str) -> Values:
        if date_format not in self._days:
            self._days[date_format] = self._read_days(date_format)
        return self._days[date_format]

    def _read_days(self, date_format: str) -> Values:
        import pandas as pd

        if self.is_numeric or self.is_duration:
            return np.full(len(self.column), np.nan)
        if self.is_moment:
            return days_since_1970(pd.DatetimeIndex(pd.to_datetime(self.column, utc=True)))
        return parse_days(self.texts, date_format)


class RawTable:
    """The columns of a data frame by name.

    Those of a short table are kept as they were worked out; in a long one texts would take too much memory.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.names = [str(name) for name in frame.columns]
        self._kept: dict[str, RawColumn] = {}

    @classmethod
    def of(cls, table: pd.DataFrame | RawTable) -> RawTable:
        """Take a data frame, or a table that is already raw."""
        return table if isinstance(table, RawTable) else cls(table)

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, name: str) -> RawColumn:
        if name in self._kept:
            return self._kept[name]
        column = RawColumn(self.frame[name])
        if len(self) <= KEPT_ROWS:
            self._kept[name] = column
        return column

    def sample(self) -> RawTable:
        """Return so many random rows as are kept; the table itself if it is short."""
        return self if len(self) <= KEPT_ROWS else RawTable(self.frame.iloc[random_places(len(self), KEPT_ROWS)])


@lru_cache(maxsize=1024)
def random_places(count: int, most: int) -> NDArray[np.int64]:
    """Return all places of ``count`` cells, or ``most`` of them at random, since what is wrong may come regularly."""
    places = np.arange(count) if count <= most else np.unique(np.random.default_rng(0).integers(0, count, most))
    places.setflags(write=False)
    return places


def merge_truth_values(texts: np.ndarray) -> np.ndarray:
    """Write each truth value in its most frequent spelling if all texts are truth values; else change nothing."""
    counts = Counter(text for text in texts if text is not None)
    if not counts or not all(text.lower() in TRUTH_WORDS for text in counts):
        return texts
    spellings = {text.lower(): text for text in sorted(counts, key=lambda text: (-counts[text], text), reverse=True)}
    merged = texts.copy()
    merged[:] = [None if text is None else spellings[text.lower()] for text in texts]
    return merged


def level_places(texts: np.ndarray, levels: Sequence[str]) -> NDArray[np.int64]:
    """Return which level each text is, -1 for none; the spelling of truth values does not matter."""
    by_text: dict[str | None, int] = {level: place for place, level in enumerate(levels)}
    places = np.array([by_text.get(text, -1) for text in texts], dtype=np.int64)
    if levels and all(level.lower() in TRUTH_WORDS for level in levels):
        by_word = {level.lower(): place for place, level in reversed(list(enumerate(levels)))}
        words = [-1 if text is None else by_word.get(text.lower(), -1) for text in texts]
        places = np.where(places < 0, np.array(words, dtype=np.int64), places)
    return places


def _count(values: Values) -> int:
    return int((~np.isnan(values)).sum())
