"""Reproducing an artefact: its grid is described, and the cells that have no result are run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console

from r2d2net.errors import Argument, ParameterError, require_whole
from r2d2net.files import make_folder, write_json
from r2d2net.paper.cell_files import note_on_table, unpack_cells
from r2d2net.paper.experiments import ARTEFACTS
from r2d2net.paper.experiments.artefact import SCALES, Artefact, Scale
from r2d2net.paper.experiments.data_requirements import require_data
from r2d2net.paper.experiments.grid import Cell, Grid
from r2d2net.paper.experiments.grid_progress import Progress, show_progress
from r2d2net.paper.experiments.process_backend import processes
from r2d2net.paper.experiments.ray_backend import ray_tasks
from r2d2net.paper.experiments.runner import Backend, run_cells
from r2d2net.paper.experiments.table_rows import described
from r2d2net.paper.experiments.time_estimate import estimate_lines


@dataclass(frozen=True)
class Request:
    """What is to be reproduced, and how.

    Attributes:
        name: Name of the artefact.
        scale: smoke, machine or paper.
        replicates: Number of replicates; None for the scale's own.
        only: Words, of which a cell's key must contain one; without words all cells are run. Each must match a cell.
        workers: Cells at a time; None for one for each core, or for each GPU where the artefact uses them.
        out: Folder for results.
        backend: Processes of this machine, or tasks of a Ray cluster.
        address: Address of the cluster; None for a Ray of this machine that ends with the grid.
        variant: Variant of the artefact; None for its default.
        seed: Added to the seeds of all cells.
    """

    name: str
    scale: Scale = "machine"
    replicates: int | None = None
    only: tuple[str, ...] = ()
    workers: int | None = None
    out: Path = Path("out/reproduce")
    backend: Literal["processes", "ray"] = "processes"
    address: str | None = None
    variant: str | None = None
    seed: int = 0


def artefact_of(name: str) -> Artefact:
    """Find an artefact by its name.

    Raises:
        ParameterError: There is none with this name.
    """
    if name not in ARTEFACTS:
        raise ParameterError("is no artefact", value=name, fix=f"use one of {', '.join(ARTEFACTS)}")
    return ARTEFACTS[name]


def reproduce(request: Request, console: Console, *, quiet: bool = False) -> tuple[Grid, Progress]:
    """Run all cells of an artefact that have no result yet.

    Args:
        request: What is to be reproduced.
        console: Where progress is shown, and a note on a table of results that is not used.
        quiet: Whether to show no progress.

    Returns:
        The grid, and what happened to its cells: those that failed are among it.

    Raises:
        ParameterError: The request cannot be carried out.
        DataError: A data set is not there.
    """
    artefact, whole = requested(request)
    grid = whole.only(request.only)
    unfinished = unfinished_cells(grid, request.out)
    note = note_on_table(grid.folder)
    if note is not None:
        console.print(note, soft_wrap=True, markup=False, highlight=False)
    if request.address is None:  # the nodes of a cluster have their own data
        require_data(artefact, unfinished)
    with backend_of(request, artefact) as backend:
        make_folder(request.out, "out")
        describe_grid(artefact, whole, request)
        progress = Progress(len(grid.cells), backend.slots, skipped=len(grid.cells) - len(unfinished))
        return grid, show_progress(run_cells(grid, backend), progress, console, quiet=quiet)


def requested(request: Request) -> tuple[Artefact, Grid]:
    """Find the artefact of a request and its whole grid.

    Args:
        request: What is to be reproduced.

    Returns:
        Both.

    Raises:
        ParameterError: The request cannot be carried out.
    """
    artefact = artefact_of(request.name)
    if request.scale not in SCALES:
        fix = f"use one of {', '.join(SCALES)}"
        raise ParameterError("is not known", argument="scale", value=request.scale, fix=fix)
    for name in ("replicates", "workers"):
        if getattr(request, name) is not None:
            require_whole(name, getattr(request, name))
    grid = artefact.grid(request.scale, request.out, request.replicates, request.variant)
    return artefact, with_seed(grid, request.seed)


def estimate(request: Request) -> list[str]:
    """Say how many cells a request has, how long finished ones took, and how long the others will take.

    Args:
        request: What is to be reproduced.

    Returns:
        Lines of text. Nothing is computed; a table of results in the folder is unpacked into cell files.

    Raises:
        ParameterError: The request cannot be carried out.
    """
    artefact, whole = requested(request)
    grid = whole.only(request.only)
    unfinished_cells(grid, request.out)
    return estimate_lines(grid, request.workers or usual_workers(artefact))


def usual_workers(artefact: Artefact) -> int:
    """Return as many cells at a time as there are cores, or GPUs if the artefact uses them."""
    return (artefact.gpu and torch.cuda.device_count()) or os.cpu_count() or 1


def unfinished_cells(grid: Grid, out: Path) -> Sequence[Cell]:
    """Find the cells without a result: neither a cell file nor, where there are no cell files, a line of the table.

    Makes no folder for results, but checks that one which is there can be written.
    """
    if not out.is_dir():
        return grid.cells
    make_folder(out, "out")
    unpack_cells(grid.folder)
    return grid.unfinished()


def with_seed(grid: Grid, seed: int) -> Grid:
    """Return the grid with a number added to all seeds and with a folder of its own; unchanged for 0."""
    if seed == 0:
        return grid
    cells = [
        cell._replace(settings={**cell.settings, "seed": cell.settings["seed"] + seed})
        if "seed" in cell.settings
        else cell
        for cell in grid.cells
    ]
    return grid._replace(cells=cells, folder=grid.folder.with_name(f"{grid.folder.name}-seed-{seed}"))


def backend_of(request: Request, artefact: Artefact) -> AbstractContextManager[Backend]:
    """Return what computes the cells: by default as many at a time as there are cores, or GPUs if these are used.

    Args:
        request: Which backend, and how many cells at a time.
        artefact: The artefact, which says whether GPUs are used.

    Returns:
        A context that provides the backend and ends it.

    Raises:
        ParameterError: An address is given for processes, or there is no Ray at the address.
    """
    if request.backend == "ray":
        return ray_tasks(request.address, request.workers, gpus=artefact.gpu)
    if request.address is not None:
        fix = ("add ", Argument("backend", "ray"), " or leave it out")
        raise ParameterError("is for the backend ray", argument="address", value=request.address, fix=fix)
    return processes(usual_workers(artefact) if request.workers is None else request.workers)


def describe_grid(artefact: Artefact, grid: Grid, request: Request) -> None:
    """Write ``grid.json``, the description of the whole grid by which a report knows which results are missing.

    Args:
        artefact: The artefact.
        grid: Its grid with all cells, whichever of them are run.
        request: Its scale, replicates and variant.
    """
    scale = request.scale
    grid.folder.mkdir(parents=True, exist_ok=True)
    cells = [{"key": cell.key, "settings": cell.settings} for cell in grid.cells]
    about = {"artefact": artefact.name, "title": artefact.title, "scale": scale, "reduced": artefact.reduced(scale)}
    replicates = {} if request.replicates is None else {"replicates": request.replicates}
    variant = {"variant": request.variant or artefact.variants[0]} if artefact.variants else {}
    write_json(grid.folder / "grid.json", {**about, **replicates, **variant, "rows": rows_of(grid), "cells": cells})


def rows_of(grid: Grid) -> dict[str, Any]:
    """Describe the prior and the algorithm of each row of the paper's tables that a grid has.

    Cells that have a prior of their own in place of the row's are left out.

    Args:
        grid: The grid.

    Returns:
        Descriptions by the names of the rows, plain JSON.
    """
    rows = {
        cell.settings["row"]: cell.settings
        for cell in grid.cells
        if "recipe" in cell.settings and "a_pi" not in cell.settings
    }
    return {row: described(row, settings["recipe"], **settings.get("method", {})) for row, settings in rows.items()}
