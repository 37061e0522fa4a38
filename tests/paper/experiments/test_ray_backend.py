"""The same grid on Ray: a task that fails or is killed is reported and stops nothing; nodes share no folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import r2d2net as rn
from paper.experiments import ray_jobs
from r2d2net.paper.experiments import ray_backend
from r2d2net.paper.experiments.grid import Cell, Grid
from r2d2net.paper.experiments.process_backend import processes
from r2d2net.paper.experiments.ray_backend import ray_tasks
from r2d2net.paper.experiments.runner import Ended, Started, run_cells


def grid(folder, **options):
    """Three cells, then one that needs the files of two, and one that needs a cell which dies."""
    cells = []
    for i, needs in enumerate([(), (), (), ("cell-0", "cell-2"), ("cell-1",)]):
        settings = {"name": f"cell-{i}", "seed": i} | {k: True for k, which in options.items() if which == i}
        cells.append(Cell(f"cell-{i}", settings, 1 if needs else 0, needs=needs, leaves=(f"cell-{i}",)))
    return Grid(cells, ray_jobs.work, folder)


def ended(events):
    return {event.key: event.error for event in events if isinstance(event, Ended)}


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(rn.ParameterError, match=r"^backend='ray' needs ray: pip install 'r2d2net\[ray\]'$"),
        ray_tasks(None, 1),
    ):
        pass


def test_a_task_works_in_a_folder_of_its_own(tmp_path):
    made, threads = grid(tmp_path), torch.get_num_threads()
    answer = ray_backend.work(made.cells[3], ray_jobs.work, {"cell-0": b"0", "cell-2": b"2"})
    torch.set_num_threads(threads)
    assert answer.left == {"cell-3": b"3"}
    assert ray_backend.keep(made, made.cells[3], answer) is None
    found = made.result(made.cells[3])
    assert found["result"]["found"] == [0, 2]
    assert not Path(found["result"]["place"]).exists()
    assert made.log(made.cells[3]).exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_grid_on_a_local_cluster(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]) + os.pathsep + os.environ.get("PYTHONPATH", ""))
    made = grid(tmp_path / "ray", dies=1, fails=2)
    with ray_tasks(None, 2) as backend:
        assert (backend.slots, backend.gpus) == (2, 0)
        events = list(run_cells(made, backend))
        errors = ended(events)
        assert errors["cell-1"].startswith("its process died (")
        assert errors == {
            "cell-0": None,
            "cell-1": errors["cell-1"],
            "cell-2": "ValueError: two lines",
            "cell-3": "needs cell-2, which failed",
            "cell-4": "needs cell-1, which failed",
        }
        assert [event.key for event in events if isinstance(event, Started)] == ["cell-0", "cell-1", "cell-2"]
        assert made.log(made.cells[0]).read_text() == "said cell-0\nwarned cell-0\n"
        assert "of trouble" in made.log(made.cells[2]).read_text()
        assert "its process died" in made.log(made.cells[1]).read_text()

        # once more, with nothing to stop it: what is there is kept, and all is as on this machine
        again, alone = grid(tmp_path / "ray"), grid(tmp_path / "alone")
        written = made.path(made.cells[0]).stat().st_mtime_ns
        assert set(ended(run_cells(again, backend))) == {"cell-1", "cell-2", "cell-3", "cell-4"}
        assert made.path(made.cells[0]).stat().st_mtime_ns == written
    with processes(1) as backend:
        assert ended(run_cells(alone, backend)) == {f"cell-{i}": None for i in range(5)}
    assert values(again) == values(alone) == {f"cell-{i}": 2 * i for i in range(5)}
    assert json.loads(again.path(again.cells[3]).read_text())["result"]["found"] == [0, 2]
    assert (again.shared / "cell-4").read_text() == "4"


def values(made):
    return {one["key"]: one["result"]["value"] for one in made.results()}


@pytest.mark.slow
def test_an_address_where_nobody_is(tmp_path):
    pytest.importorskip("ray")
    with (
        pytest.raises(rn.ParameterError, match=r"^address='127.0.0.1:1' cannot be used"),
        ray_tasks("127.0.0.1:1", 1),
    ):
        pass


DYING = """
import os, signal, sys, time
import ray
from r2d2net.errors import RankError
from r2d2net.paper.experiments.ray_backend import ray_tasks

with ray_tasks(None, 1) as backend:
    backend._running[ray.remote(num_cpus=1)(lambda: time.sleep(300)).remote()] = None, None
    (process,) = ray._private.worker._global_node.all_processes[sys.argv[1]]
    os.kill(process.process.pid, signal.SIGKILL)
    try:
        backend.wait()
    except RankError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_system_process_of_ray_that_dies_is_an_error_of_one_line(name):
    pytest.importorskip("ray")
    found = subprocess.run([sys.executable, "-c", DYING, name], capture_output=True, text=True, timeout=200)
    line = f"{name}, a process of Ray, has ended: run the command again: cells done are kept"
    assert line in found.stdout.splitlines(), found.stderr[-2000:]
