"""A fit that is killed goes on by `r2d2net fit --resume` and ends with the same model; other data are refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from r2d2net import checkpoint
from r2d2net.errors import Argument, CheckpointError
from r2d2net.tables.run_folder import ASIDE, PARTS, write_run
from table_runs import command, make_table

CHILD = """
import sys, torch
torch.set_num_threads(1)
import r2d2net.estimators.perceptron as base
base.CHECKPOINT_SECONDS = 0.0
from r2d2net.cli import main
main()
"""
OPTIONS = ["--target", "price", "--ignore", "kind", "--hidden", "5", "--epochs", "150", "--draws", "10", "--quiet"]


def killed_after_steps(path, arguments, steps):
    """Start a fit in a process of its own and kill it once its checkpoint is so far."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and child.poll() is None:
            try:
                if int(checkpoint.read(path)[0]["state/step"]) >= steps:
                    break
            except CheckpointError:
                time.sleep(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        error = child.communicate()[1]
    assert child.returncode == -signal.SIGKILL, error


@pytest.fixture
def data(tmp_path):
    make_table(120).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_killed_fit_goes_on_and_ends_with_the_same_model(data, tmp_path):
    run = tmp_path / "run"
    interrupted = run / "model" / "checkpoint.safetensors"
    killed_after_steps(interrupted, ["fit", data, *OPTIONS, "--out", run], steps=20)
    assert interrupted.exists()
    for ended in (command("predict", run, data), command("inspect", run)):
        assert ended.code == 2
        assert f"holds an unfinished run: go on by `r2d2net fit --resume {run}`" in ended.error
    original = data.read_text()
    data.write_text(original.replace("red", "blue", 1))
    ended = command("fit", "--resume", run)
    assert ended.code == 2
    assert "is not the file that" in ended.error
    data.unlink()
    assert "give its place" in command("fit", "--resume", run).error
    moved = tmp_path / "moved.csv"
    moved.write_text(original)
    assert "cannot be given with --resume" in command("fit", "--resume", run, "--epochs", "3").error
    ended = command("fit", moved, "--resume", run, "--quiet")
    assert ended.code == 0, ended.error
    assert not interrupted.exists()
    assert command("fit", moved, *OPTIONS, "--out", tmp_path / "alone").code == 0
    for name in ("model/posterior.safetensors", "novelty.safetensors"):
        ours, theirs = checkpoint.read(run / name)[0], checkpoint.read(tmp_path / "alone" / name)[0]
        assert ours.keys() == theirs.keys()
        assert all(bool((ours[key] == theirs[key]).all()) for key in ours), name
    for name in ("test_predictions.csv", "relevance.json", "history.json"):
        assert (run / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_killed_fit_that_replaces_a_run_leaves_nothing_of_it(data, tmp_path):
    run = tmp_path / "run"
    quick = ["--target", "price", "--hidden", "0", "--epochs", "1", "--quiet"]
    assert command("fit", data, *quick, "--out", run).code == 0
    killed_after_steps(
        run / "model" / "checkpoint.safetensors", ["fit", data, *OPTIONS, "--out", run, "--overwrite"], steps=1
    )
    assert (run / ".replaced" / "run.json").exists()
    assert command("fit", "--resume", run, "--quiet").code == 0
    assert not (run / ".replaced").exists()
    assert command("inspect", run, "--json").json["weights"] > 20


def run_folders(tmp_path):
    """A finished run, and a folder like one."""
    finished = tmp_path / "finished"
    make_table(60).to_csv(tmp_path / "data.csv", index=False)
    quick = ["fit", tmp_path / "data.csv", "--target", "price", "--hidden", "0", "--epochs", "1", "--quiet", "--out"]
    assert command(*quick, finished).code == 0
    return finished, quick


def test_an_older_run_outlives_every_moment_of_being_replaced(tmp_path):
    """Whatever part has been put aside when the process dies, the older run is there again at the next command."""
    finished, _ = run_folders(tmp_path)
    parts = sorted(path.name for path in finished.iterdir())
    for moved in range(1, len(PARTS) + 1):
        run = tmp_path / f"killed-{moved}"
        shutil.copytree(finished, run)
        (run / ASIDE).mkdir()
        for part in PARTS[:moved]:
            (run / part).rename(run / ASIDE / part)
        assert command("inspect", run, "--quiet").code == 0
        assert sorted(path.name for path in run.iterdir()) == parts


def test_an_older_run_outlives_a_second_attempt_that_is_refused(tmp_path):
    finished, quick = run_folders(tmp_path)
    before = (finished / "run.json").read_bytes()
    (finished / ASIDE).mkdir()
    for part in PARTS:
        (finished / part).rename(finished / ASIDE / part)
    unfinished = {**json.loads(before), "state": "fitting"}
    write_run(finished, unfinished)
    there = sorted(path.name for path in finished.iterdir())
    refused = command(*quick, finished, "--overwrite", "--algorithm", "map")  # before anything is done
    assert refused.code == 2
    assert sorted(path.name for path in finished.iterdir()) == there
    refused = command(*quick, finished, "--overwrite", "--patience", "1", "--validation", "0")  # when the fit begins
    assert refused.code == 2
    assert (finished / "run.json").read_bytes() == before
    assert command("inspect", finished, "--quiet").code == 0
    assert not (finished / ASIDE).exists()


def test_what_is_trained_outlives_a_full_disk(tmp_path, monkeypatch):
    make_table(60).to_csv(tmp_path / "data.csv", index=False)

    def full(*arguments, **options):
        raise CheckpointError("is full", argument="out", value="disk", fix=("make room in ", Argument("out")))

    monkeypatch.setattr("r2d2net.tables.novelty.Novelty.save", full)
    options = ["--target", "price", "--hidden", "0", "--epochs", "1", "--out", tmp_path / "run"]
    ended = command("fit", tmp_path / "data.csv", *options)
    assert "error: --out disk is full: make room in --out; then go on by `r2d2net fit --resume" in ended.error
    assert (tmp_path / "run" / "model" / "posterior.safetensors").exists()
    monkeypatch.undo()
    assert command("fit", "--resume", tmp_path / "run", "--quiet").code == 0
    assert command("inspect", tmp_path / "run", "--quiet").code == 0
