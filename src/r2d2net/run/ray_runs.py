"""Runs of one fit as tasks of a Ray cluster: `fit(..., cluster="ray")`.

A task makes an ordinary run in a folder of its own on its node, by one thread, and hands back its finished folder: the
result is bitwise that of processes on one machine. Nodes share no files, so a run that was interrupted on its node
begins again; those that are finished in the folder of the fit are not made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from r2d2net.errors import ParameterError, RankError
from r2d2net.posterior import FILE
from r2d2net.run.rank_folders import packed, unpack
from r2d2net.run.ray_cluster import SECONDS, connected, dead_process, imported_ray, require_alive

if TYPE_CHECKING:
    from r2d2net.run.train import Plan

EVERY = 2.0  # seconds between two looks at whether Ray lives
AGAIN = "call fit again: with resume, the runs that are done are kept"
Run = Callable[[Sequence["Plan"], Sequence[Path], bool], list[Any]]


def require_cluster(cluster: str, device: str, runs: int, ranks: int) -> None:
    """Refuse a cluster for what cannot be spread over it.

    Args:
        cluster: What the user asks for.
        device: Type of the model's device.
        runs: Number of runs of the fit.
        ranks: Number of processes that make it.

    Raises:
        ParameterError: If it cannot.
    """
    imported_ray("cluster")
    problem: Any = None
    fix: Any = "leave it out"
    if runs == 1:
        problem = ": this is one run"
        fix = "start it under Ray Train for several workers, as the documentation of several machines shows"
    elif ranks > 1:
        problem = f": the runs are spread over {ranks} processes already"
    elif device != "cpu":
        problem = f": the model is on {device}, and tasks are for the CPU"
    if problem is not None:
        raise ParameterError(problem, argument="cluster", value=cluster, fix=fix)


def outcomes_on_ray(
    run: Run, parts: Sequence[tuple[Sequence[Plan], Sequence[Path]]], jobs: int | None, quiet: bool
) -> Iterator[tuple[int, list[Any]]]:
    """Make groups of runs on a cluster: one that is connected, that RAY_ADDRESS names, or one of this machine.

    Args:
        run: Makes a group of runs in given folders.
        parts: Plans and folders of each group.
        jobs: Tasks at a time; None for the CPUs of the cluster.
        quiet: Whether warnings of the runs are not shown.

    Yields:
        The number of a group and what its runs returned, as they end.

    Raises:
        RankError: If a task's process, or a process of Ray itself, dies.
    """
    left = []
    for number, (plans, folders) in enumerate(parts):
        if all((folder / FILE).exists() for folder in folders):
            yield number, run(plans, folders, quiet)  # reads what is there
        else:
            left.append(number)
    if not left:
        return
    with _cluster(None if jobs is None else min(jobs, len(left))) as ray:
        slots = int(ray.cluster_resources().get("CPU", 1)) if jobs is None else jobs
        task = ray.remote(num_cpus=1, max_retries=0)(work)
        running: dict[Any, int] = {}
        try:
            while left or running:
                while left and len(running) < max(1, slots):
                    number = left.pop(0)
                    running[task.remote(run, list(parts[number][0]), quiet)] = number
                require_alive(ray, AGAIN)
                ended, _ = ray.wait(list(running), num_returns=1, timeout=EVERY)
                for reference in ended:
                    number = running.pop(reference)
                    outcomes, contents = _answer(ray, reference, number, len(parts))
                    for folder, content in zip(parts[number][1], contents, strict=True):
                        if content is not None:
                            unpack(content, folder)
                    yield number, outcomes
        finally:
            if dead_process(ray) is None:  # else nobody is left who could be asked to stop them
                for reference in running:
                    ray.cancel(reference, force=True)


def work(run: Run, plans: Sequence[Plan], quiet: bool) -> tuple[list[Any], list[bytes | None]]:
    """Make a group of runs in a folder that is removed afterwards; return their ends and their finished folders."""
    with TemporaryDirectory(prefix="r2d2net-") as place:
        folders = [Path(place) / str(number) for number in range(len(plans))]
        outcomes = run(plans, folders, quiet)
        return outcomes, [packed(folder) if (folder / FILE).exists() else None for folder in folders]


@contextmanager
def _cluster(workers: int | None) -> Iterator[Any]:
    """Give the cluster that the script is connected to, or connect to one as long as the block lasts."""
    ray = imported_ray("cluster")
    if ray.is_initialized():
        yield ray
        return
    with connected(os.environ.get("RAY_ADDRESS") or None, workers, "cluster") as ray:
        yield ray


def _answer(ray: Any, reference: Any, number: int, count: int) -> tuple[list[Any], list[bytes | None]]:
    try:
        answer: tuple[list[Any], list[bytes | None]] = ray.get(reference, timeout=SECONDS * 60)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        require_alive(ray, AGAIN)
        problem = f"the process of task {number + 1} of {count} on Ray died ({type(error).__name__})"
        raise RankError(problem, fix=AGAIN) from error
    return answer
