"""Runs by the native kernels: torch's steps but for rounding, repeated and resumed to the bit, refused in one line."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn

import r2d2net as rn
from native_kernels import NEEDS_KERNELS, without_library
from r2d2net.errors import CheckpointError, ParameterError
from r2d2net.inference import CAVI, MFVI, SVGI, SVI, Radial
from r2d2net.inference.variational import MeanField
from r2d2net.native import library

FAST = {"epochs": 4, "batch_size": 10, "verbose": False, "seed": 1}


def rows(seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(40, 5, generator=g), torch.randint(3, (40,), generator=g)


def model(prior=None, dtype=torch.float32):
    torch.manual_seed(0)
    layers = nn.Linear(5, 30), nn.Tanh(), nn.Linear(30, 3)  # smooth: at a kink rounding would change a gradient
    net = nn.Sequential(*layers).to(dtype)
    return rn.BayesianModel(net, rn.priors.R2D2() if prior is None else prior, rn.likelihoods.Categorical())


def stepped(method, steps, *, draw=None, prior=None):
    """A state after some steps; ``draw`` stands for the trainer's own draws."""
    (x, y), g = rows(), torch.Generator().manual_seed(3)
    trainer = method.build(model(prior), n=40, steps=100)
    if draw is not None:
        trainer.draw = lambda state, generator: draw(trainer, state, generator)
    state = trainer.init(y, g)
    for _ in range(steps):
        state, _ = trainer.step(state, (x, y), g)
    return state


def torchs_draw(trainer, state, generator):
    """A draw by torch's numbers, whatever the trainer's path; natively the deviations are not kept."""
    weights = trainer.family.noise.draw(trainer.model, generator)
    scale = trainer.family.deviation(state, trainer.blocks)
    return weights * scale + state.mean, None if trainer.native is not None else scale


@NEEDS_KERNELS
@pytest.mark.parametrize(
    ("kind", "settings", "prior"),
    [
        (SVGI, {"sweep_every": 1000}, rn.priors.Gaussian()),
        (SVGI, {"sweep_every": 1000, "draws": 2, "clip": 1.0}, rn.priors.Gaussian()),
        (CAVI, {"sweep_every": 4}, rn.priors.R2D2()),
        (CAVI, {"sweep_every": 4, "estimator": "local"}, rn.priors.R2D2.paper()),
        (CAVI, {"sweep_every": 4}, rn.priors.Horseshoe()),
        (MFVI, {"estimator": "weights"}, rn.priors.Gaussian()),
    ],
    ids=["svgi", "several draws, clipped", "cavi", "local", "prior without kernels", "mfvi"],
)
def test_steps_are_torchs(kind, settings, prior):
    """With the same draws: steps of at most 0.3 x 0.4 in float32, of which 20 add up."""
    found = []
    for path in (False, "native"):
        method = kind(**{"estimator": "weights", **settings, "compile": path})
        state = stepped(method, 20, draw=None if method.estimator == "local" else torchs_draw, prior=prior)
        found.append((state.mean, state.rho, state.precision.log()))
    for eager, native in zip(*found, strict=True):
        torch.testing.assert_close(native, eager, rtol=1e-3, atol=1e-3)


@NEEDS_KERNELS
@pytest.mark.parametrize("kind", [SVGI, CAVI])
@pytest.mark.parametrize("estimator", ["weights", "local"])
def test_a_run_resumes_to_the_bit_wherever_it_stopped(kind, estimator):
    (x, y), method = rows(), kind(sweep_every=2, compile="native", estimator=estimator)
    trainer, g = method.build(model(), n=40, steps=6), torch.Generator().manual_seed(0)
    states = [(trainer.init(y, g), g.get_state())]
    for _ in range(6):
        state, _ = trainer.step(copy.deepcopy(states[-1][0]), (x, y), g)
        states.append((state, g.get_state()))
    for start in range(6):
        trainer, state = method.build(model(), n=40, steps=6), copy.deepcopy(states[start][0])
        g.set_state(states[start][1])
        for _ in range(start, 6):
            state, _ = trainer.step(state, (x, y), g)
        for one, other in ((state.mean, states[-1][0].mean), (state.rho, states[-1][0].rho)):
            assert torch.equal(one, other)


@NEEDS_KERNELS
def test_a_stopped_fit_ends_where_it_would_have(tmp_path, monkeypatch):
    method, step, count = SVGI(compile="native", estimator="weights"), MeanField.step, 0
    alone = rn.fit(model(), rows(), method, **FAST)

    def dying(*arguments):
        nonlocal count
        count += 1
        if count == 11:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(MeanField, "step", dying)
    for stopped in (pytest.raises(KeyboardInterrupt), nullcontext()):
        with stopped:
            resumed = rn.fit(model(), rows(), method, resume=tmp_path, checkpoint_every=0, **FAST)
    assert torch.equal(alone.sample(5, seed=0), resumed.sample(5, seed=0))


@NEEDS_KERNELS
def test_draws_of_a_step_are_the_kernels():
    """Else the tests above would compare torch with itself."""
    method = SVGI(estimator="weights", sweep_every=1000)
    native, eager = (stepped(SVGI(**{**vars(method), "compile": path}), 1) for path in ("native", False))
    assert not torch.equal(native.mean, eager.mean)


@NEEDS_KERNELS
def test_settings_say_what_ran(tmp_path, monkeypatch):
    posterior = rn.fit(model(), rows(), SVGI(compile="auto"), **FAST)
    assert posterior.settings["algorithm"]["arguments"]["compile"] == "native"
    same = rn.fit(model(), rows(), SVGI(compile="native"), **FAST)
    assert torch.equal(posterior.sample(3, seed=0), same.sample(3, seed=0))
    rn.save(posterior, tmp_path / "run")
    (tmp_path / "bare").mkdir()
    without_library(monkeypatch, tmp_path / "bare")
    loaded = rn.load(tmp_path / "run", model().net)  # predictions need no kernels
    assert torch.equal(loaded.sample(3, seed=0), posterior.sample(3, seed=0))
    elsewhere = rn.fit(model(), rows(), SVGI(compile="auto"), **FAST)
    assert elsewhere.settings["algorithm"]["arguments"]["compile"] is False
    assert torch.equal(elsewhere.sample(3, seed=0), rn.fit(model(), rows(), SVGI(), **FAST).sample(3, seed=0))


@NEEDS_KERNELS
def test_a_run_is_not_resumed_by_another_path(tmp_path):
    rn.fit(model(), rows(), SVGI(compile="native"), checkpoint_to=tmp_path, **FAST)
    message = r"it has algorithm.arguments.compile='native', here algorithm.arguments.compile=False"
    with pytest.raises(CheckpointError, match=message):
        rn.fit(model(), rows(), SVGI(), resume=tmp_path, **FAST)


@pytest.mark.parametrize(
    "method", [SVI(compile="native"), Radial(compile="native"), SVGI(compile="native", variance="scaled")]
)
def test_families_without_kernels_are_refused(method):
    fix = "it needs SVGI, CAVI or MFVI with variance='free'; leave it out"
    message = rf"^compile='native' has no kernels for this q\(w\): {fix}$"
    with pytest.raises(ParameterError, match=message):
        method.build(model(), n=40, steps=10)


def test_other_dtypes_are_refused():
    message = (
        r"^compile='native' does not suit a torch.float64 network on cpu: it needs float32 on the CPU; leave it out$"
    )
    with pytest.raises(ParameterError, match=message):
        SVGI(compile="native").build(model(dtype=torch.float64), n=40, steps=10)


def test_kernels_that_are_not_built_are_refused(monkeypatch, tmp_path):
    without_library(monkeypatch, tmp_path)
    message = rf"^compile='native' is not built here: {library.BUILD}, or leave it out$"
    with pytest.raises(ParameterError, match=message):
        SVGI(compile="native").build(model(), n=40, steps=10)


@pytest.mark.parametrize("method", [SVI(compile="auto"), SVGI(compile="auto", variance="scaled")])
def test_auto_takes_torch_where_there_are_no_kernels(method):
    assert method.settled(model()).compile is False


def test_other_words_are_refused():
    words = "use True, False, 'native', 'graphs' or 'auto'"
    with pytest.raises(ParameterError, match=rf"^compile='yes' is out of range: {words}$"):
        SVGI(compile="yes")
