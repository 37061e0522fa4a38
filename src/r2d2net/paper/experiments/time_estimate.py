"""How long a grid will take: its cells by row, the seconds that finished ones took, and the total of what is left.

    seconds of a row    mean of its finished cells; without any, the mean of all finished cells, marked "as others"
    time left           sum over unfinished cells / cells at a time

Seconds are those in the result files, so they are of the machine that computed them, under its load then.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

from r2d2net.paper.experiments.grid import Cell, Grid
from r2d2net.paper.experiments.grid_progress import duration


@dataclass(frozen=True)
class RowTime:
    """The cells of one row.

    Attributes:
        row: Name of the row; "" of cells that belong to none.
        cells: Number of cells.
        left: Number of those without a result.
        seconds: Mean seconds of a cell; None if no cell of the grid has been timed.
        is_measured: Whether the seconds are of this row.
    """

    row: str
    cells: int
    left: int
    seconds: float | None
    is_measured: bool


def row_times(grid: Grid) -> list[RowTime]:
    """Collect the seconds of finished cells.

    Args:
        grid: The grid.

    Returns:
        An entry for each row, in the order of the cells.
    """
    by_row: dict[str, list[Cell]] = defaultdict(list)
    for cell in grid.cells:
        by_row[str(cell.settings.get("row", ""))].append(cell)
    left = {cell.key for cell in grid.unfinished()}
    taken = {result["key"]: float(result["seconds"]) for result in grid.results()}
    found = []
    for row, cells in by_row.items():
        own = [taken[cell.key] for cell in cells if cell.key in taken]
        known = own or list(taken.values())
        unfinished = sum(cell.key in left for cell in cells)
        found.append(RowTime(row, len(cells), unfinished, fmean(known) if known else None, bool(own)))
    return found


def estimate_lines(grid: Grid, workers: int) -> list[str]:
    """Write the estimate.

    Args:
        grid: The grid.
        workers: Cells at a time.

    Returns:
        A line for each row, and one for the whole.
    """
    times = row_times(grid)
    lines = []
    for time in times:
        source = "" if time.is_measured else ", as others"
        each = "not timed yet" if time.seconds is None else f"{duration(time.seconds)} a cell{source}"
        lines.append(f"{time.row or 'all':<16}{time.cells:>4} cells, {time.left:>4} left, {each}")
    left = sum(time.left for time in times)
    total = f"{len(grid.cells)} cells, {left} left"
    if left and any(time.seconds is None for time in times):
        first = grid.unfinished()[0].key
        return [*lines, f"{total}; no cell has been timed: run one by --only {first}, and ask again"]
    seconds = sum(time.left * (time.seconds or 0.0) for time in times)
    at_once = max(1, min(workers, left))
    return [*lines, f"{total}: about {duration(seconds / at_once)} with {at_once} at a time"]
