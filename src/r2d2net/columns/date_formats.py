"""Which date formats, other than ISO 8601, a column of texts may be written in: 31/12/2020, 3 Jan 2020.

As with numbers, a format must read nine tenths of the filled cells. 03/04/2020 can be read in two ways: if no other
cell of the column settles it, the other columns of the file may (see `format_rules`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from r2d2net.columns.cell_parsing import parse_days
from r2d2net.columns.number_formats import SAMPLE, CandidateFormats, best_reading, settled_reading
from r2d2net.columns.raw_columns import RawColumn, random_places

SLASHED = ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y")
DOTTED = ("%d.%m.%Y", "%Y.%m.%d", "%d.%m.%y")
NAMED = ("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FORMATS = [day + time for day in SLASHED + DOTTED + NAMED for time in TIMES]
FIRST = {"d": "day", "m": "month", "b": "month", "B": "month", "Y": "year"}  # by the first letter of a format
WORDS = FIRST | {"y": "year", "p": "am/pm", "H": "hour", "I": "hour", "M": "minute", "S": "second"}
THREE_PARTS = re.compile(r"\w+(?:[-/.]|\s+)\w+(?:[-/.,]|\s)")


def detect_date_formats(column: RawColumn) -> CandidateFormats | None:
    """Find the formats in which a column of texts reads as dates that are not ISO 8601.

    Args:
        column: The column; of columns that are no texts, none is found.

    Returns:
        One format at most for each of day, month and year that dates may begin with; None if no format reads them.
    """
    cells = column.filled()
    texts = cells.texts
    sample = texts[random_places(len(texts), SAMPLE)]
    if 2 * sum(THREE_PARTS.match(text) is not None for text in sample) < max(1, len(sample)):
        return None  # it is quicker not to try all formats
    groups: dict[str, list[str]] = {}
    for date_format in FORMATS:
        groups.setdefault(FIRST[date_format[1]], []).append(date_format)
    best = {name: best_reading(texts, formats, _looks_like(sample), cells.days) for name, formats in groups.items()}
    readings = {name: reading for name, reading in best.items() if reading is not None}
    if not readings:
        return None
    return CandidateFormats(cells, readings, settled_reading(readings), parse_days, _rivals)


def date_format_in_words(date_format: str) -> str:
    """Say a date format for people.

    >>> date_format_in_words("%d/%m/%Y %H:%M")
    'day/month/year hour:minute'
    """
    return re.sub("%(.)", lambda match: WORDS[match[1]], date_format)


def _rivals(date_format: str) -> list[str]:
    """Return the format with day and month the other way round, if both are numbers."""
    return [date_format.translate(str.maketrans("dm", "md"))] if "%m" in date_format else []


def _looks_like(sample: np.ndarray) -> Callable[[str], bool]:
    """Return whether half of a sample has the outward form of a date format."""
    return lambda date_format: 2 * sum(_shape(date_format)(text) is not None for text in sample) >= len(sample)


@lru_cache(maxsize=len(FORMATS))
def _shape(date_format: str) -> Callable[[str], re.Match[str] | None]:
    parts = {"Y": r"\d{4}", "b": r"\D+?", "B": r"\D+?", "p": r"\D+"}
    escaped = re.escape(date_format).replace("\\ ", r"\s+")
    return re.compile(re.sub("%(.)", lambda match: parts.get(match[1], r"\s*\d{1,2}"), escaped)).fullmatch
