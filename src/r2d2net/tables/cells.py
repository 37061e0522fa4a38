"""Cells of a column as numbers, dates or texts, whatever they came as; what cannot be read so is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

READABLE = 0.9  # share of the filled cells that must be numbers, or dates, for a column to be one
LARGEST = 1e100  # numbers beyond it, whose squares no float64 holds, count as infinite

NOTHING = ("na", "n/a", "#n/a", "nan", "null", "none", "-", "?", ".")  # words for it among numbers and dates

Values = NDArray[np.float64]


def numbers(column: pd.Series, far: float = np.nan) -> Values:
    """Numbers, with nan where a cell is empty or no number, and ``far`` with its sign where it is infinite."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return np.full(len(column), np.nan)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = pd.to_numeric(texts(column), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.abs(values) > LARGEST, np.copysign(far, values), values)


def days(column: pd.Series, form: str = "ISO8601") -> Values:
    """Dates and times (such as 2024-02-29 or 2024-02-29T12:00) as days since 1970; nan where none is."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        return np.full(len(column), np.nan)
    cells = column if pd.api.types.is_datetime64_any_dtype(column) else texts(column)
    moments = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
    exact = moments.dt.tz_localize(None).to_numpy(dtype="datetime64[ms]")  # nanoseconds reach 1678 to 2262 only
    return np.asarray((exact - np.datetime64(0, "ms")) / np.timedelta64(1, "D"), dtype=np.float64)


def texts(column: pd.Series) -> pd.Series:
    """Texts without blanks at their ends; numbers in their shortest form, so 1 and 1.0 are one category."""
    import pandas as pd

    missing = column.isna()
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        found = pd.Series([_short(value) for value in column], index=column.index, dtype=object)
    else:
        found = pd.Series([str(value).strip() for value in column], index=column.index, dtype=object)
    return found.mask(missing | (found == ""), None)


def is_empty(column: pd.Series) -> np.ndarray:
    """Which cells of a column of numbers or dates are empty, or have a word that says so."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return np.asarray(column.isna().to_numpy())
    cells = texts(column)
    return np.asarray((cells.isna() | cells.str.lower().isin(NOTHING)).to_numpy())


def codes(column: pd.Series) -> pd.Series:
    """Texts of a category: 1.0 is 1, as programs that know missing numbers write whole ones, but 007 is not 7."""
    return texts(column).str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)


def _short(value: float) -> str:
    return f"{value:.15g}"
