"""Cells as tasks of a Ray cluster; all results and logs come back to the machine that runs the command.

A task works in a folder of its own on its node, so nodes share no files: it is handed the files that earlier cells left
for it and hands back its result, its log and the files it leaves. A task that fails or whose process is killed is
reported and does not stop the others; it is tried again only when the command is given once more, and then from the
start, since its checkpoints were on its node. Every node needs r2d2net and, under R2D2NET_DATA, the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from r2d2net.errors import RankError
from r2d2net.files import replace_when_written
from r2d2net.paper.experiments.cell_job import compute_and_log
from r2d2net.paper.experiments.grid import Cell, Compute, Grid
from r2d2net.run.ray_cluster import SECONDS, connected, require_alive


class Answer(NamedTuple):
    """What a task hands back."""

    error: str | None
    result: bytes | None  # the result file
    log: bytes
    left: dict[str, bytes]  # shared files by name


@contextmanager
def ray_tasks(address: str | None, workers: int | None, *, gpus: bool = False) -> Iterator[RayTasks]:
    """Connect to a cluster, or start one on this machine that ends afterwards.

    Args:
        address: The cluster; None for one of this machine.
        workers: Tasks at a time; None for one for each GPU, or for each core where there is none.
        gpus: Whether each task gets a GPU, where there are some.

    Yields:
        The backend.

    Raises:
        ParameterError: Ray is not installed, or there is no cluster at the address.
    """
    with connected(address, workers, "backend") as ray:
        resources = ray.cluster_resources()
        gpu_count = int(resources.get("GPU", 0)) if gpus else 0
        usual = gpu_count or int(resources.get("CPU", 1))
        backend = RayTasks(ray, usual if workers is None else workers, min(gpu_count, 1))
        try:
            yield backend
        finally:
            backend.cancel()


class RayTasks:
    """A backend of `run_cells` whose workers are tasks of the cluster that is connected."""

    def __init__(self, ray: Any, slots: int, gpus: int = 0) -> None:
        self.slots, self.gpus = slots, gpus  # gpus: of a task, 1 or 0
        self._ray = ray
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(work)
        self._running: dict[Any, tuple[Grid, Cell]] = {}

    def start(self, grid: Grid, cell: Cell) -> None:
        """Submit a cell, with the files that it needs."""
        self._running[self._task.remote(cell, grid.compute, needed(grid, cell))] = grid, cell

    def wait(self) -> Sequence[tuple[str, str | None]]:
        """Wait until a cell ends, write what it hands back, and return its key and error."""
        references: list[Any] = []
        while not references:
            self._require_alive()
            references, _ = self._ray.wait(list(self._running), num_returns=1, timeout=SECONDS)
        grid, cell = self._running.pop(references[0])
        return [(cell.key, keep(grid, cell, _answer(self._ray, references[0])))]

    def _require_alive(self) -> None:
        """Raise a `RankError` if a system process of the Ray that was started here has died."""
        try:
            require_alive(self._ray, "run the command again: cells done are kept")
        except RankError:
            self._running.clear()  # nobody is left who could be asked to stop them
            raise

    def cancel(self) -> None:
        """Stop all tasks that are running."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()


def needed(grid: Grid, cell: Cell) -> dict[str, bytes]:
    """Read the shared files that a cell needs.

    Args:
        grid: The grid of the cell.
        cell: The cell.

    Returns:
        The contents of the files by their names.
    """
    names = [name for other in grid.cells if other.key in cell.needs for name in other.leaves]
    return {name: (grid.shared / name).read_bytes() for name in names}


def work(cell: Cell, compute: Compute, files: dict[str, bytes]) -> Answer:
    """Compute a cell as a process of this machine does, in a folder that is removed afterwards.

    Args:
        cell: The cell.
        compute: The function that computes it.
        files: The shared files that it needs.

    Returns:
        What the task hands back.
    """
    torch.set_num_threads(1)
    with TemporaryDirectory(prefix="r2d2net-") as folder:
        grid = Grid([cell], compute, Path(folder))
        grid.shared.mkdir()
        for name, content in files.items():
            (grid.shared / name).write_bytes(content)
        error = compute_and_log(grid, cell)
        log = grid.log(cell).read_bytes()
        if error is not None:
            return Answer(error, None, log, {})
        left = {name: (grid.shared / name).read_bytes() for name in cell.leaves}
        return Answer(None, grid.path(cell).read_bytes(), log, left)


def _answer(ray: Any, reference: Any) -> Answer:
    """Return what a task handed back, or how it died."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        line = f"its process died ({type(error).__name__})"
        return Answer(line, None, f"{line}\n{error}\n".encode(), {})


def keep(grid: Grid, cell: Cell, answer: Answer) -> str | None:
    """Write what a task handed back, the result last.

    Args:
        grid: The grid of the cell.
        cell: The cell.
        answer: What the task handed back.

    Returns:
        The error of the task; None if it has a result.
    """
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
