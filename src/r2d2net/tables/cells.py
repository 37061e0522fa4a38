"""Cells of a column as numbers, dates or texts, whatever they came as; what cannot be read so is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

READABLE = 0.9  # share of the filled cells that must be numbers, or dates, for a column to be one
LARGEST = 1e100  # numbers beyond it, whose squares no float64 holds, count as infinite
PLAIN = 1e16  # from here on floats are written with an exponent

NOTHING = ("na", "n/a", "#n/a", "nan", "null", "none", "-", "?", ".")  # words for it among numbers and dates

TRUTHS = ("true", "false")  # Python and Parquet write True, spreadsheets TRUE, JSON true: one level

Values = NDArray[np.float64]


def numbers(column: pd.Series, far: float = np.nan) -> Values:
    """Numbers, with nan where a cell is empty or no number, and ``far`` with its sign where it is infinite.

    Durations are seconds.
    """
    import pandas as pd

    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return np.full(len(column), np.nan)
    if pd.api.types.is_timedelta64_dtype(column):
        values = column.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan)
    elif pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = pd.to_numeric(texts(column), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.abs(values) > LARGEST, np.copysign(far, values), values)


def days(column: pd.Series, form: str = "ISO8601") -> Values:
    """Dates and times (such as 2024-02-29 or 2024-02-29T12:00) as days since 1970; nan where none is."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return np.full(len(column), np.nan)
    cells = column if pd.api.types.is_datetime64_any_dtype(column) else texts(column)
    moments = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
    exact = moments.dt.tz_localize(None).to_numpy(dtype="datetime64[ms]")  # nanoseconds reach 1678 to 2262 only
    return np.asarray((exact - np.datetime64(0, "ms")) / np.timedelta64(1, "D"), dtype=np.float64)


def texts(column: pd.Series) -> pd.Series:
    """Texts without blanks at their ends; whole numbers without decimals, so 1 and 1.0 are one category."""
    import pandas as pd

    missing = column.isna()
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        found = pd.Series([short(value) for value in column.to_numpy()], index=column.index, dtype=object)
    else:
        found = pd.Series([str(value).strip() for value in column], index=column.index, dtype=object)
    return found.mask(missing | (found == ""), None)


def is_empty(column: pd.Series) -> np.ndarray:
    """Which cells of a column of numbers or dates are empty, or have a word that says so."""
    import pandas as pd

    kinds = (pd.api.types.is_numeric_dtype, pd.api.types.is_datetime64_any_dtype, pd.api.types.is_timedelta64_dtype)
    if any(is_kind(column) for is_kind in kinds):
        return np.asarray(column.isna().to_numpy())
    cells = texts(column)
    return np.asarray((cells.isna() | cells.str.lower().isin(NOTHING)).to_numpy())


def codes(column: pd.Series) -> pd.Series:
    """Texts of a category: 1.0 is 1, as programs that know missing numbers write whole ones, but 007 is not 7."""
    return texts(column).str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)


def alike(cells: pd.Series) -> pd.Series:
    """Texts of a category; if all are truth values, however written, each in its most frequent spelling."""
    counts = cells.value_counts()
    if not len(counts) or not all(text.lower() in TRUTHS for text in counts.index):
        return cells
    found = sorted(counts.index, key=lambda text: (-counts[text], text))
    spelling = {text.lower(): text for text in reversed(found)}
    return cells.map({text: spelling[text.lower()] for text in found})


def places(cells: pd.Series, levels: Sequence[str]) -> NDArray[np.int64]:
    """Which of some levels each text is, -1 for none; of truth values the spelling does not matter."""
    import pandas as pd

    at = pd.Index(levels, dtype=object).get_indexer(cells)
    if levels and all(level.lower() in TRUTHS for level in levels):
        by_word = {level.lower(): place for place, level in reversed(list(enumerate(levels)))}
        words = cells.str.lower().map(by_word).fillna(-1).to_numpy(dtype=np.int64)
        at = np.where(at < 0, words, at)
    return np.asarray(at, dtype=np.int64)


def short(value: Any) -> str:
    """A number with all its digits, as a CSV file has it; a whole one without decimals.

    >>> short(12345678901234561), short(3.0), short(0.1), short(1e300)
    ('12345678901234561', '3', '0.1', '1e+300')
    """
    number = float(value) if isinstance(value, (float, np.floating)) else np.nan
    return f"{number:.0f}" if abs(number) < PLAIN and number.is_integer() else str(value)
