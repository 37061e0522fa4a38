"""Several runs on a Ray cluster: the bits of runs on this machine, and clear ends."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference.base import flatten


def fitted(**options: Any) -> rn.Posterior[Any]:
    """Return the best of ten restarts, which are made in two groups."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, 4, generator=generator)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    options = {"restarts": 10, "epochs": 2, "seed": 4, **options}
    return rn.fit(rn.BayesianModel(net), (x, x[:, 0] - 2 * x[:, 1]), **options)


class Here(types.SimpleNamespace):
    """Ray as far as a fit uses it: each task is made in this process once it is waited for."""

    def __init__(self, dies: int | None = None) -> None:
        self.tasks: list[Any] = []
        self.cancelled: list[Any] = []
        self.dies = dies
        names = "RayError", "RayTaskError"
        super().__init__(exceptions=types.SimpleNamespace(**{n: type(n, (Exception,), {}) for n in names}))

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, **options: Any) -> Any:
        assert options == {"num_cpus": 1, "max_retries": 0}

        def submit(*arguments: Any) -> int:
            self.tasks.append(arguments)
            return len(self.tasks) - 1

        return lambda function: types.SimpleNamespace(remote=lambda *words: submit(function, *words))

    def wait(self, references: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        return references[-1:], references[:-1]

    def get(self, reference: int, timeout: float) -> Any:
        if reference == self.dies:
            raise self.exceptions.RayError("WorkerCrashed")
        function, *words = self.tasks[reference]
        return function(*words)

    def cancel(self, reference: int, *, force: bool) -> None:
        self.cancelled.append(reference)


def bits(posterior: rn.Posterior[Any]) -> dict[str, torch.Tensor]:
    return flatten(posterior.state)


def test_runs_on_ray_have_the_bits_of_runs_here_and_are_kept(monkeypatch, tmp_path) -> None:
    ray = Here()
    monkeypatch.setitem(sys.modules, "ray", ray)
    there, here = fitted(cluster="ray", resume=tmp_path / "run"), fitted(jobs=1)
    assert len(ray.tasks) == 2  # of side-by-side runs, up to eight in each
    assert there.candidates == here.candidates
    for (name, a), b in zip(bits(there).items(), bits(here).values(), strict=True):
        assert torch.equal(a, b), name
    fitted(cluster="ray", resume=tmp_path / "run")
    assert len(ray.tasks) == 2  # what is finished is not made again


def test_a_task_that_dies_ends_the_fit_in_one_line_and_stops_the_others(monkeypatch, tmp_path) -> None:
    ray = Here(dies=1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(rn.RankError, match=r"^the process of task 2 of 2 on Ray died \(RayError\): call fit again"):
        fitted(cluster="ray", resume=tmp_path)
    assert ray.cancelled == [0]


def test_what_a_cluster_cannot_do_is_refused_in_one_line(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Here())
    with pytest.raises(rn.ParameterError, match=r"^cluster='ray': this is one run; start it under Ray Train"):
        fitted(cluster="ray", restarts=1)
    with pytest.raises(rn.ParameterError, match=r"^cluster='spark' is out of range: use 'ray' or None$"):
        fitted(cluster="spark")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(rn.ParameterError, match=r"^cluster='ray' needs ray: pip install 'r2d2net\[ray\]'$"):
        fitted(cluster="ray")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_local_cluster_has_the_bits_of_processes() -> None:
    pytest.importorskip("ray")
    there, here = fitted(cluster="ray", jobs=2), fitted(jobs=2)
    assert there.candidates == here.candidates
    for (name, a), b in zip(bits(there).items(), bits(here).values(), strict=True):
        assert torch.equal(a, b), name


DYING = """
import os, signal, sys, threading, time
import ray, torch
from torch import nn
import r2d2net as rn

def kill():
    while not ray.is_initialized():
        time.sleep(0.1)
    time.sleep(5)
    (process,) = ray._private.worker._global_node.all_processes[sys.argv[1]]
    os.kill(process.process.pid, signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
x = torch.randn(400, 4)
try:
    rn.fit(rn.BayesianModel(nn.Linear(4, 1)), (x, x[:, 0]), rn.inference.SGLD(chains=2), epochs=20_000, cluster="ray")
except rn.RankError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_system_process_of_ray_that_dies_ends_the_fit_in_one_line(name) -> None:
    pytest.importorskip("ray")
    found = subprocess.run([sys.executable, "-c", DYING, name], capture_output=True, text=True, timeout=300)
    line = f"{name}, a process of Ray, has ended: call fit again: with resume, the runs that are done are kept"
    assert line in found.stdout.splitlines(), found.stderr[-2000:]
