"""Jobs on several processes of this machine: one that fails or is killed is reported and does not stop the others.

A worker is a fresh process that takes one job after the other, each on one thread. If it dies (kill -9, out of memory)
its job has failed and another worker takes its place. Workers end with their parent.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from r2d2net.run.orphans import end_with


class Job(NamedTuple):
    """A call that can be sent to another process; what it prints goes to the log."""

    key: str
    function: Callable[..., None]  # of a module, so that it pickles
    arguments: tuple[Any, ...]
    log: Path


class Started(NamedTuple):
    """A job has been given to a worker."""

    key: str


class Ended(NamedTuple):
    """A job has come to its end."""

    key: str
    error: str | None  # one line; None if all went well
    seconds: float


def run_jobs(jobs: Sequence[Job], workers: int) -> Iterator[Started | Ended]:
    """Run all jobs on so many processes and tell how they go."""
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(jobs))
    crew: list[_Worker] = []
    try:
        crew.extend(_Worker(context) for _ in range(min(workers, len(jobs))))
        for worker in crew:
            yield worker.give(waiting.pop())
        while any(worker.job is not None for worker in crew):
            ready = wait([handle for worker in crew if worker.job is not None for handle in worker.handles])
            for index, worker in enumerate(crew):
                if worker.job is None or not any(handle in ready for handle in worker.handles):
                    continue
                ended, lives = worker.ended()
                yield ended
                if not lives and waiting:
                    worker = crew[index] = _Worker(context)
                if waiting:
                    yield worker.give(waiting.pop())
    finally:
        for worker in crew:
            worker.dismiss()


class _Worker:
    """One process and the job it has."""

    def __init__(self, context: Any) -> None:
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self.job: Job | None = None
        self._since = 0.0

    @property
    def handles(self) -> tuple[Any, ...]:
        return self._pipe, self._process.sentinel

    def give(self, job: Job) -> Started:
        self.job, self._since = job, time.monotonic()
        with suppress(OSError):  # it is dead, which `ended` will report
            self._pipe.send(job)
        return Started(job.key)

    def ended(self) -> tuple[Ended, bool]:
        """How the job ended, and whether the worker lives."""
        assert self.job is not None
        key, seconds, self.job = self.job.key, time.monotonic() - self._since, None
        try:
            if self._pipe.poll():
                return Ended(key, self._pipe.recv(), seconds), True
        except (EOFError, OSError):
            pass  # it died before it could answer, or even before it had read its job
        self._process.join()
        return Ended(key, f"its process died with exit code {self._process.exitcode}", seconds), False

    def dismiss(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _work(pipe: Connection, parent: int) -> None:
    """A worker's life."""
    end_with(parent)
    torch.set_num_threads(1)
    while True:
        job: Job = pipe.recv()
        pipe.send(call(job))


def call(job: Job) -> str | None:
    """Do a job with its output in its log; returns one line if it failed."""
    with _into(job.log):
        try:
            job.function(*job.arguments)
        except Exception as error:  # whatever it is, it must not stop the others; the log has all of it
            traceback.print_exc()
            first = str(error).splitlines()[0] if str(error) else ""
            return f"{type(error).__name__}: {first}"
    return None


@contextmanager
def _into(log: Path) -> Iterator[None]:
    """Standard output and error of this process, at the level of the system, go to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    with open(log, "w", encoding="utf-8") as file:
        try:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            yield
        finally:
            for stream in streams:
                stream.flush()
            for descriptor, old in zip((1, 2), kept, strict=True):
                os.dup2(old, descriptor)
                os.close(old)
