"""Which number formats a column of texts may be written in: 1.234,50 €, 12 %, 1 234.5.

A format may be the column's if it reads nine tenths of the filled cells, as with plain numbers; the others are taken as
missing. Cells such as 1.234 can be read in two ways. If no other cell of the column settles it, the other columns of
the file may (see `format_rules`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from r2d2net.columns.cell_parsing import Values, parse_numbers
from r2d2net.columns.raw_columns import READABLE, RawColumn, random_places

MARKS = (".,", ". ", ".'", ",.", ", ", ",'")  # decimal, thousands
MONEY = "$¢£¥€₩₪₫₹₺₽"
SIGNS = frozenset(MONEY + "%")
UNIT = re.compile(r"[+-]?\d[\d.,']*\s*([A-Za-zµμΩ°'\"][^\d]{0,11}[23]?)")  # the unit of 5.4 kg, 30°C, 12 m2
DIGIT = re.compile(r"\d")
SAMPLE = 50  # cells: a format that reads half of them is tried on the whole column


class Reading(NamedTuple):
    """The values that a format gives for the filled cells; NaN where it reads nothing."""

    format: str
    values: Values


@dataclass(frozen=True)
class CandidateFormats:
    """The formats in which a column of numbers or dates can be read.

    Attributes:
        cells: The filled cells.
        readings: By the decimal sign ("." or ","), or by what a date begins with ("day", "month" or "year").
        settled: The reading that the cells themselves settle, since it alone reads some of them; "" if there is none.
        likelier: The reading that is likelier by the cells alone; "" if none is.
        parse: Reads an array of texts in a format.
        rivals: The formats that a format may be mistaken for.
    """

    cells: RawColumn
    readings: dict[str, Reading]
    settled: str
    parse: Callable[[np.ndarray, str], Values]
    rivals: Callable[[str], list[str]]
    likelier: str = ""

    @cached_property
    def differing(self) -> np.ndarray:
        """Which cells the readings give different values."""
        first, *others = (reading.values for reading in self.readings.values())
        unlike = [(first != other) & ~np.isnan(first) & ~np.isnan(other) for other in others]
        return np.any(unlike, axis=0) if unlike else np.zeros(len(first), dtype=bool)

    @cached_property
    def ambiguous(self) -> bool:
        """Whether the readings differ, and the cells do not settle it."""
        return not self.settled and bool(self.differing.any())

    def evidence(self) -> tuple[float, str]:
        """Return the share of the cells that only the settled reading reads, and one of them; 0.0 if there is none.

        The share is that of a sample, or of all cells if the sample has none.
        """
        if not self.settled:
            return 0.0, ""
        number_format, values = self.readings[self.settled]
        texts = self.cells.texts
        for places in (random_places(len(texts), SAMPLE), np.arange(len(texts))):
            others = [np.isnan(self.parse(texts[places], rival)) for rival in self.rivals(number_format)]
            clear = ~np.isnan(values[places]) & np.all(others, axis=0)
            if clear.any():
                return float(clear.mean()), str(texts[places][clear][0])
        return 0.0, ""

    def longest(self, mask: np.ndarray) -> int:
        """Return the place of the longest of some cells, to show it."""
        places = np.flatnonzero(mask)
        return int(places[int(np.argmax([len(text) for text in self.cells.texts[places]]))])

    def in_words(self, name: str, place: int) -> str:
        """Say how a reading takes a cell."""
        return f"{self.cells.texts[place]!r} is read as the number {self.readings[name].values[place]:.15g}"


def detect_number_formats(column: RawColumn) -> CandidateFormats | None:
    """Find the formats in which a column of texts reads as numbers.

    Args:
        column: The column; of columns that are no texts, none is found.

    Returns:
        One format at most with decimal points and one with decimal commas; None if no format reads the column.
    """
    cells = column.filled()
    texts = cells.texts
    sample = texts[random_places(len(texts), SAMPLE)]
    unit = _unit_sign(sample)
    if unit is None:
        return None
    readings: dict[str, Reading] = {}
    for sign in (".", ","):
        formats = [""] * (sign == "." and not unit) + [marks + unit for marks in MARKS if marks[0] == sign]
        reading = best_reading(texts, formats, _reads_half(sample), cells.numbers)
        if reading is not None:
            readings[sign] = reading
        if reading is not None and not reading.format and _is_whole(texts, reading.values):
            readings[","] = Reading(",.", reading.values)  # without a mark both read the same: no need to
            break
    if not readings:
        return None
    likelier = ""
    candidates = CandidateFormats(cells, readings, settled_reading(readings), parse_numbers, _rivals)
    if candidates.ambiguous and unit and unit in MONEY:  # 1,234: money has no three decimals
        likelier = max(readings, key=lambda sign: float(np.nansum(np.abs(readings[sign].values))))
    return CandidateFormats(cells, readings, candidates.settled, parse_numbers, _rivals, likelier)


def best_reading(
    texts: np.ndarray, formats: list[str], is_plausible: Callable[[str], bool], read: Callable[[str], Values]
) -> Reading | None:
    """Find the format that reads most cells, the first of several.

    Args:
        texts: The filled cells.
        formats: The formats to try.
        is_plausible: Whether a format is worth trying on all cells.
        read: Gives the values of all cells in a format, NaN where a cell is not written so.

    Returns:
        The reading, or None if no format reads nine tenths of the cells.
    """
    best, most = None, 0
    for cell_format in formats:
        if not is_plausible(cell_format):
            continue
        values = read(cell_format)
        unread = np.isnan(values)
        count = len(values) - int(unread.sum())
        if count > most:
            best, most = Reading(cell_format, values), count
        if not any(DIGIT.search(text) for text in texts[unread]):  # what is left no format reads
            break
    return best if most >= READABLE * len(texts) else None


def settled_reading(readings: dict[str, Reading]) -> str:
    """Return the reading that the cells settle, "" if none.

    It is the one that reads cells which the others do not read, nine times as many as the other way round.
    """
    readable = {name: ~np.isnan(reading.values) for name, reading in readings.items()}
    first = max(readable, key=lambda name: int(readable[name].sum()))
    for other in readable.keys() - {first}:
        only_first = int((readable[first] & ~readable[other]).sum())
        only_other = int((readable[other] & ~readable[first]).sum())
        if not only_first or only_first < READABLE * (only_first + only_other):
            return ""
    return first


def unit_note(column: RawColumn) -> str:
    """Say what to do with cells that are numbers with the same unit, such as 5.4 kg; "" of another column."""
    texts = column.filled().texts
    matches = [UNIT.fullmatch(text) for text in texts]
    units = [match[1] if match else None for match in matches]
    counts = Counter(unit for unit in units if unit is not None)
    unit, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < max(2, READABLE * len(texts)):
        return ""
    sample = texts[units.index(unit)]
    return f"{sample!r} looks like a number with a unit: write the cells without {unit!r} to have it read as one"


def _unit_sign(texts: np.ndarray) -> str | None:
    """Return the unit sign that most cells with digits have, "" if none; None if there are several or no digits."""
    together = "".join(texts)
    if SIGNS.isdisjoint(together):
        return "" if DIGIT.search(together) else None
    signs = Counter("".join(sign for sign in text if sign in SIGNS) for text in texts if DIGIT.search(text))
    sign = signs.most_common(1)[0][0] if signs else None
    return sign if sign is not None and len(sign) <= 1 else None


def _reads_half(sample: np.ndarray) -> Callable[[str], bool]:
    """Return whether a format reads half of a sample; plain numbers are read quickly enough without."""
    return lambda number_format: (
        not number_format or float(np.isnan(parse_numbers(sample, number_format)).mean()) <= 0.5
    )


def _rivals(number_format: str) -> list[str]:
    """Return the formats with the other decimal sign."""
    sign = number_format[:1] or "."
    plain = [""] * (sign == "," and len(number_format) == 2)
    return plain + [marks + number_format[2:] for marks in MARKS if marks[0] != sign]


def _is_whole(texts: np.ndarray, values: Values) -> bool:
    """Return whether all cells are plain numbers without a mark."""
    return not np.isnan(values).any() and not any("." in text for text in texts)
