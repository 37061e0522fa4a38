"""A column of dates as inputs of a network: trend, season, weekday and time of day, where the dates have them.

    trend        days since 1970, standardised
    season       sin and cos of 2 pi (day of the year) / 365.25
    weekday      one 0/1 input a day
    time of day  sin and cos of 2 pi (hours) / 24

A season needs training rows of ten months or more, in four different months of the year. A weekday needs 70 rows, two
weeks, two weekdays, and dates finer than months: of dates that are all the first or the last of a month the weekday is
an accident. A time of day needs 20 rows, and two days of which a tenth of the rows is not of the most frequent time.
Missing dates have the training rows' averages of these inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.column_encoders import Counts, Encoded, NumberEncoder
from r2d2net.columns.raw_columns import RawColumn

if TYPE_CHECKING:
    import pandas as pd

SEASON, WEEKDAY, TIME = "season", "weekday", "time of day"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LEAST_ROWS = {SEASON: 20, WEEKDAY: 70, TIME: 20}
TEN_MONTHS, TWO_WEEKS, TWO_DAYS = 300, 14, 2  # days
FEWEST_MONTHS = 4
THURSDAY = 3  # what 1970-01-01 was


@dataclass(frozen=True)
class DateEncoder(NumberEncoder):
    """A column of dates.

    Attributes:
        parts: What dates give besides their trend, of season, weekday and time of day.
        averages: The training rows' averages of the inputs of these parts.
    """

    parts: list[str] = field(default_factory=list)
    averages: list[float] = field(default_factory=list)

    @property
    def inputs(self) -> list[str]:
        return super().inputs + [f"{self.name} ({end})" for part in self.parts for end in _ends(part)]

    @property
    def has_averages(self) -> bool:
        """Whether the parts are known ones, each with its averages."""
        known = set(self.parts) <= {SEASON, WEEKDAY, TIME}
        return known and len(self.averages) == sum(len(_ends(part)) for part in self.parts)

    def encode(self, column: pd.Series | RawColumn, counts: Counts) -> Encoded:
        """Encode the dates; adds to ``counts`` what was not as it should be.

        Args:
            column: The cells.
            counts: Counts by column and kind.

        Returns:
            The trend, the indicator of missing cells if there is one, and the parts.
        """
        cells = RawColumn.of(column)
        trend = super().encode(cells, counts)
        if not self.parts:
            return trend
        days = cells.days(self.form)
        known = np.isfinite(days)
        inputs = np.tile(np.array(self.averages), (len(days), 1))
        inputs[known] = part_inputs(days[known], self.parts)
        return trend._replace(x=np.hstack([trend.x, inputs]))

    def average_parts(self, days: Values) -> Values:
        """Compute the inputs of the parts with the season of each date, and the averages of all else.

        Args:
            days: Days since 1970, (dates,).

        Returns:
            The inputs besides the trend, (dates, inputs).
        """
        inputs = np.tile(np.array(self.averages), (len(days), 1))
        names = [part for part in self.parts for _ in _ends(part)]
        seasonal = np.array([name == SEASON for name in names])
        inputs[:, seasonal] = part_inputs(days, self.parts)[:, seasonal]
        return inputs


def date_parts(days: Values) -> list[str]:
    """Return what dates give besides their trend.

    Args:
        days: Days since 1970 of the training rows, without missing ones.

    Returns:
        Some of season, weekday and time of day.
    """
    moments = np.floor(days).astype("datetime64[D]")
    months = moments.astype("datetime64[M]").astype(np.int64)
    extent = float(np.ptp(days))
    has = {
        SEASON: extent >= TEN_MONTHS and len(np.unique(months % 12)) >= FEWEST_MONTHS,
        WEEKDAY: (
            extent >= TWO_WEEKS
            and len(np.unique(_weekdays(days))) > 1
            and len(np.unique(moments)) > len(np.unique(months))
        ),
        TIME: extent >= TWO_DAYS and _times_vary(days),
    }
    return [part for part, there in has.items() if there and len(days) >= LEAST_ROWS[part]]


def part_inputs(days: Values, parts: list[str]) -> Values:
    """Encode parts of dates.

    Args:
        days: Days since 1970.
        parts: Some of season, weekday and time of day.

    Returns:
        The inputs, (rows, inputs).
    """
    columns = {SEASON: _season, WEEKDAY: lambda d: np.eye(7)[_weekdays(d)], TIME: lambda d: _circle(d % 1.0)}
    return np.hstack([columns[part](days) for part in parts])


def _season(days: Values) -> Values:
    moments = np.floor(days).astype("datetime64[D]")
    day_of_year = days - moments.astype("datetime64[Y]").astype("datetime64[D]").astype(np.float64)
    return _circle(day_of_year / 365.25)


def _circle(turns: Values) -> Values:
    return np.stack([np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)], axis=1)


def _weekdays(days: Values) -> np.ndarray:
    return (np.floor(days).astype(np.int64) + THURSDAY) % 7


def _times_vary(days: Values) -> bool:
    minutes = np.round((days % 1.0) * 24 * 60).astype(np.int64)
    return bool(np.bincount(minutes).max() <= 0.9 * len(minutes))


def _ends(part: str) -> list[str]:
    return list(WEEKDAYS) if part == WEEKDAY else [f"{part}, sin", f"{part}, cos"]
