"""The first table of a report, for a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from r2d2net.paper.report.comparison import columns
from r2d2net.paper.report.results import read_folder
from r2d2net.paper.report.table_layouts import compared

COLOURS = {"better": "green", "worse": "red", "not run": "dim"}


def first_table(folder: Path) -> list[Table]:
    """Ours and the paper's figures of the first metric, settings that have a result; none if there is no table."""
    for one in compared(read_folder(folder)):
        found = []
        cells = {(entry.setting, entry.row): entry for entry in one.entries}
        run = {entry.setting for entry in one.entries if entry.mean is not None}
        for settings in columns([entry for entry in one.entries if entry.setting in run]):
            table = Table("row", *settings, title=f"{one.title}: ours (the paper's)")
            for row in dict.fromkeys(entry.row for entry in one.entries):
                texts = []
                for setting in settings:
                    entry = cells.get((setting, row))
                    if entry is None:
                        texts.append("")
                        continue
                    text = entry.ours + (f" ({entry.theirs})" if entry.theirs else "")
                    colour = COLOURS.get(entry.mark)
                    texts.append(f"[{colour}]{text}[/{colour}]" if colour else text)
                table.add_row(row, *texts)
            found.append(table)
        return found
    return []
