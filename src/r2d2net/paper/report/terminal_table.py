"""The first compared table of a report, for a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from r2d2net.paper.report.comparison import ComparedMean, column_groups
from r2d2net.paper.report.grid_results import read_grid
from r2d2net.paper.report.table_layouts import compare_grid

COLOURS = {"better": "green", "worse": "red", "not run": "dim"}


def first_table(folder: Path) -> list[Table]:
    """Show the first metric of a grid, our means beside the paper's figures.

    Args:
        folder: The folder of the grid.

    Returns:
        Tables that are narrow enough for a terminal, of the settings that have a result; none if the artefact has no
        table.
    """
    comparison = next(compare_grid(read_grid(folder)), None)
    if comparison is None:
        return []
    entries = {(entry.setting, entry.row): entry for entry in comparison.entries}
    run = {entry.setting for entry in comparison.entries if entry.mean is not None}
    tables = []
    for settings in column_groups([entry for entry in comparison.entries if entry.setting in run]):
        table = Table("row", *settings, title=f"{comparison.title}: ours (the paper's)")
        for row in dict.fromkeys(entry.row for entry in comparison.entries):
            table.add_row(row, *(_coloured_text(entries.get((setting, row))) for setting in settings))
        tables.append(table)
    return tables


def _coloured_text(entry: ComparedMean | None) -> str:
    if entry is None:
        return ""
    text = entry.ours + (f" ({entry.theirs})" if entry.theirs else "")
    colour = COLOURS.get(entry.verdict)
    return f"[{colour}]{text}[/{colour}]" if colour else text
