"""Running a grid: all cells without a result, stage by stage, several at a time, on processes or on a Ray cluster.

A backend computes the cells. One that fails or whose process is killed is reported and does not stop the others.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from r2d2net.paper.experiments.grid import Cell, Grid


class Started(NamedTuple):
    """A cell has been given to a worker."""

    key: str


class Ended(NamedTuple):
    """A cell has been computed, or has failed."""

    key: str
    error: str | None  # one line; None if the cell has its result
    seconds: float


class Backend(Protocol):
    """What computes cells: `process_backend.Processes` or `ray_backend.RayTasks`."""

    @property
    def slots(self) -> int:
        """Number of cells at a time."""

    def start(self, grid: Grid, cell: Cell) -> None:
        """Begin a cell; called only while fewer than ``slots`` are running."""

    def wait(self) -> Sequence[tuple[str, str | None]]:
        """Wait until cells end, and return their keys and errors."""


def run_cells(grid: Grid, backend: Backend) -> Iterator[Started | Ended]:
    """Compute all cells that have no result.

    Args:
        grid: The grid.
        backend: What computes them.

    Yields:
        What happens, as it happens.
    """
    for stage in stages(grid):
        yield from stage.hopeless
        waiting = deque(stage.cells)
        began: dict[str, float] = {}
        while waiting or began:
            while waiting and len(began) < backend.slots:
                cell = waiting.popleft()
                began[cell.key] = time.monotonic()
                backend.start(grid, cell)
                yield Started(cell.key)
            for key, error in backend.wait():
                yield Ended(key, error, time.monotonic() - began.pop(key))


class Stage(NamedTuple):
    """The cells of a stage that have no result."""

    cells: list[Cell]  # that can be computed
    hopeless: list[Ended]  # that need a cell which failed


def stages(grid: Grid) -> Iterator[Stage]:
    """Go through the stages of a grid; what a stage has to do depends on how those before it ended.

    Args:
        grid: The grid.

    Yields:
        The stages.
    """
    for number in sorted({cell.stage for cell in grid.cells}):
        unfinished = grid.unfinished()
        keys = {cell.key for cell in unfinished}
        lacking = {cell.key: [key for key in cell.needs if key in keys] for cell in unfinished}
        cells = [cell for cell in unfinished if cell.stage == number]
        yield Stage(
            [cell for cell in cells if not lacking[cell.key]],
            [
                Ended(cell.key, f"needs {lacking[cell.key][0]}, which failed", 0.0)
                for cell in cells
                if lacking[cell.key]
            ],
        )
