"""From a name to results: find the artefact, run what is missing of its grid, say how it went."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console

from r2d2net.errors import ParameterError, require_whole
from r2d2net.files import make_folder, write_json
from r2d2net.paper.cell_files import unpack_cells
from r2d2net.paper.experiments import ARTEFACTS
from r2d2net.paper.experiments.artefact import SCALES, Artefact, Scale, only
from r2d2net.paper.experiments.grid import Cell, Grid, run_on_this_machine
from r2d2net.paper.experiments.needed_data import require_data
from r2d2net.paper.experiments.pool import Ended, Started
from r2d2net.paper.experiments.ray_backend import ray_cluster, run_on_ray
from r2d2net.paper.experiments.recipe import described
from r2d2net.paper.experiments.watching import Watched, watch

Run = Callable[[Grid, int], Iterator[Started | Ended]]


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes:
        name: The artefact.
        scale: smoke, machine or paper.
        replicates: Replicates of every cell; None for the scale's own number.
        only: Words of which a cell's key must have one; all cells if there are none. Each must match some cell.
        workers: Processes at a time; None for one a core, or one a GPU where there are some and the artefact uses them.
        out: Folder for results.
        backend: Processes of this machine, or tasks of a Ray cluster.
        address: The cluster's address; None for a Ray of this machine that ends with the grid.
        variant: Which variant of the artefact; None for its default.
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
    """The artefact of a name, or one clear error."""
    if name not in ARTEFACTS:
        raise ParameterError(f"{name!r} is no artefact: use one of {', '.join(ARTEFACTS)}")
    return ARTEFACTS[name]


def reproduce(request: Request, console: Console, *, quiet: bool = False) -> tuple[Grid, Watched]:
    """Run all cells that have no result yet; what failed is in the second that is returned."""
    artefact = artefact_of(request.name)
    if request.scale not in SCALES:
        raise ParameterError(f"scale={request.scale!r} is not known: use one of {', '.join(SCALES)}")
    for name in ("replicates", "workers"):
        if getattr(request, name) is not None:
            require_whole(name, getattr(request, name))
    whole = with_seed(artefact.grid(request.scale, request.out, request.replicates, request.variant), request.seed)
    grid = only(whole, request.only)
    unfinished = unfinished_cells(grid, request.out)
    if request.address is None:  # the nodes of a cluster have their own data
        require_data(artefact, unfinished)
    with backend_of(request, artefact) as (workers, run):
        make_folder(request.out, "--out")
        describe_grid(artefact, whole, request)
        watched = Watched(len(grid.cells), workers, skipped=len(grid.cells) - len(unfinished))
        return grid, watch(run(grid, workers), watched, console, quiet=quiet)


def unfinished_cells(grid: Grid, out: Path) -> Sequence[Cell]:
    """Find the cells without a result: neither a cell file nor, where there are no cell files, a line of the table.

    Makes no folder for results, but checks that one which is there can be written.
    """
    if not out.is_dir():
        return grid.cells
    make_folder(out, "--out")
    unpack_cells(grid.folder)
    return grid.unfinished()


def with_seed(grid: Grid, seed: int) -> Grid:
    """The same grid with other seeds, in a folder of its own; seed 0 changes nothing."""
    if seed == 0:
        return grid
    cells = [
        cell._replace(settings={**cell.settings, "seed": cell.settings["seed"] + seed})
        if "seed" in cell.settings
        else cell
        for cell in grid.cells
    ]
    return grid._replace(cells=cells, folder=grid.folder.with_name(f"{grid.folder.name}-seed-{seed}"))


@contextmanager
def backend_of(request: Request, artefact: Artefact) -> Iterator[tuple[int, Run]]:
    """How many jobs at a time, and what runs them; by default as many as there are GPUs, where it uses them."""
    if request.backend == "ray":
        with ray_cluster(request.address, request.workers, gpus=artefact.gpu) as cluster:
            yield cluster.tasks, partial(run_on_ray, gpus=cluster.gpus)
        return
    if request.address is not None:
        raise ParameterError(f"address={request.address!r} is for the backend ray: add --backend ray or leave it out")
    usual = (artefact.gpu and torch.cuda.device_count()) or os.cpu_count() or 1
    yield usual if request.workers is None else request.workers, run_on_this_machine


def describe_grid(artefact: Artefact, grid: Grid, request: Request) -> None:
    """Write what the whole grid is, so that a report can say what is not there."""
    scale = request.scale
    grid.folder.mkdir(parents=True, exist_ok=True)
    cells = [{"key": cell.key, "settings": cell.settings} for cell in grid.cells]
    about = {"artefact": artefact.name, "title": artefact.title, "scale": scale, "reduced": artefact.reduced(scale)}
    asked = {} if request.replicates is None else {"replicates": request.replicates}
    variant = {"variant": request.variant or artefact.variants[0]} if artefact.variants else {}
    write_json(grid.folder / "grid.json", {**about, **asked, **variant, "rows": rows_of(grid), "cells": cells})


def rows_of(grid: Grid) -> dict[str, Any]:
    """Prior and algorithm of each row of the paper's tables; not of cells that give a prior of their own."""
    rows = {
        cell.settings["row"]: cell.settings
        for cell in grid.cells
        if "recipe" in cell.settings and "a_pi" not in cell.settings
    }
    return {row: described(one["recipe"], row, **one.get("method", {})) for row, one in rows.items()}
