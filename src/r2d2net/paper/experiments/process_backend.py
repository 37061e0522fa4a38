"""Cells on processes of this machine: one that fails or is killed is reported and does not stop the others.

A worker is a fresh process that computes one cell after the other, each on one thread. If it dies (kill -9, out of
memory), its cell has failed and another worker takes its place. Workers end with their parent.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from r2d2net.paper.experiments.cell_job import compute_and_log
from r2d2net.paper.experiments.grid import Cell, Grid
from r2d2net.run.orphans import end_with


@contextmanager
def processes(slots: int) -> Iterator[Processes]:
    """Provide workers, which are killed in the end.

    Args:
        slots: Number of processes at a time; they are started when they are needed.

    Yields:
        The backend.
    """
    backend = Processes(slots)
    try:
        yield backend
    finally:
        backend.kill()


class Processes:
    """A backend of `run_cells` whose workers are processes of this machine."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []

    def start(self, grid: Grid, cell: Cell) -> None:
        """Give a cell to a worker without one, or to a new one."""
        worker = next((worker for worker in self._workers if worker.key is None), None)
        if worker is None:
            worker = _Worker(self._context)
            self._workers.append(worker)
        worker.give(grid, cell)

    def wait(self) -> Sequence[tuple[str, str | None]]:
        """Wait until cells end, and return their keys and errors; workers that have died are dismissed."""
        busy = [worker for worker in self._workers if worker.key is not None]
        ready = wait([handle for worker in busy for handle in worker.handles])
        ended = []
        for worker in busy:
            if any(handle in ready for handle in worker.handles):
                ended.append(worker.take())
                if worker.is_dead:
                    worker.kill()
                    self._workers.remove(worker)
        return ended

    def kill(self) -> None:
        """End all workers, whatever they do."""
        while self._workers:
            self._workers.pop().kill()


class _Worker:
    """A process, and the key of the cell that it computes."""

    def __init__(self, context: Any) -> None:
        self._pipe, child_pipe = context.Pipe()
        self._process = context.Process(target=_work, args=(child_pipe, os.getpid()), daemon=True)
        self._process.start()
        child_pipe.close()
        self.key: str | None = None
        self.is_dead = False

    @property
    def handles(self) -> tuple[Any, ...]:
        return self._pipe, self._process.sentinel

    def give(self, grid: Grid, cell: Cell) -> None:
        self.key = cell.key
        with suppress(OSError):  # it is dead, which `take` reports
            self._pipe.send((grid._replace(cells=[cell]), cell))

    def take(self) -> tuple[str, str | None]:
        """Return the key of the cell that ended, and its error."""
        assert self.key is not None
        key, self.key = self.key, None
        try:
            if self._pipe.poll():
                return key, self._pipe.recv()
        except (EOFError, OSError):
            pass  # it died before it could answer, or even before it had read its cell
        self._process.join()
        self.is_dead = True
        return key, f"its process died with exit code {self._process.exitcode}"

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _work(pipe: Connection, parent: int) -> None:
    """Compute cells until the parent ends."""
    end_with(parent)
    torch.set_num_threads(1)
    while True:
        pipe.send(compute_and_log(*pipe.recv()))
