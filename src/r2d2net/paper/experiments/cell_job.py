"""Computing one cell: what a worker does, whether it is a process of this machine or a task of a Ray cluster."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from r2d2net.files import write_json
from r2d2net.paper.experiments.grid import Cell, Compute, Grid, Place
from r2d2net.provenance import provenance, take_commit

SETTINGS = "settings.json"  # those of the cell whose checkpoints a folder holds


def compute_and_log(grid: Grid, cell: Cell) -> str | None:
    """Compute a cell and write its result file and its log.

    Args:
        grid: The grid of the cell.
        cell: The cell.

    Returns:
        None, or the failure in one line; its traceback is in the log.
    """
    with _output_in(grid.log(cell)):
        try:
            compute_cell(grid, cell)
        except Exception as error:  # of any kind: it must not stop other cells, and the log has all of it
            traceback.print_exc()
            first_line = str(error).splitlines()[0] if str(error) else ""
            return f"{type(error).__name__}: {first_line}"
    return None


def compute_cell(grid: Grid, cell: Cell) -> None:
    """Compute a cell, from its checkpoints if there are any, and write its result file.

    Args:
        grid: The grid of the cell.
        cell: The cell.
    """
    place = grid.place(cell)
    begun = place.run / SETTINGS
    if begun.exists() and json.loads(begun.read_text(encoding="utf-8")) != cell.settings:
        shutil.rmtree(place.run)  # checkpoints of another cell with this key
    place.run.mkdir(parents=True, exist_ok=True)
    write_json(begun, cell.settings)
    write_json(grid.path(cell), computed(cell, grid.compute, place))
    shutil.rmtree(place.run)


def computed(cell: Cell, compute: Compute, place: Place) -> dict[str, Any]:
    """Compute a cell.

    Args:
        cell: The cell.
        compute: The function that computes its result.
        place: Folders to which it may write.

    Returns:
        The content of the result file.
    """
    take_commit()
    start = time.perf_counter()
    for folder in place:
        folder.mkdir(parents=True, exist_ok=True)
    result = compute(cell.settings, place)
    seconds = time.perf_counter() - start
    origin = provenance(cell.settings, cell.settings.get("seed"))
    return {"key": cell.key, **origin, "seconds": seconds, "result": result}


@contextmanager
def _output_in(log: Path) -> Iterator[None]:
    """Redirect standard output and error of this process to a file, also those of libraries in C."""
    log.parent.mkdir(parents=True, exist_ok=True)
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    originals = [os.dup(descriptor) for descriptor in (1, 2)]
    with open(log, "w", encoding="utf-8") as file:
        try:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            yield
        finally:
            for stream in streams:
                stream.flush()
            for descriptor, original in zip((1, 2), originals, strict=True):
                os.dup2(original, descriptor)
                os.close(original)
