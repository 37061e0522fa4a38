"""Rows of the speed benchmarks: one measured figure each, shown as a table, with what is beyond its limit named."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table


class Row(NamedTuple):
    """One measured figure.

    Attributes:
        section: Section of the benchmark.
        what: Network or size.
        who: Contestant.
        value: The figure.
        unit: Unit of the figure.
        seconds: Absolute time, for information.
        limit: Largest value allowed.
    """

    section: str
    what: str
    who: str
    value: float
    unit: str
    seconds: float | None = None
    limit: float | None = None

    @property
    def is_missed(self) -> bool:
        """Whether the figure is beyond its limit."""
        return self.limit is not None and self.value > self.limit


def cells(row: Row) -> list[str]:
    """Format a row's figure, milliseconds and limit."""
    limit = "" if row.limit is None else f"{row.limit:g}" + (" (missed)" if row.is_missed else "")
    return [f"{row.value:.3g} {row.unit}", "" if row.seconds is None else f"{1e3 * row.seconds:.4g}", limit]


def table_of(rows: Sequence[Row]) -> Table:
    """Lay the rows of one section out for a terminal."""
    table = Table("of", "who", "figure", "unit", "ms", "limit", title=rows[0].section if rows else None)
    for column in table.columns[2], table.columns[4]:
        column.justify = "right"
    above = ""
    for row in rows:
        figure, ms, limit = cells(row)
        number, _, unit = figure.partition(" ")
        shown = row.what if row.what != above else ""
        table.add_row(shown, row.who, number, unit, ms, limit, style="red" if row.is_missed else "")
        above = row.what
    return table


def console() -> Console:
    """Return a console that is wide enough for the tables, also in a pipe or a log."""
    return Console() if sys.stdout.isatty() else Console(width=110)


def missed(rows: Sequence[Row]) -> str:
    """Name the figures that are beyond their limits, or say that there are none."""
    limited = [row for row in rows if row.limit is not None]
    beyond = [
        f"missed: {row.section}, {row.what}, {row.who}: {row.value:.3g} {row.unit}, limit {row.limit:g}"
        for row in limited
        if row.is_missed
    ]
    return "\n".join(beyond) if beyond else f"all {len(limited)} figures with a limit are within it"


def machine(threads: list[int]) -> dict[str, Any]:
    """Describe the machine on which the times depend."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    processor = next(names, platform.processor())
    return {"processor": processor, "cores": os.cpu_count(), "threads": threads, "system": platform.system()}
