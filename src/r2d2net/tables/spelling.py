"""Numbers and dates as people write them: 1.234,50 €, 12 %, 31/12/2020, 3 Jan 2020.

A column has a form if every filled cell follows it and no other form gives other values: dates that may be day/month as
well as month/day have none. The form of numbers is three marks, of decimals, thousands and unit, such as ",.€", or ",."
without a unit; that of dates is a format of strptime. Read so, 12 % is 12.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.tables.cells import LARGEST, Values, days, is_empty, numbers, texts

if TYPE_CHECKING:
    import pandas as pd

MARKS = (".,", ". ", ".'", ",.", ", ", ",'")  # decimal, thousands
MONEY = "$¢£¥€₩₪₫₹₺₽"
SLASHED = ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y")
DOTTED = ("%d.%m.%Y", "%Y.%m.%d", "%d.%m.%y")
NAMED = ("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")
DAYS = SLASHED + DOTTED + NAMED
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
SAMPLE = 30  # cells that a form must read before the whole column is tried


class Form(NamedTuple):
    """How a column's cells are written.

    Attributes:
        kind: "number" or "date"; "" where several forms are possible, so that none is taken.
        form: See above.
        said: For the user.
    """

    kind: str
    form: str
    said: str


def written_numbers(column: pd.Series, form: str, far: float = np.nan) -> Values:
    """Numbers in a form; "" is the plain one. Nan where a cell is not written so, ``far`` where it is infinite."""
    import pandas as pd

    if not form or pd.api.types.is_numeric_dtype(column):
        return numbers(column, far)
    read = _reader(form)
    values = np.array([np.nan if cell is None else read(cell) for cell in texts(column)], dtype=np.float64)
    return np.where(np.abs(values) > LARGEST, np.copysign(far, values), values)


def written_days(column: pd.Series, form: str) -> Values:
    """Dates in a form as days since 1970; "" is ISO 8601. Nan where a cell is not written so."""
    return days(column, form or "ISO8601")


def find_number_form(column: pd.Series) -> Form | None:
    """The form of a column of numbers that are not plain ones, all of them; None if there is no such form."""
    cells = _filled(column)
    unit = _unit(cells.iloc[:SAMPLE])
    if unit is None:
        return None
    found = _fitting(cells, [marks + unit for marks in MARKS], written_numbers)
    if not found:
        return None
    first, values = found[0]
    others = [form for form, read in found if not np.array_equal(read, values)]
    if others:  # 1,234: both marks are possible. Thousands are no decimals where shorter numbers have no mark
        bare = [len(re.sub(r"\D", "", cell)) for cell in cells if not re.search(r"\d[.,]\d", cell)]
        if not (bare and max(bare) <= 3) and not (unit and unit in MONEY):
            said = f"{cells.iloc[0]!r} may have thousands or decimals: write numbers without thousands marks"
            return Form("", "", said)
        first, values = max(found, key=lambda one: float(np.abs(one[1]).sum()))
    longest = int(cells.str.len().argmax())
    return Form("number", first, f"{cells.iloc[longest]!r} is read as the number {values[longest]:.15g}")


def find_date_form(column: pd.Series) -> Form | None:
    """The form of a column of dates that are not ISO 8601, all of them; None if there is no such form."""
    cells = _filled(column)
    if not len(cells) or not cells.iloc[:SAMPLE].str.contains(r"\d").all():
        return None
    found = _fitting(cells, [day + time for day in DAYS for time in TIMES], written_days)
    if not found:
        return None
    first, values = found[0]
    others = [form for form, read in found if not np.array_equal(read, values)]
    if others:
        said = f"{cells.iloc[0]!r} may be {spelt_out(first)} or {spelt_out(others[0])}: write dates as 2020-12-31"
        return Form("", "", said)
    return Form("date", first, f"{cells.iloc[0]!r} is read as the date {spelt_out(first)}")


def leading_zeros(column: pd.Series) -> str | None:
    """A cell such as 00123, by which a column of texts holds codes; None if there is none."""
    coded = _filled(column)
    coded = coded[coded.str.fullmatch(r"0\d+")]
    return str(coded.iloc[0]) if len(coded) else None


def spelt_out(form: str) -> str:
    """A date's form for people.

    >>> spelt_out("%d/%m/%Y %H:%M")
    'day/month/year hour:minute'
    """
    words = {"d": "day", "m": "month", "b": "month", "B": "month", "Y": "year", "y": "year", "p": "am/pm"}
    words |= {"H": "hour", "I": "hour", "M": "minute", "S": "second"}
    return re.sub("%(.)", lambda match: words[match[1]], form)


def _filled(column: pd.Series) -> pd.Series:
    """The filled cells of a column of texts; none of another column."""
    import pandas as pd

    if not (pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)):
        return texts(column[:0])
    cells = texts(column)
    return cells[cells.notna().to_numpy() & ~is_empty(column)]


def _unit(cells: pd.Series) -> str | None:
    """The unit's sign that all cells have, "" if none has one, None if they differ."""
    found = {"".join(sign for sign in cell if sign in MONEY + "%") for cell in cells}
    unit = found.pop() if len(found) == 1 else None
    return unit if unit is not None and len(unit) <= 1 else None


def _fitting(cells: pd.Series, forms: list[str], read: Callable[[pd.Series, str], Values]) -> list[tuple[str, Values]]:
    """The forms that read all cells, with what they read."""
    sample = cells.iloc[:SAMPLE]
    likely = [form for form in forms if not np.isnan(read(sample, form)).any()]
    found = [(form, read(cells, form)) for form in likely]
    return [(form, values) for form, values in found if not np.isnan(values).any()]


def _reader(form: str) -> Callable[[str], float]:
    """Reads one cell; nan where it is not of the form."""
    decimal, thousands, unit = re.escape(form[0]), re.escape(form[1]), re.escape(form[2:])
    digits = rf"(?:[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+)(?:{decimal}\d*)?|{decimal}\d+"
    pattern = re.compile(rf"([+-]?) ?({unit})? ?([+-]?)({digits}) ?({unit})?")

    def read(cell: str) -> float:
        match = pattern.fullmatch(cell.replace("\u2212", "-").replace("\u00a0", " ").replace("\u202f", " "))
        if match is None or (match[1] and match[3]) or bool(match[2]) + bool(match[5]) != bool(unit):
            return np.nan
        value = float(match[4].replace(form[1], "").replace(form[0], "."))
        return -value if "-" in (match[1], match[3]) else value

    return read
