"""Several runs: the best by validation is returned, whatever ran where, and whatever was interrupted."""

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import killed_runs
import r2d2net as rn
from architectures import mlp
from r2d2net.errors import CheckpointError, DivergenceError, ParameterError
from r2d2net.inference.variational import MeanField
from r2d2net.run import orphans, side_by_side
from r2d2net.run import several_runs as module
from r2d2net.run import train as runs

FAST = {"epochs": 3, "batch_size": 15, "seed": 1, "verbose": False}
NET = mlp()


def data(rows=60):
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(1))
    return x, 10 + 3 * x[:, 0] + x[:, 1].sin()


def fit(source=None, net=NET, **options):
    return rn.fit(rn.BayesianModel(net), data() if source is None else source, **{**FAST, "jobs": 1, **options})


def same(one, other):
    return torch.equal(one.state.mean, other.state.mean) and torch.equal(one.state.rho, other.state.rho)


@pytest.fixture
def one_by_one(monkeypatch):
    """Runs of small perceptrons one by one, as those of other networks; `test_side_by_side` has them side by side."""
    monkeypatch.setattr(module, "groups_of", lambda plans: [[index] for index in range(len(plans))])


def scores(posterior):
    return [entry["validation"] for entry in posterior.candidates]


# --- the choice


def test_the_least_validation_score_is_returned_and_restart_0_is_the_single_run(tmp_path):
    """The score is that of the returned state at 100 draws; 4 runs, of which the first is not the best."""
    held = data(80)[0][60:], data(80)[1][60:]
    best = fit(restarts=4, validation=held, seed=3)
    assert len(set(scores(best))) == 4
    assert [entry["restart"] for entry in best.candidates] == [0, 1, 2, 3]
    chosen = best.settings["restart"]
    assert min(range(4), key=scores(best).__getitem__) == chosen > 0
    assert min(scores(best)) == pytest.approx(-float(best.predict(held[0]).log_prob(held[1]).mean()), rel=1e-6)
    first = fit(validation=held, seed=3)
    assert first.candidates == []
    expected = -float(first.predict(held[0]).log_prob(held[1]).mean())
    # runs side by side are those one by one up to rounding, which grows over the steps
    assert scores(best)[0] == pytest.approx(expected, rel=1e-4)
    assert scores(fit(restarts=2, validation=held, seed=3)) == pytest.approx(scores(best)[:2], rel=1e-4)
    best.save(tmp_path)
    assert rn.load(tmp_path, NET).candidates == best.candidates


def test_restart_0_is_the_single_run_to_the_bit(monkeypatch, one_by_one):
    monkeypatch.setattr(runs, "validation_score", lambda source, *_: float(source.state.step > 0))  # a tie
    chosen = fit(restarts=2, validation=0.2, patience=None)
    assert chosen.settings["restart"] == 0
    assert same(chosen, fit(validation=0.2))


def test_a_tenth_of_the_rows_is_held_out_where_no_validation_is_given():
    posterior = fit(restarts=2)
    assert (posterior.settings["n"], posterior.settings["validation"]) == (54, 0.1)
    assert scores(fit(restarts=2, validation=0.1)) == scores(posterior)
    assert len(fit(restarts=2, patience=1).history) <= 3


def test_processes_give_the_same_bits():
    loader = DataLoader(TensorDataset(*data()), batch_size=15, shuffle=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for source, options in ((data(), {"prior": "auto"}), (loader, {"validation": data(), "batch_size": None})):
            here, there = (fit(source, restarts=2, jobs=jobs, **options) for jobs in (1, 2))
            assert here.candidates == there.candidates
            assert same(here, there)
            assert here.history == there.history
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


class Locked(Dataset):
    """Data that do not pickle."""

    def __init__(self):
        self.lock, (self.x, self.y) = threading.Lock(), data()

    def __len__(self):
        return 60

    def __getitem__(self, row):
        return self.x[row], self.y[row]


def test_data_that_do_not_pickle_stay_in_this_process():
    options = {"restarts": 2, "validation": data(), "epochs": 1}
    with pytest.raises(ParameterError, match=r"^jobs=2: model or data do not pickle \(.*\); use jobs=1$"):
        fit(Locked(), jobs=2, **options)
    assert same(fit(Locked(), **options), fit(Locked(), jobs=None, **options))


# --- failures


def test_a_run_that_fails_is_out(monkeypatch, tmp_path, one_by_one):
    train, failing = module.train, {0}

    def spoilt(plan, *arguments, **options):
        if plan.settings["restart"] in failing:
            raise DivergenceError("training diverged at step 3", fix="use a smaller step")
        return train(plan, *arguments, **options)

    monkeypatch.setattr(module, "train", spoilt)
    posterior = fit(restarts=2)
    assert posterior.settings["restart"] == 1
    assert posterior.candidates[0] == {
        "prior": "given", "restart": 0, "validation": None, "error": "training diverged at step 3: use a smaller step"
    }  # fmt: skip
    failing.add(1)
    with pytest.raises(DivergenceError, match=r"^all 2 runs failed; the first: training diverged at step 3;") as caught:
        fit(restarts=2, resume=tmp_path)
    assert caught.value.fix == "use a smaller step"
    failing.clear()
    fit(restarts=2, resume=tmp_path)
    monkeypatch.setattr(runs, "validation_score", lambda *_: math.nan)
    with pytest.raises(DivergenceError, match=r"^all 2 runs failed; the first: its validation score is nan$"):
        fit(restarts=2)


# --- priors


def test_auto_tries_two_priors_on_a_network_and_one_on_a_linear_model(tmp_path):
    posterior = fit(prior="auto", checkpoint_to=tmp_path)
    assert [entry["prior"] for entry in posterior.candidates] == ["adaptive", "adaptive-without-floor"]
    best = min(posterior.candidates, key=lambda entry: entry["validation"])["prior"]
    expected = rn.priors.R2D2.adaptive(floor=best == "adaptive")
    for one in (posterior, rn.load(tmp_path, NET)):
        priors = {slot.name: repr(slot.prior) for slot in one.model.bayesian}
        assert priors["0.weight"] == priors["2.weight"] == repr(expected)
        assert priors["0.bias"] == repr(rn.priors.Gaussian(1.0))
    linear = fit(net=nn.Sequential(nn.Flatten(), nn.Linear(3, 1)), prior="auto")
    assert linear.candidates == []
    assert linear.settings["n"] == 60
    assert repr(linear.model.bayesian[0].prior) == repr(rn.priors.R2D2.adaptive())
    assert len(fit(net=nn.Linear(3, 1), prior="auto", restarts=2).candidates) == 2


# --- interruptions (`test_resume.py` also kills runs of two starts at random moments)


POSIX = pytest.mark.skipif(os.name != "posix", reason="kills processes")


class Killed(BaseException):
    """Stands for SIGKILL inside this process."""


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@POSIX
def test_a_process_ends_with_its_parent():
    program = """
import os, time
from r2d2net.run.orphans import end_with
parent = os.getpid()
if os.fork() == 0:
    end_with(parent)
print("ready", flush=True)
time.sleep(120)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert [child.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        child.kill()
        child.communicate(timeout=60)  # the pipe's end is reached when all who hold it have ended


@POSIX
def test_killed_while_two_processes_run(tmp_path):
    options = {"epochs": 10, "jobs": 2}
    program = f"import killed_runs; killed_runs.run('restarts', 'svgi', resume={str(tmp_path / 'run')!r}, **{options})"
    environment = {**os.environ, "PYTHONPATH": str(Path(killed_runs.__file__).parent)}
    place = tmp_path / "run" / module.FOLDER
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as child:
        wait_for(lambda: list(place.glob("*/checkpoint.safetensors")))
        child.kill()
    assert child.returncode == -9
    time.sleep(2 * orphans.SECONDS)
    resumed = killed_runs.run("restarts", "svgi", resume=tmp_path / "run", **{**options, "jobs": 1})
    alone = killed_runs.run("restarts", "svgi", **{**options, "jobs": 1})
    assert same(resumed, alone)
    assert resumed.candidates == alone.candidates
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["manifest.json", "posterior.safetensors"]


def test_a_resumed_choice_repeats_nothing(tmp_path, monkeypatch, one_by_one):
    """Killed in step 15 of two runs of 9 steps with a checkpoint after each: four are left."""
    step, left, grouped = MeanField.step, 14, module.groups_of

    def counted(*arguments):
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return step(*arguments)

    monkeypatch.setattr(MeanField, "step", counted)
    options = {"restarts": 2, "resume": tmp_path, "checkpoint_every": 0}
    with pytest.raises(Killed):
        fit(**options)
    left = 4
    resumed = fit(**options)
    monkeypatch.undo()
    monkeypatch.setattr(module, "groups_of", grouped)
    alone = fit(restarts=2)
    assert same(resumed, alone)
    assert resumed.candidates == alone.candidates


def test_a_finished_choice_is_returned_and_another_is_refused(tmp_path, monkeypatch):
    first = fit(restarts=2, resume=tmp_path)
    (tmp_path / module.FOLDER).mkdir()  # as a kill between the last save and the tidying leaves it
    monkeypatch.setattr(module, "train", None)
    assert same(fit(restarts=2, resume=tmp_path), first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "posterior.safetensors"]
    for other, message in (({"restarts": 3}, "restarts=2, here restarts=3"), ({}, "restarts=2, here restarts=1")):
        with pytest.raises(CheckpointError, match=message):
            fit(resume=tmp_path, **other)


def test_an_interrupted_choice_is_no_single_run_nor_the_reverse(tmp_path, monkeypatch):
    def killed(*arguments, **options):
        raise Killed

    monkeypatch.setattr(runs, "_loop", killed)
    monkeypatch.setattr(side_by_side, "_loop", killed)
    for options in ({"restarts": 2}, {"prior": "auto"}, {}):
        with pytest.raises(Killed):
            fit(checkpoint_to=tmp_path, **options)
        with pytest.raises(CheckpointError, match="interrupted run: finish it by fit"):
            rn.load(tmp_path, NET)
        for others in ({"restarts": 2}, {"prior": "auto"}, {}):
            same_run = others == options
            expected = (Killed, None) if same_run else (CheckpointError, "another run: it has (prior|restarts)")
            with pytest.raises(expected[0], match=expected[1]):
                fit(resume=tmp_path, **others)
