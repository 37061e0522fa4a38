"""A grid ends with the same results whatever was killed on the way; what failed is reported and stops nothing."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import r2d2net as rn
from paper.experiments import jobs
from r2d2net import provenance
from r2d2net.paper.experiments.cell_job import compute_and_log, compute_cell, computed
from r2d2net.paper.experiments.grid import Cell, Grid, Place
from r2d2net.paper.experiments.process_backend import processes
from r2d2net.paper.experiments.runner import Ended, Started, run_cells, stages

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def grid(folder, cells=4, **options):
    """So many cells; options name the cell they are for."""
    made = []
    for i in range(cells):
        settings = {"name": f"cell-{i}", "seed": i} | {k: True for k, which in options.items() if which == i}
        made.append(Cell(f"cell-{i}", settings, stage=i // 3))
    return Grid(made, jobs.work, folder)


def run(made, workers=2):
    with processes(workers) as backend:
        return list(run_cells(made, backend))


def results(made):
    """All that is in the result files but when and how long."""
    kept = ("key", "settings", "seed", "versions", "commit", "result")
    return {one["key"]: {name: one[name] for name in kept} for one in made.results()}


def calls(folder, names="cell-*"):
    return {path.name: len(path.read_text()) for path in (folder / "shared").glob(names)}


def test_every_cell_has_a_result_and_a_log(tmp_path):
    made = grid(tmp_path)
    events = run(made)
    assert [event.key for event in events if isinstance(event, Started)] == [f"cell-{i}" for i in range(4)]
    assert all(event.error is None for event in events if isinstance(event, Ended))
    assert events.index(Started("cell-3")) == 6, "the second stage waits for the first"
    for i, cell in enumerate(made.cells):
        found = json.loads(made.path(cell).read_text())
        assert found["result"] == {"value": 2 * i}
        assert found["seed"] == i
        assert found["seconds"] > 0
        assert made.log(cell).read_text() == f"said cell-{i}\nwarned cell-{i}\n"
    assert not list((tmp_path / "runs").iterdir())
    assert run(made) == [], "finished cells are not done again"
    other = made._replace(cells=[made.cells[0]._replace(settings={"name": "cell-0", "seed": 7})])
    assert other.unfinished() == other.cells, "a result of other settings is no result"


def listed(settings, place):
    return {"there": sorted(path.name for path in place.run.iterdir())}


def test_checkpoints_of_a_cell_of_other_settings_are_cleared(tmp_path):
    cell = Cell("cell", {"seed": 1})
    run = tmp_path / "runs" / "cell"
    run.mkdir(parents=True)
    (tmp_path / "cells").mkdir()
    found = []
    for begun in ({"seed": 1}, {"seed": 2}):
        run.mkdir(exist_ok=True)
        (run / "settings.json").write_text(json.dumps(begun))
        (run / "checkpoint").write_text("")
        compute_cell(Grid([cell], listed, tmp_path), cell)
        found.append(json.loads((tmp_path / "cells" / "cell.json").read_text())["result"]["there"])
    assert found == [["checkpoint", "settings.json"], ["settings.json"]]


@pytest.fixture
def head(monkeypatch):
    """What git says is checked out; a test may change it."""
    said = ["commit-that-ran"]
    monkeypatch.setattr("subprocess.run", lambda words, **_: subprocess.CompletedProcess(words, 0, said[-1]))
    provenance._commit.cache_clear()
    yield said
    provenance._commit.cache_clear()


def test_a_result_names_the_commit_that_ran_and_not_a_later_one(tmp_path, head):
    def compute(settings, place):
        head.append("later-commit")
        return {}

    found = [computed(Cell("cell", {"seed": i}), compute, Place(tmp_path / "run", tmp_path)) for i in range(2)]
    assert [one["commit"] for one in found] == ["commit-that-ran"] * 2


def test_a_failure_is_reported_and_stops_nothing(tmp_path):
    made = grid(tmp_path, fails=1)
    ended = {event.key: event.error for event in run(made) if isinstance(event, Ended)}
    assert ended == {"cell-0": None, "cell-1": "ValueError: two lines", "cell-2": None, "cell-3": None}
    assert "of trouble" in made.log(made.cells[1]).read_text()
    assert [cell.key for cell in made.unfinished()] == ["cell-1"]


@POSIX
def test_a_killed_worker_takes_one_cell_with_it(tmp_path):
    made, alone = grid(tmp_path / "killed", dies=0), grid(tmp_path / "alone", dies=0)
    ended = {event.key: event.error for event in run(made, workers=1) if isinstance(event, Ended)}
    assert ended == {"cell-0": "its process died with exit code -9", "cell-1": None, "cell-2": None, "cell-3": None}
    assert [event.key for event in run(made)] == ["cell-0", "cell-0"]
    (alone.folder / "shared").mkdir(parents=True)
    (alone.folder / "shared" / "cell-0").write_text(".")  # it dies at its first call only
    run(alone)
    assert results(made) == results(alone)


@POSIX
@pytest.mark.parametrize(
    ("after", "lost"),
    [
        pytest.param(Started, "cell-0", id="before it has read its job"),
        pytest.param(Ended, "cell-1", id="before it is given its next"),
    ],
)
def test_a_worker_killed_at_rest_takes_one_cell_with_it(after, lost, tmp_path):
    ended, others = {}, multiprocessing.active_children()  # those of pools that earlier tests left
    with processes(1) as backend:
        for event in run_cells(grid(tmp_path, cells=3), backend):
            if isinstance(event, Ended):
                ended[event.key] = event.error
            if isinstance(event, after) and event.key == "cell-0":
                (worker,) = set(multiprocessing.active_children()) - set(others)
                worker.kill()
                worker.join()
    everything_well = dict.fromkeys(("cell-0", "cell-1", "cell-2"))
    assert ended == {**everything_well, lost: "its process died with exit code -9"}


@POSIX
def test_a_killed_parent_leaves_nobody_behind_and_nothing_undone(tmp_path):
    made, alone = grid(tmp_path / "killed", waits=2), grid(tmp_path / "alone", waits=2)
    program = f"""
from pathlib import Path
from paper.experiments.test_grid import grid, run
if __name__ == "__main__":
    run(grid(Path({str(made.folder)!r}), waits=2))
"""
    script = tmp_path / "parent.py"
    script.write_text(program)
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE) as parent:
        end = time.monotonic() + 120
        while not (made.folder / "runs" / "cell-2" / "begun").exists() or not made.path(made.cells[1]).exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        parent.kill()
        parent.communicate(timeout=60)  # the pipe's end is reached when all who hold it have ended
    assert [cell.key for cell in made.unfinished()] == ["cell-2", "cell-3"]
    for one in (made, alone):
        (one.folder / "shared").mkdir(parents=True, exist_ok=True)
        (one.folder / "shared" / "go").touch()
        run(one)
    assert results(made) == results(alone)
    assert calls(made.folder) == {"cell-0": 1, "cell-1": 1, "cell-2": 2, "cell-3": 1}


def test_a_file_that_is_no_result_is_one_clear_line(tmp_path):
    made = grid(tmp_path, cells=1)
    path = made.path(made.cells[0])
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", "{}", "\xff"):
        path.write_text(text, encoding="latin-1")
        line = r"cell-0.json (cannot be read|is no file of a grid) .*[:;] remove it and run `r2d2net reproduce` again$"
        with pytest.raises(rn.DataError, match=line):
            made.unfinished()


def chain(folder, **options):
    """A cell that leaves a file, one that needs it and one that needs nobody."""
    first = Cell("first", {"name": "first", "seed": 1, **options}, leaves=("first",))
    second = Cell("second", {"name": "second", "seed": 2}, 1, needs=("first",))
    return Grid([first, second, Cell("third", {"name": "third", "seed": 3}, 1)], jobs.work, folder)


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def here(made):
    """Run a grid in this process: key -> error."""
    ended = {}
    for stage in stages(made):
        ended |= {one.key: one.error for one in stage.hopeless}
        ended |= {cell.key: compute_and_log(made, cell) for cell in stage.cells}
    return ended


@pytest.mark.usefixtures("one_thread")
def test_a_cell_that_needs_one_which_failed_is_not_begun(tmp_path):
    ended = here(chain(tmp_path, fails=True))
    assert ended == {"first": "ValueError: two lines", "second": "needs first, which failed", "third": None}
    assert calls(tmp_path, "*") == {"first": 1, "third": 1}


@pytest.mark.usefixtures("one_thread")
def test_a_lost_file_is_made_again_only_if_somebody_needs_it(tmp_path):
    made = chain(tmp_path)
    assert here(made) == {"first": None, "second": None, "third": None}
    (made.shared / "first").unlink()
    assert made.unfinished() == []
    made.path(made.cells[1]).unlink()
    assert [cell.key for cell in made.unfinished()] == ["first", "second"]
    assert here(made) == {"first": None, "second": None}
    assert made.unfinished() == []


def test_only_keeps_what_the_wanted_cells_need(tmp_path):
    made = chain(tmp_path)
    assert [cell.key for cell in made.only(["second"]).cells] == ["first", "second"]
    assert [cell.key for cell in made.only(["third", "fir"]).cells] == ["first", "third"]
    assert made.only([]) == made
    with pytest.raises(rn.ParameterError, match=r"only='x,y' matches no cell: use parts of keys, such as third"):
        made.only(["x", " fir", "y"])
