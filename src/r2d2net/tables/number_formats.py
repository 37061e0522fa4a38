"""Numbers and dates as people write them: 1.234,50 €, 12 %, 31/12/2020, 3 Jan 2020.

The form of numbers is three marks, of decimals, thousands and unit, such as ",.€", or ",." without a unit; "" is the
plain form of programs. That of dates is a format of strptime; "" is ISO 8601. Read so, 12 % is 12. A form may be a
column's if it reads nine tenths of its filled cells, as with plain numbers; the others are taken as missing.

Cells such as 1.234 or 03/04/2020 can be read in two ways. If no other cell of the column settles it, the other columns
of the file may (see `conventions`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.tables.cells import LARGEST, READABLE, Values, days, is_empty, numbers, texts

if TYPE_CHECKING:
    import pandas as pd

MARKS = (".,", ". ", ".'", ",.", ", ", ",'")  # decimal, thousands
MONEY = "$¢£¥€₩₪₫₹₺₽"
SLASHED = ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y")
DOTTED = ("%d.%m.%Y", "%Y.%m.%d", "%d.%m.%y")
NAMED = ("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")
DAYS = SLASHED + DOTTED + NAMED
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
UNIT = r"^[+-]?\d[\d.,']*\s*([A-Za-zµμΩ°'\"][^\d]{0,11}[23]?)$"  # the unit of 5.4 kg, 30°C, 12 m2
SAMPLE = 50  # cells: a form that reads half of them is tried on the whole column
FIRST = {"d": "day", "m": "month", "b": "month", "B": "month", "Y": "year"}  # the letter that a date's form begins with


class Way(NamedTuple):
    """One way to read a column: the form, and what it reads of the filled cells; nan where it reads nothing."""

    form: str
    values: Values


class Spelling(NamedTuple):
    """How a column of numbers or dates can be read.

    Attributes:
        cells: The filled ones.
        ways: By the sign of decimals ("." or ","), or by what a date begins with ("day", "month" or "year").
        own: The way that the cells settle: what others read they do not; "" if there is none.
        hint: The way that is likelier by the cells alone; "" if none is.
    """

    cells: pd.Series
    ways: dict[str, Way]
    own: str
    hint: str = ""

    @property
    def doubtful(self) -> bool:
        """Whether the ways differ in what they read, and the cells do not settle it."""
        return not self.own and bool(self.differing.any())

    @property
    def differing(self) -> np.ndarray:
        """Which cells the ways read as different values."""
        first, *others = (way.values for way in self.ways.values())
        unlike = [(first != other) & ~np.isnan(first) & ~np.isnan(other) for other in others]
        return np.any(unlike, axis=0) if unlike else np.zeros(len(first), dtype=bool)

    def evidence(self) -> tuple[float, str]:
        """The share of the cells that are read in the column's own way alone, and one of them; 0.0 if there is none."""
        form = self.ways[self.own].form if self.own else ""
        for cells in (_sample(self.cells), self.cells) if self.own else ():
            read = written_days if "%d" in form else written_numbers
            others = [np.isnan(read(cells, other)) for other in _others(form)]
            clear = ~np.isnan(read(cells, form)) & np.all(others, axis=0)
            if clear.any():
                return float(clear.mean()), str(cells[clear].iloc[0])
        return 0.0, ""

    def values(self, way: str) -> Values:
        return self.ways[way].values

    def longest(self, which: np.ndarray) -> int:
        """The place of the longest of some cells, to show it."""
        places = np.flatnonzero(which)
        return int(places[int(self.cells.iloc[places].str.len().argmax())])

    def read_as(self, way: str, at: int) -> str:
        """For the user, of a number."""
        return f"{self.cells.iloc[at]!r} is read as the number {self.values(way)[at]:.15g}"


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


def number_spelling(column: pd.Series) -> Spelling | None:
    """How a column of texts reads as numbers with decimal points and with decimal commas; None if it does not."""
    cells = _filled(column)
    unit = _unit(_sample(cells))
    if unit is None:
        return None
    ways: dict[str, Way] = {}
    for sign in (".", ","):
        forms = [""] * (sign == "." and not unit) + [marks + unit for marks in MARKS if marks[0] == sign]
        found = _best(cells, forms, written_numbers)
        if found is not None:
            ways[sign] = found
        if found is not None and not found.form and _is_whole(cells, found.values):
            ways[","] = Way(",.", found.values)  # without a mark both read the same: no need to
            break
    if not ways:
        return None
    spelling = Spelling(cells, ways, _settled(ways))
    if spelling.doubtful and unit and unit in MONEY:  # 1,234: money has no three decimals
        return spelling._replace(hint=max(ways, key=lambda sign: float(np.nansum(np.abs(ways[sign].values)))))
    return spelling


def date_spelling(column: pd.Series) -> Spelling | None:
    """How a column of texts reads as dates that are not ISO 8601, by what they begin with; None if it does not."""
    cells = _filled(column)
    if not len(cells) or _sample(cells).str.match(r"\w+(?:[-/.]|\s+)\w+(?:[-/.,]|\s)").mean() < 0.5:
        return None  # no three parts: it is quicker not to try all forms
    forms: dict[str, list[str]] = {}
    for form in (day + time for day in DAYS for time in TIMES):
        forms.setdefault(FIRST[form[1]], []).append(form)
    found = {first: _best(cells, group, written_days) for first, group in forms.items()}
    ways = {first: way for first, way in found.items() if way is not None}
    return Spelling(cells, ways, _settled(ways)) if ways else None


def spread(count: int, most: int) -> np.ndarray:
    """Places of some out of so many: all, or ``most`` drawn at random, since what is wrong may come regularly."""
    return np.arange(count) if count <= most else np.unique(np.random.default_rng(0).integers(0, count, most))


def leading_zeros(column: pd.Series) -> str | None:
    """A cell such as 00123, by which a column of texts holds codes; None if there is none."""
    coded = _filled(column)
    coded = coded[coded.str.fullmatch(r"0\d+")]
    return str(coded.iloc[0]) if len(coded) else None


def unit_of(column: pd.Series) -> str:
    """For the user, of a column whose cells are numbers with the same unit, such as 5.4 kg; "" of another."""
    cells = _filled(column)
    parts = cells.str.extract(UNIT)[0] if len(cells) else cells
    counts = parts.value_counts()
    if not len(counts) or counts.iloc[0] < max(2, READABLE * len(cells)):
        return ""
    unit, sample = counts.index[0], cells[parts == counts.index[0]].iloc[0]
    return f"{sample!r} looks like a number with a unit: write the cells without {unit!r} to have it read as one"


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


def _sample(cells: pd.Series) -> pd.Series:
    return cells.iloc[spread(len(cells), SAMPLE)]


def _unit(cells: pd.Series) -> str | None:
    """The sign of the unit that most cells with digits have, "" if none; None if it is several or no cell has."""
    found = Counter("".join(sign for sign in cell if sign in MONEY + "%") for cell in cells if re.search(r"\d", cell))
    unit = found.most_common(1)[0][0] if found else None
    return unit if unit is not None and len(unit) <= 1 else None


def _best(cells: pd.Series, forms: list[str], read: Callable[[pd.Series, str], Values]) -> Way | None:
    """The form that reads most cells, the first of several; None if none reads enough."""
    best, most = None, 0
    for form in forms:
        if np.isnan(read(_sample(cells), form)).mean() > 0.5:
            continue
        values = read(cells, form)
        count = int((~np.isnan(values)).sum())
        if count > most:
            best, most = Way(form, values), count
        if not cells[np.isnan(values)].str.contains(r"\d").any():  # what is left no form reads
            break
    return best if most >= READABLE * len(cells) else None


def _others(form: str) -> list[str]:
    """Forms that differ in the sign of decimals, or in whether day or month comes first."""
    if "%d" in form:
        return [form.translate(str.maketrans("dm", "md"))] if "%m" in form else []
    sign = form[:1] or "."
    return [""] * (sign == "," and len(form) == 2) + [marks + form[2:] for marks in MARKS if marks[0] != sign]


def _is_whole(cells: pd.Series, values: Values) -> bool:
    """Whether all cells are plain numbers without a mark."""
    return not np.isnan(values).any() and not cells.str.contains(".", regex=False).any()


def _settled(ways: dict[str, Way]) -> str:
    """The way by which cells are read that others do not read, nine times as many as the other way round; or ""."""
    there = {name: ~np.isnan(way.values) for name, way in ways.items()}
    first = max(there, key=lambda name: int(there[name].sum()))
    for other in there.keys() - {first}:
        only, others_only = int((there[first] & ~there[other]).sum()), int((there[other] & ~there[first]).sum())
        if not only or only < READABLE * (only + others_only):
            return ""
    return first


def _reader(form: str) -> Callable[[str], float]:
    """Reads one cell; nan where it is not of the form."""
    decimal, thousands, unit = re.escape(form[0]), re.escape(form[1]), re.escape(form[2:])
    grouped = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+(?:{decimal}\d*)?"
    digits = rf"{grouped}|(?:\d+(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d{{1,3}})?"
    pattern = re.compile(rf"([+-]?) ?({unit})? ?([+-]?)({digits}) ?({unit})?")

    def read(cell: str) -> float:
        if cell.lower().lstrip("+-") in ("inf", "infinity"):
            return -np.inf if cell.startswith("-") else np.inf
        match = pattern.fullmatch(cell.replace("\u2212", "-").replace("\u00a0", " ").replace("\u202f", " "))
        if match is None or (match[1] and match[3]) or bool(match[2]) + bool(match[5]) != bool(unit):
            return np.nan
        value = float(match[4].replace(form[1], "").replace(form[0], "."))
        return -value if "-" in (match[1], match[3]) else value

    return read
