"""The cells of a grid as tasks of a Ray cluster; all results and logs come back to the machine that asks.

A task works in a folder of its own on its node, so nodes share no files: it is handed the files that earlier cells left
for it and hands back its result, its log and the files it leaves. A task that fails or whose process is killed is
reported and stops no other; it is not tried again until the command is given once more, from the start, since its
checkpoints were its node's. Every node needs r2d2net and, under R2D2NET_DATA, the data.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from r2d2net.errors import ParameterError
from r2d2net.files import replace_when_written
from r2d2net.paper.experiments.grid import Cell, Compute, Grid, job_of, stages
from r2d2net.paper.experiments.pool import Ended, Started, call

SECONDS = 10.0  # within which a cluster must answer


class Answer(NamedTuple):
    """What a task hands back."""

    error: str | None
    result: bytes | None  # the result file
    log: bytes
    left: dict[str, bytes]  # shared files by name


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ParameterError("--backend ray needs ray: pip install 'r2d2net[ray]'") from error
    return ray


class Cluster(NamedTuple):
    """What a cluster has for a grid."""

    tasks: int  # at a time
    gpus: int  # of a task: 1 or 0


@contextmanager
def ray_cluster(address: str | None, workers: int | None, *, gpus: bool = False) -> Iterator[Cluster]:
    """Connect to a cluster, or start one on this machine; ``gpus`` gives each task one, where there are some."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library must not have its users reported
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a task without a GPU leaves devices as they are
    ray = _ray()
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if address is None:
        options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
    else:
        options |= {"address": address}
    try:
        if address is not None and (where := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)):
            # Ray itself asks for minutes
            socket.create_connection((where[1], int(where[2])), timeout=SECONDS).close()
        ray.init(**options)
    except (OSError, ValueError, OverflowError, RuntimeError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())[:200]
        what = "a Ray of this machine" if address is None else f"--address {address}"
        raise ParameterError(f"{what} cannot be used ({reason}): give the address of a running cluster") from error
    try:
        there = ray.cluster_resources()
        cards = int(there.get("GPU", 0)) if gpus else 0
        usual = cards or int(there.get("CPU", 1))
        yield Cluster(usual if workers is None else workers, min(cards, 1))
    finally:
        ray.shutdown()


def run_on_ray(grid: Grid, workers: int, *, gpus: int = 0) -> Iterator[Started | Ended]:
    """Compute all cells that are not there yet, so many at a time, on the cluster that is connected."""
    ray = _ray()
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(work)
    for stage in stages(grid):
        yield from stage.hopeless
        waiting = list(reversed(stage.cells))
        running: dict[Any, tuple[Cell, float]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    cell = waiting.pop()
                    running[task.remote(cell, grid.compute, needed(grid, cell))] = cell, time.monotonic()
                    yield Started(cell.key)
                ended, _ = ray.wait(list(running), num_returns=1)
                cell, since = running.pop(ended[0])
                yield Ended(cell.key, keep(grid, cell, _answer(ray, ended[0])), time.monotonic() - since)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def needed(grid: Grid, cell: Cell) -> dict[str, bytes]:
    """The shared files that a cell reads, by name."""
    names = [name for other in grid.cells if other.key in cell.needs for name in other.leaves]
    return {name: (grid.shared / name).read_bytes() for name in names}


def work(cell: Cell, compute: Compute, files: dict[str, bytes]) -> Answer:
    """The task: what a worker of this machine does, in a folder that is gone afterwards."""
    torch.set_num_threads(1)
    with TemporaryDirectory(prefix="r2d2net-") as folder:
        grid = Grid([cell], compute, Path(folder))
        grid.shared.mkdir()
        for name, content in files.items():
            (grid.shared / name).write_bytes(content)
        error = call(job_of(grid, cell))
        log = grid.log(cell).read_bytes()
        if error is not None:
            return Answer(error, None, log, {})
        left = {name: (grid.shared / name).read_bytes() for name in cell.leaves}
        return Answer(None, grid.path(cell).read_bytes(), log, left)


def _answer(ray: Any, reference: Any) -> Answer:
    """What a task hands back, or how it died."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        line = f"its process died ({type(error).__name__})"
        return Answer(line, None, f"{line}\n{error}\n".encode(), {})


def keep(grid: Grid, cell: Cell, answer: Answer) -> str | None:
    """Write what a task handed back, the result last; returns its error."""
    for folder in (grid.shared, grid.path(cell).parent):
        folder.mkdir(parents=True, exist_ok=True)
    grid.log(cell).write_bytes(answer.log)
    contents = {grid.shared / name: content for name, content in answer.left.items()}
    if answer.result is not None:
        contents[grid.path(cell)] = answer.result
    for path, content in contents.items():
        with replace_when_written(path) as partial:
            partial.write_bytes(content)
    return answer.error
