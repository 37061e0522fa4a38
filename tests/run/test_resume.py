"""A run killed at any moment and resumed ends bitwise where the uninterrupted one ends; anything else is an error."""

import math
import random
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import killed_runs
import r2d2net as rn
from r2d2net import checkpoint
from r2d2net.errors import CheckpointError, DivergenceError, ParameterError
from r2d2net.inference.variational import MeanField

SCRIPT = killed_runs.__file__
FAST = {"epochs": 3, "batch_size": 12, "seed": 1, "verbose": False}


class Killed(BaseException):
    """Stands for SIGKILL inside this process."""


@contextmanager
def killed_after(steps):
    """Expect the run inside to be stopped in the step after so many, as a kill would."""
    step, count = MeanField.step, 0

    def dying(*arguments):
        nonlocal count
        count += 1
        if count > steps:
            raise Killed
        return step(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MeanField, "step", dying)
        with pytest.raises(Killed):
            yield


def network(activation=nn.Tanh):
    return nn.Sequential(nn.Linear(2, 3), activation(), nn.Linear(3, 1))


def data(rows=36, shift=0.0):
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(1))
    return x, 10 + 3 * x[:, 0] + x[:, 1].sin() + shift


def contents(folder):
    """All that a finished run left, but for the time of writing."""
    tensors, header = checkpoint.read(folder / "posterior.safetensors")
    kept = {name: header[name] for name in ("settings", "history", "candidates", "seed")}
    return {k: v.view(-1).view(torch.uint8).tolist() for k, v in tensors.items()}, kept


@pytest.fixture
def interrupted(tmp_path):
    """A run stopped in its second epoch, and its folder."""
    with killed_after(4):
        rn.fit(rn.BayesianModel(network()), data(), resume=tmp_path / "run", checkpoint_every=0, **FAST)
    return tmp_path / "run"


# --- bitwise


def assert_all_ended_alike(folder, case):
    runs = sorted(folder.glob("killed*"))
    assert runs
    alone = contents(folder / "alone")
    x, net = killed_runs.data(case)[0], killed_runs.network(case)
    samples = rn.load(folder / "alone", net).predict(x, 10).samples
    for one in runs:
        assert contents(one) == alone, one
        assert torch.equal(rn.load(one, net).predict(x, 10).samples, samples), one
        assert sorted(path.name for path in one.iterdir()) == ["manifest.json", "posterior.safetensors"]


@pytest.mark.parametrize("algorithm", killed_runs.ALGORITHMS)
def test_killed_runs_end_bitwise_where_they_would_have(tmp_path, algorithm):
    kills = 10 if algorithm in killed_runs.OURS else 5
    command = [sys.executable, SCRIPT, "often", tmp_path, algorithm, str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    for case, line in zip(killed_runs.cases(algorithm), done.stdout.splitlines(), strict=True):
        assert sum(int(part.split("=")[1]) for part in line.split(", ")[1:]) == kills, line
        assert_all_ended_alike(tmp_path / case, case)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "case"), [(a, case) for a in killed_runs.ALGORITHMS for case in killed_runs.cases(a)]
)
def test_fresh_processes_killed_at_random_times(tmp_path, algorithm, case):
    draw = random.Random(f"slow {algorithm} {case}")
    killed_runs.run(case, algorithm).save(tmp_path / "alone")
    runs, kills = 0, 0
    while True:
        command = [sys.executable, SCRIPT, "once", tmp_path / f"killed-{runs}", algorithm, case]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            if kills < 10:
                time.sleep(draw.uniform(0, 0.5))
                child.kill()
        if child.returncode == 0 and kills >= 10:
            break
        if child.returncode == 0:
            runs += 1
        else:
            assert child.returncode == -9
            kills += 1
    assert_all_ended_alike(tmp_path, case)


@pytest.mark.parametrize("every", [0, "epoch", 1e9])
@pytest.mark.parametrize("kind", ["dataset", "loader"])
def test_streams_resume_too(tmp_path, kind, every):
    dataset = TensorDataset(*data())
    options = {"epochs": 3, "seed": 1, "verbose": False, "validation": data(8), "checkpoint_every": every}
    options |= {"batch_size": 10} if kind == "dataset" else {}

    def fit(**more):
        torch.manual_seed(random.randrange(1000))  # the global state must not matter
        source = dataset if kind == "dataset" else DataLoader(dataset, batch_size=10, shuffle=True)
        return rn.fit(rn.BayesianModel(network()), source, rn.inference.SVGI(sweep_every=2), **options, **more)

    fit().save(tmp_path / "alone")
    for after in (2, 1, 0):
        with killed_after(after):
            fit(resume=tmp_path / "killed")
    fit(resume=tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(tmp_path / "alone")


def test_global_generator_is_neither_used_nor_moved():
    net = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    samples = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        loader = DataLoader(TensorDataset(*data()), batch_size=10, shuffle=True)
        for source, size in ((loader, None), (data(), 12)):
            options = {"epochs": 2, "batch_size": size, "seed": 1, "validation": data(8), "verbose": False}
            samples.append(rn.fit(rn.BayesianModel(net), source, **options).predict(data()[0]).samples)
        assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(samples[0], samples[2])
    assert torch.equal(samples[1], samples[3])
    other = rn.fit(rn.BayesianModel(net), data(), epochs=2, batch_size=12, seed=2, verbose=False)
    assert not torch.equal(samples[1], other.predict(data()[0]).samples)


def test_checkpoints_do_not_change_the_run(tmp_path):
    model = rn.BayesianModel(network(), prior=rn.priors.R2D2.adaptive())
    rn.fit(model, data(), **FAST).save(tmp_path / "alone")
    for every in (0, "epoch", 0.01, 1e9):
        rn.fit(model, data(), checkpoint_to=tmp_path / "with", checkpoint_every=every, **FAST)
        assert contents(tmp_path / "with") == contents(tmp_path / "alone")
        assert sorted(path.name for path in (tmp_path / "with").iterdir()) == ["manifest.json", "posterior.safetensors"]


def test_tuples_in_settings_survive(tmp_path):
    model = rn.BayesianModel(network(), prior=rn.priors.R2D2.adaptive())
    rn.fit(model, data(), **FAST).save(tmp_path / "alone")
    with killed_after(2):
        rn.fit(model, data(), resume=tmp_path / "killed", checkpoint_every=0, **FAST)
    rn.fit(model, data(), resume=tmp_path / "killed", **FAST)
    assert contents(tmp_path / "killed") == contents(tmp_path / "alone")


# --- when checkpoints are written


@pytest.mark.parametrize(("every", "written"), [(0, 10), ("epoch", 4), (1e9, 1), (3, 5)])
def test_when_checkpoints_are_written(tmp_path, monkeypatch, every, written):
    from r2d2net.run import train as module

    clock, stored, store = iter(range(10_000)), [], module.store
    monkeypatch.setattr(module.time, "monotonic", lambda: 2 * next(clock))

    def counting(folder, run, *arguments):
        stored.append((run.epoch, run.batch))
        store(folder, run, *arguments)

    monkeypatch.setattr(module, "store", counting)
    rn.fit(rn.BayesianModel(network()), data(), checkpoint_to=tmp_path, checkpoint_every=every, **FAST)
    assert len(stored) == written
    assert stored[0] == (0, 0)
    if every == "epoch":
        assert stored == [(0, 0), (1, 0), (2, 0), (3, 0)]
    if every == 3:  # the clock strikes twice a step: in the middle of epochs too
        assert stored == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]


@pytest.mark.parametrize("every", ["step", -1, math.nan, None])
def test_wrong_checkpoint_every(every):
    with pytest.raises(ParameterError, match=r"checkpoint_every=.*use 'epoch' or a number of seconds"):
        rn.fit(rn.BayesianModel(network()), data(), checkpoint_every=every, **FAST)


def test_two_folders_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="give resume alone"):
        rn.fit(rn.BayesianModel(network()), data(), resume=tmp_path / "a", checkpoint_to=tmp_path / "b", **FAST)


def test_folder_that_cannot_be_written_is_noticed_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(MeanField, "step", None)
    with pytest.raises(CheckpointError, match="could not be written"):
        rn.fit(rn.BayesianModel(network()), data(), checkpoint_to=tmp_path / "file", **FAST)


def test_a_new_run_replaces_an_old_checkpoint(interrupted):
    rn.fit(rn.BayesianModel(network()), data(shift=1.0), checkpoint_to=interrupted, **FAST)
    assert sorted(path.name for path in interrupted.iterdir()) == ["manifest.json", "posterior.safetensors"]


# --- resuming what is not the same run

OTHERS = {
    "seed": ({"seed": 2}, "seed=1, here seed=2"),
    "epochs": ({"epochs": 4}, "epochs=3, here epochs=4"),
    "batch size": ({"batch_size": 13}, "batch_size=12, here batch_size=13"),
    "patience": ({"validation": 0.2, "patience": 3}, "validation=None, here validation=0.2"),
    "standardize": ({"standardize": False}, "standardize=True, here standardize=False"),
    "lr": ({"algorithm": rn.inference.SVGI(lr=0.1)}, r"algorithm.arguments.lr=None, here algorithm.arguments.lr=0.1"),
    "algorithm": ({"algorithm": rn.inference.CAVI()}, "algorithm.type='SVGI', here algorithm.type='CAVI'"),
    "rows": ({"data": data(37)}, "n=36, here n=37"),
    "targets": ({"data": data(shift=1e-3)}, "it has other data"),
    "order of rows": ({"data": tuple(part.flip(0) for part in data())}, "it has other data"),
    "prior": ({"model": rn.BayesianModel(network(), rn.priors.Horseshoe())}, "prior.type='R2D2'"),
    "likelihood": (
        {"model": rn.BayesianModel(network(), likelihood=rn.likelihoods.Gaussian(noise=1.0))},
        "model.likelihood.arguments.noise=None, here model.likelihood.arguments.noise=1.0",
    ),
    "activation": ({"model": rn.BayesianModel(network(nn.ReLU))}, "it has another network"),
    "width": (
        {"model": rn.BayesianModel(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)))},
        r"model.parameters.0.weight.shape=\[3, 2\], here model.parameters.0.weight.shape=\[4, 2\]",
    ),
    "layers": (
        {"model": rn.BayesianModel(nn.Sequential(*network(), nn.Linear(1, 1)))},
        "model.parameters.3.weight is not in it",
    ),
    "dtype": ({"model": rn.BayesianModel(network().double())}, "it has other data|torch.float64"),
}


@pytest.mark.parametrize(("change", "message"), OTHERS.values(), ids=OTHERS)
def test_another_run_is_refused_by_name(interrupted, change, message):
    before = {path: path.read_bytes() for path in interrupted.iterdir()}
    options = {"model": rn.BayesianModel(network()), "data": data(), **FAST, **change}
    with pytest.raises(CheckpointError, match=message) as error:
        rn.fit(**options, resume=interrupted)
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in interrupted.iterdir()} == before


def test_corrupt_checkpoint_is_one_clear_error_and_stays(interrupted):
    path = interrupted / "checkpoint.safetensors"
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", content[:-1] + bytes([content[-1] ^ 1])):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="truncated, altered or not a saved run"):
            rn.fit(rn.BayesianModel(network()), data(), resume=interrupted, **FAST)
        assert path.read_bytes() == damaged
    path.write_bytes(content)
    assert len(rn.fit(rn.BayesianModel(network()), data(), resume=interrupted, **FAST).history) == 3


def test_resuming_a_finished_run_returns_it(tmp_path, monkeypatch):
    model, x = rn.BayesianModel(network()), data()[0]
    first = rn.fit(model, data(), resume=tmp_path, **FAST)
    before = (tmp_path / "posterior.safetensors").read_bytes()
    monkeypatch.setattr(MeanField, "step", None)
    again = rn.fit(model, data(), resume=tmp_path, **FAST)
    assert torch.equal(first.predict(x).samples, again.predict(x).samples)
    assert first.history == again.history
    assert (tmp_path / "posterior.safetensors").read_bytes() == before
    with pytest.raises(CheckpointError, match="epochs=3, here epochs=9; give the same model, data and settings, or"):
        rn.fit(model, data(), resume=tmp_path, **{**FAST, "epochs": 9})


# --- divergence and early stopping


@pytest.mark.parametrize("at_last_step", [False, True])
def test_divergence_keeps_the_last_good_checkpoint(tmp_path, monkeypatch, at_last_step):
    step, limit = MeanField.step, 9 if at_last_step else 4

    def spoiling(self, state, *arguments):
        state, info = step(self, state, *arguments)
        if int(state.step) == limit:
            state.mean[-1] = math.nan  # the loss of this step is still finite
        return state, info

    monkeypatch.setattr(MeanField, "step", spoiling)
    with pytest.raises(DivergenceError, match=f"step {limit}: parameter '2.bias'"):
        rn.fit(rn.BayesianModel(network()), data(), resume=tmp_path / "run", checkpoint_every=0, **FAST)
    monkeypatch.undo()
    rn.fit(rn.BayesianModel(network()), data(), resume=tmp_path / "run", **FAST)
    rn.fit(rn.BayesianModel(network()), data(), **FAST).save(tmp_path / "alone")
    assert contents(tmp_path / "run") == contents(tmp_path / "alone")


def test_early_stopping_returns_the_best_epoch():
    """Fast steps on 8 noisy rows: the score must rise again, and then training stops."""
    x, y = data(24)
    noise = torch.randn(24, generator=torch.Generator().manual_seed(4))
    train, held = (x[:8], y[:8] + noise[:8]), (x[8:], y[8:] + noise[8:])
    algorithm = rn.inference.SVGI(lr=0.3, schedule="constant")
    options = {"epochs": 200, "validation": held, "seed": 1, "verbose": False}
    posterior = rn.fit(rn.BayesianModel(network()), train, algorithm, patience=4, **options)
    scores = [entry["validation"] for entry in posterior.history]
    best = min(range(len(scores)), key=scores.__getitem__)
    assert len(scores) == best + 1 + 4 < 200
    assert int(posterior.state.step) == best + 1
    found = posterior.predict(held[0], 20, seed=0)
    noise = posterior.history[best]["noise"]  # the posterior's own is that of the validation rows
    mixture = torch.distributions.Normal(found.samples, noise).log_prob(held[1])
    expected = -(torch.logsumexp(mixture, 0) - math.log(20)).mean()
    assert math.isclose(scores[best], float(expected), rel_tol=1e-5)


def test_without_patience_the_last_epoch_is_kept():
    """Whatever the scores: the run is that without validation, and the history has the scores besides."""
    x, y = data(24)
    algorithm = rn.inference.SVGI(lr=0.3, schedule="constant")
    options = {"epochs": 12, "seed": 1, "verbose": False}
    watched = rn.fit(rn.BayesianModel(network()), (x[:8], y[:8]), algorithm, validation=(x[8:], y[8:]), **options)
    alone = rn.fit(rn.BayesianModel(network()), (x[:8], y[:8]), algorithm, **options)
    scores = [entry.pop("validation") for entry in watched.history]
    assert min(scores) < scores[-1]
    assert torch.equal(watched.state.mean, alone.state.mean)
    assert watched.history == alone.history


def test_validation_score_is_in_the_users_units():
    x, y = data()
    held = (x[:8], y[:8])
    options = {"epochs": 3, "seed": 1, "verbose": False}
    plain = rn.fit(rn.BayesianModel(network()), (x, y), validation=held, **options)
    large = rn.fit(rn.BayesianModel(network()), (x, 1000 * y), validation=(held[0], 1000 * held[1]), **options)
    for one, other in zip(plain.history, large.history, strict=True):
        assert math.isclose(other["validation"] - one["validation"], math.log(1000), rel_tol=1e-3)


def test_patience_needs_validation():
    with pytest.raises(ParameterError, match="patience=3 needs validation"):
        rn.fit(rn.BayesianModel(network()), data(), patience=3, **FAST)


class TurnsNan(torch.nn.Module):
    """A network whose output is nan from a given training pass on."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.linear, self.at = torch.nn.Linear(3, 1), at
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.passes.add_(1)
        output = self.linear(x)
        return output * float("nan") if self.training and self.passes >= self.at else output


@pytest.mark.parametrize("prior", [rn.priors.R2D2(), rn.priors.R2D2.adaptive(), rn.priors.DirichletLaplace()])
@pytest.mark.parametrize("method", [rn.inference.SVGI, rn.inference.CAVI])
def test_a_loss_that_fails_at_a_sweep_is_named_as_such(prior, method):
    x = torch.randn(20, 3)
    with pytest.raises(rn.errors.DivergenceError, match="loss became nan at step 4"):
        rn.fit(rn.BayesianModel(TurnsNan(4), prior), (x, x[:, 0]), method(sweep_every=4), epochs=9, verbose=False)


def test_no_part_of_a_checkpoint_is_ever_not_finite(tmp_path):
    """Here rho overflows before any mean does."""
    x = torch.randn(20, 3)
    method = rn.inference.SVGI(lr_rho=1e39, schedule="constant")
    options = {"epochs": 20, "checkpoint_to": tmp_path, "checkpoint_every": 0, "verbose": False}
    with pytest.raises(rn.errors.DivergenceError):
        rn.fit(rn.BayesianModel(torch.nn.Linear(3, 1)), (x, x[:, 0]), method, **options)
    tensors, _ = checkpoint.read(tmp_path / "checkpoint.safetensors")
    assert all(bool(t.isfinite().all()) for name, t in tensors.items() if t.is_floating_point() and "state/" in name)


def test_a_posterior_is_not_loaded_into_a_network_with_other_activations(tmp_path):
    def net(activation):
        return torch.nn.Sequential(torch.nn.Linear(3, 4), activation, torch.nn.Linear(4, 1))

    x = torch.randn(20, 3)
    rn.fit(rn.BayesianModel(net(torch.nn.ReLU())), (x, x[:, 0]), epochs=1, verbose=False).save(tmp_path)
    rn.load(tmp_path, net(torch.nn.ReLU()))
    with pytest.raises(rn.errors.CheckpointError, match=r"\(1\): ReLU\(\) there, \(1\): Tanh\(\) here"):
        rn.load(tmp_path, net(torch.nn.Tanh()))


def test_deterministic_parameters_start_from_the_networks_own():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    model = rn.BayesianModel(net, deterministic=["0.*"])
    state = rn.inference.SVGI().build(model, n=10, steps=10).init(torch.zeros(10, 1), torch.Generator().manual_seed(0))
    assert torch.equal(state.fixed, torch.cat([p.detach().flatten() for p in net[0].parameters()]))
