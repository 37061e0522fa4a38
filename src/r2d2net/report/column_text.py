"""How a column of a table was read and encoded, in words for the report and `r2d2net inspect`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

MOST_LEVELS = 8  # that are named


def column_text(column: dict[str, Any], write: Callable[[float], str]) -> str:
    """Say what a column holds, and what becomes of its missing cells.

    Args:
        column: The column as run.json has it; those of older runs have fewer entries.
        write: Writes a number for people.

    Returns:
        One line.

    >>> column_text({"kind": "number", "mean": 2.0, "sd": 1.0, "median": 3.0, "indicator": True}, "{:g}".format)
    'mean 2, sd 1; missing cells become 3, and an input says so'
    """
    kind, said = column["kind"], ", and an input says so" if column.get("indicator") else ""
    if kind in ("category", "category by target"):
        return _levels(column)
    if kind == "date":
        low, high, mean, median = (_moment(column[part], column["sd"]) for part in ("low", "high", "mean", "median"))
        parts = "".join(f", {part}" for part in column.get("parts", []))
        span = f"{low} to {high}, mean {mean}, sd {column['sd']:.4g} days; trend{parts}"
        return f"{span}; missing cells become {median}{said}"
    mean, sd, median = (write(column[part]) for part in ("mean", "sd", "median"))
    return f"mean {mean}, sd {sd}; missing cells become {median}{said}"


def _levels(column: dict[str, Any]) -> str:
    levels = column["levels"]
    if column["kind"] == "category by target":
        rare = f" and {len(column['rare'])} of one row" if column["rare"] else ""
        missing = ", missing cells as a level" if column["missing_means"] else ""
        return f"{len(levels)} levels{rare}, by the average target of each{missing}"
    more = ["other"] * column["other"] + ["missing"] * column["missing"]
    hidden = [f"{len(levels) - MOST_LEVELS} more"] if len(levels) > MOST_LEVELS else []
    return f"{len(levels)} levels: " + ", ".join([*levels[:MOST_LEVELS], *hidden, *more])


def _moment(days: float, sd: float) -> str:
    """Days since 1970 as a date, with the time of day where the column varies by less than two days."""
    return str(np.datetime64(round(days * 86_400), "s").astype("datetime64[s]" if sd < 2 else "datetime64[D]"))
