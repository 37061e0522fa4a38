"""A grid of cells: each is a job with its own seed, result file and log; what is there is not done again.

    <out>/<artefact>-<scale>/cells/<key>.json     settings, seed, result, versions, commit, wall time
    <out>/<artefact>-<scale>/cells/<key>.log      what the job printed, and its traceback if it failed
    <out>/<artefact>-<scale>/runs/<key>/          checkpoints of a job that goes on after an interruption
    <out>/<artefact>-<scale>/shared/              what later stages read of earlier ones, such as an oracle's weights

A cell's result is a function of its settings alone, so a grid that was killed and started again ends with the results
of one that was not. A result whose settings are not those asked for is computed anew.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.errors import DataError
from r2d2net.files import write_json
from r2d2net.paper.experiments.pool import Ended, Job, Started, run_jobs
from r2d2net.provenance import provenance, take_commit

Settings = dict[str, Any]
SETTINGS = "settings.json"  # of the cell whose checkpoints a folder holds


class Place(NamedTuple):
    """Where a job may write."""

    run: Path  # its checkpoints; removed when the job is done
    shared: Path  # what other cells read


Compute = Callable[[Settings, Place], dict[str, Any]]  # -> the result, plain JSON


class Cell(NamedTuple):
    """One entry of a table, or one curve of a figure, of one replicate."""

    key: str  # a file name
    settings: Settings  # plain JSON: all that decides the result, its seed among it
    stage: int = 0  # cells of a stage start when those of the stages before have ended
    needs: tuple[str, ...] = ()  # keys of cells of earlier stages whose shared files it reads
    leaves: tuple[str, ...] = ()  # names of the shared files it writes


class Grid(NamedTuple):
    """Cells that one function computes, and the folder they live in."""

    cells: Sequence[Cell]
    compute: Compute  # of a module, so that other processes find it
    folder: Path

    def path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.key}.json"

    def log(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.key}.log"

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """The whole result file of a cell; None if there is none of these settings."""
        found = read_result(self.path(cell))
        return found if found is not None and found["settings"] == json.loads(json.dumps(cell.settings)) else None

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    def unfinished(self) -> list[Cell]:
        """Cells without a result, and those whose shared files are lost and needed by one of them."""
        found: set[str] = set()
        needed: set[str] = set()
        for cell in sorted(self.cells, key=lambda cell: -cell.stage):
            lost = not all((self.shared / name).exists() for name in cell.leaves)
            if self.result(cell) is None or (lost and cell.key in needed):
                found.add(cell.key)
                needed.update(cell.needs)
        return [cell for cell in self.cells if cell.key in found]

    def results(self) -> list[dict[str, Any]]:
        """The result files of all cells that have one."""
        return [found for cell in self.cells if (found := self.result(cell)) is not None]


def read_result(path: Path) -> dict[str, Any] | None:
    """A result file; None if it is not there. Others' files are one clear error."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path} is no result file ({error}): remove it") from error
    if not isinstance(found, dict) or not {"settings", "result"} <= found.keys():
        raise DataError(f"{path} is no result file: remove it")
    return found


def compute_cell(cell: Cell, compute: Compute, folder: Path) -> None:
    """Compute a cell and write its result file; the job of a worker."""
    grid = Grid([cell], compute, folder)
    place = Place(folder / "runs" / cell.key, grid.shared)
    begun = place.run / SETTINGS
    if begun.exists() and json.loads(begun.read_text(encoding="utf-8")) != cell.settings:
        shutil.rmtree(place.run)  # checkpoints of another cell of this name
    place.run.mkdir(parents=True, exist_ok=True)
    write_json(begun, cell.settings)
    write_json(grid.path(cell), computed(cell, compute, place))
    shutil.rmtree(place.run)


def computed(cell: Cell, compute: Compute, place: Place) -> dict[str, Any]:
    """What a cell's result file holds."""
    take_commit()
    start = time.perf_counter()
    for folder in place:
        folder.mkdir(parents=True, exist_ok=True)
    result = compute(cell.settings, place)
    seconds = time.perf_counter() - start
    origin = provenance(cell.settings, cell.settings.get("seed"))
    return {"key": cell.key, **origin, "seconds": seconds, "result": result}


class Stage(NamedTuple):
    """What is to be done of a stage, and what cannot be."""

    cells: list[Cell]
    hopeless: list[Ended]  # cells that need one which failed


def stages(grid: Grid) -> Iterator[Stage]:
    """The cells that are not there yet, stage by stage."""
    for stage in sorted({cell.stage for cell in grid.cells}):
        unfinished = grid.unfinished()
        without = {cell.key for cell in unfinished}
        lacking = {cell.key: [key for key in cell.needs if key in without] for cell in unfinished}
        now = [cell for cell in unfinished if cell.stage == stage]
        yield Stage(
            [cell for cell in now if not lacking[cell.key]],
            [Ended(c.key, f"needs {lacking[c.key][0]}, which failed", 0.0) for c in now if lacking[c.key]],
        )


def run_on_this_machine(grid: Grid, workers: int) -> Iterator[Started | Ended]:
    """Compute all cells that are not there yet, on so many processes."""
    for stage in stages(grid):
        yield from stage.hopeless
        yield from run_jobs([job_of(grid, cell) for cell in stage.cells], workers)


def job_of(grid: Grid, cell: Cell) -> Job:
    """The job that computes a cell in the grid's folder."""
    return Job(cell.key, compute_cell, (cell, grid.compute, grid.folder), grid.log(cell))
