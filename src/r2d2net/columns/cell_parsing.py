"""Cells as texts, and texts as numbers or dates in a given format.

A number format is three marks, for decimals, thousands and the unit, such as ",.€", or ",." without a unit; "" is the
plain format that programs write. Read in the format ".,%", the cell 12 % is the number 12. A date format is a format of
strptime; "" is ISO 8601. What is not written in the format is read as NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1e100  # numbers beyond it, whose squares no float64 holds, count as infinite
EXPONENT_FROM = 1e16  # from here on floats are written with an exponent
INFINITE = ("inf", "infinity")
MISSING_WORDS = frozenset(("na", "n/a", "#n/a", "nan", "null", "none", "-", "?", "."))  # among numbers and dates
LONGEST_WORD = max(map(len, MISSING_WORDS))
HEAD = 20  # cells that are looked at before a column is read as plain numbers
ZERO_DECIMALS = re.compile(r"(-?\d+)\.0+")

Values = NDArray[np.float64]


def cell_texts(column: pd.Series) -> np.ndarray:
    """Return the texts of the cells without surrounding blanks.

    Args:
        column: A column of any type. Whole numbers have no decimals, so that 1 and 1.0 are one category.

    Returns:
        Texts, and None for missing or blank cells.
    """
    import pandas as pd

    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    write = number_text if numeric else str
    cells = column.to_numpy() if numeric else column.to_numpy(dtype=object)
    missing = column.isna().to_numpy()
    texts = np.empty(len(column), dtype=object)
    texts[:] = [None if gone else write(cell).strip() or None for cell, gone in zip(cells, missing, strict=True)]
    return texts


def are_empty(texts: np.ndarray) -> NDArray[np.bool_]:
    """Return which cells of a column of numbers or dates are missing or have a word that says so, such as n/a."""
    flags = [text is None or (len(text) <= LONGEST_WORD and text.lower() in MISSING_WORDS) for text in texts]
    return np.array(flags, dtype=bool)


def have_leading_zeros(texts: np.ndarray) -> NDArray[np.bool_]:
    """Return which cells are codes such as 00123."""
    return np.array([text is not None and text[0] == "0" and text[1:].isdecimal() for text in texts], dtype=bool)


def code_texts(texts: np.ndarray) -> np.ndarray:
    """Return the texts of a category with 1.0 written as 1, as software with missing numbers writes whole ones.

    007 stays 007.
    """
    codes = texts.copy()
    for place, text in enumerate(texts):
        if text is not None and text[-1] == "0" and (match := ZERO_DECIMALS.fullmatch(text)):
            codes[place] = match[1]
    return codes


def parse_numbers(texts: np.ndarray, number_format: str) -> Values:
    """Read texts as numbers.

    Args:
        texts: Texts, or None for missing cells.
        number_format: Marks for decimals, thousands and unit; "" for plain numbers.

    Returns:
        The numbers; NaN where a cell is not written so, infinite where it is beyond `LARGEST`.
    """
    if number_format:
        read, foreign = _reader(number_format), _foreign_mark(number_format)
        numbers = [np.nan if text is None or foreign in text else read(text) for text in texts]
        values = np.array(numbers, dtype=np.float64)
    else:
        import pandas as pd

        if any(text is not None and "," in text for text in texts[:HEAD]):  # pandas refuses those too, but slowly
            texts = np.array([None if text is None or "," in text else text for text in texts], dtype=object)
        values = np.asarray(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)
    return with_infinite(values)


def parse_days(texts: np.ndarray, date_format: str) -> Values:
    """Read texts as dates.

    Args:
        texts: Texts, or None for missing cells.
        date_format: A format of strptime; "" for ISO 8601.

    Returns:
        Days since 1970; NaN where a cell is not written so.
    """
    import pandas as pd

    return days_since_1970(pd.to_datetime(texts, format=date_format or "ISO8601", errors="coerce", utc=True))


def days_since_1970(moments: pd.DatetimeIndex) -> Values:
    """Return moments in UTC as days since 1970, NaN where there is none."""
    exact = moments.tz_localize(None).to_numpy().astype("datetime64[ms]")  # nanoseconds reach 1678 to 2262 only
    return np.asarray((exact - np.datetime64(0, "ms")) / np.timedelta64(1, "D"), dtype=np.float64)


def with_infinite(values: Values) -> Values:
    """Replace numbers beyond `LARGEST` by infinity of their sign."""
    return np.where(np.abs(values) > LARGEST, np.copysign(np.inf, values), values)


def number_text(value: Any) -> str:
    """Return a number with all its digits, as a CSV file has it; a whole one without decimals.

    >>> number_text(12345678901234561), number_text(3.0), number_text(0.1), number_text(1e300)
    ('12345678901234561', '3', '0.1', '1e+300')
    """
    number = float(value) if isinstance(value, (float, np.floating)) else np.nan
    return f"{number:.0f}" if abs(number) < EXPONENT_FROM and number.is_integer() else str(value)


def _foreign_mark(number_format: str) -> str:
    """Return a mark by which a cell is known not to be of a format, without a closer look."""
    return next((mark for mark in ".,'" if mark not in number_format[:2]), "'")


@lru_cache(maxsize=256)
def _reader(number_format: str) -> Callable[[str], float]:
    """Return a function that reads one cell."""
    decimal, thousands, unit = re.escape(number_format[0]), re.escape(number_format[1]), re.escape(number_format[2:])
    grouped = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+(?:{decimal}\d*)?"
    digits = rf"{grouped}|(?:\d+(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d{{1,3}})?"
    match_cell = re.compile(rf"([+-]?) ?({unit})? ?([+-]?)({digits}) ?({unit})?").fullmatch
    sign, separator = number_format[0], number_format[1]
    to_plain = str.maketrans({number_format[1]: "", sign: "."})

    def read(cell: str) -> float:
        if not unit and cell.removeprefix("-").replace(sign, "", 1).isdecimal():
            return float(cell.replace(sign, ".", 1))  # most cells need no closer look
        last = -1 if separator == " " else cell.rfind(separator)
        if last >= 0 and (not cell[last + 1 : last + 4].isdecimal() or cell[last + 4 : last + 5].isdecimal()):
            return np.nan  # 0.12345 is no number with thousands: three digits follow the last separator
        match = match_cell(cell)
        if match is None and not cell.isascii():
            match = match_cell(cell.replace("\u2212", "-").replace("\u00a0", " ").replace("\u202f", " "))
        if match is None:
            infinite = cell[-1] in "fFyY" and cell.lower().lstrip("+-") in INFINITE
            return (-np.inf if cell[0] == "-" else np.inf) if infinite else np.nan
        before, unit_before, after, number, unit_after = match.groups()
        if (before and after) or bool(unit_before) + bool(unit_after) != bool(unit):
            return np.nan
        value = float(number.translate(to_plain))
        return -value if before == "-" or after == "-" else value

    return read
