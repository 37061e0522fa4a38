"""What every algorithm must do: fit, be killed and resumed, save, load, predict, repeat itself; or refuse."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import inference, nets
from r2d2net.inference.base import flatten
from r2d2net.inference.langevin_members import LangevinMembers
from r2d2net.inference.members import Members
from r2d2net.network_inputs import no_units
from r2d2net.priors import (
    R2D2,
    ContinuousScalePrior,
    DirichletLaplace,
    Gaussian,
    GeneralizedDoublePareto,
    Horseshoe,
    HorseshoePlus,
    SpikeSlab,
)
from r2d2net.run import train

SETTINGS = {
    "DeepEnsemble": {"members": 2},
    "SGLD": {"chains": 2, "burn_in": 0.25, "thin": 1},
    "SGHMC": {"burn_in": 0.25, "thin": 1},
    "HMC": {"chains": 2, "max_tree_depth": 2},
}
PRIORS = [
    R2D2(),
    R2D2.adaptive(),
    Horseshoe(),
    HorseshoePlus(),
    DirichletLaplace(),
    GeneralizedDoublePareto(),
    SpikeSlab(),
]
CLASSES_ONLY = {"EDL", "DPN"}


def regression():
    g = torch.Generator().manual_seed(1)
    with torch.random.fork_rng():
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    x = torch.randn(36, 3, generator=g)
    return net, rn.likelihoods.Gaussian(), x, 5 + 3 * x[:, 0] + torch.randn(36, generator=g)


def classification():
    g = torch.Generator().manual_seed(2)
    x = torch.randn(24, 1, 28, 28, generator=g)
    with torch.random.fork_rng():
        net = nets.LeNet(1, 10, 28)
    return net, rn.likelihoods.Categorical(), x, torch.arange(24) % 10


def linear():
    with torch.random.fork_rng():
        return nn.Linear(3, 1), *regression()[1:]


def path():
    net, *others = regression()
    with torch.random.fork_rng():
        return nets.LinearPath(net, 3), *others


PROBLEMS = {"mlp-regression": regression, "lenet-classification": classification, "linear-regression": linear}
PROBLEMS["path-regression"] = path
EVERY_NET = [name for name in inference.ALGORITHMS if getattr(inference, name).suits_every_net]
NEEDS_PATH = [name for name in inference.ALGORITHMS if getattr(inference, name).needs_linear_path]
LINEAR_ONLY = [name for name in inference.ALGORITHMS if name not in (*EVERY_NET, *NEEDS_PATH)]
PAIRS = [
    (algorithm, problem)
    for algorithm in EVERY_NET
    for problem in ("mlp-regression", "lenet-classification")
    if not (algorithm in CLASSES_ONLY and problem == "mlp-regression")
]
PAIRS += [(algorithm, "linear-regression") for algorithm in LINEAR_ONLY]
PAIRS += [(algorithm, "path-regression") for algorithm in (*NEEDS_PATH, "MCLMC", "SVGI")]


def method(algorithm):
    return getattr(inference, algorithm)(**SETTINGS.get(algorithm, {}))


def fit(algorithm, problem, prior=None, seed=0, **options):
    net, likelihood, x, y = PROBLEMS[problem]()
    model = rn.BayesianModel(net, Gaussian(0.5) if prior is None else prior, likelihood)
    rows = {} if method(algorithm).full_batch else {"batch_size": 12}
    options = {"epochs": 4, "verbose": False, "jobs": 1, **rows, **options}
    return rn.fit(model, (x, y), method(algorithm), seed=seed, **options)


def contents(posterior):
    return {name: tensor.tolist() for name, tensor in flatten(posterior.state).items()}


class Killed(BaseException):
    """Stands for SIGKILL inside this process."""


@pytest.fixture
def killed_at(monkeypatch):
    """Have every run stopped in the step after so many."""

    def arrange(steps):
        build, taken = train.Plan.build, 0
        joint_steps = {kind: kind.step for kind in (Members, LangevinMembers)}

        def counted(step):
            def count(*arguments):
                nonlocal taken
                taken += 1
                if taken > steps:
                    raise Killed
                return step(*arguments)

            return count

        def dying(plan):
            running = build(plan)
            running.step = counted(running.step)
            return running

        def live():
            monkeypatch.setattr(train.Plan, "build", build)
            for kind, step in joint_steps.items():
                monkeypatch.setattr(kind, "step", step)

        monkeypatch.setattr(train.Plan, "build", dying)
        for kind, step in joint_steps.items():
            monkeypatch.setattr(kind, "step", counted(step))
        return live

    return arrange


@pytest.mark.parametrize(("algorithm", "problem"), PAIRS)
def test_an_algorithm_keeps_the_contract(algorithm, problem, tmp_path, killed_at):
    net, _, x, _ = PROBLEMS[problem]()
    alone = fit(algorithm, problem)
    before = torch.random.get_rng_state()

    # killed at a step whose checkpoint is there, one step later, and in the second of several runs; then resumed
    side_by_side = problem == "mlp-regression" and algorithm in ("DeepEnsemble", "SGLD")  # as one run
    several = method(algorithm).runs > 1 and not side_by_side
    per_run = 4 * (1 if method(algorithm).full_batch else len(x) // 12)
    for steps in (2, 1, per_run - 3 + 2) if several else (2, 1):
        live = killed_at(steps)
        with pytest.raises(Killed):
            fit(algorithm, problem, resume=tmp_path / "run", checkpoint_every=0)
        live()
    resumed = fit(algorithm, problem, resume=tmp_path / "run", checkpoint_every=0)
    assert contents(resumed) == contents(alone)
    assert resumed.history == alone.history
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["manifest.json", "posterior.safetensors"]

    # saved, loaded, and once more from the finished run
    prediction = alone.predict(x, 7)
    assert torch.isfinite(prediction.samples).all()
    assert torch.isfinite(prediction.log_prob(PROBLEMS[problem]()[3])).all()
    assert prediction.samples.shape[1] == len(x)
    alone.save(tmp_path / "saved")
    again = fit(algorithm, problem, resume=tmp_path / "run")
    for one in (rn.load(tmp_path / "saved", net), rn.load(tmp_path / "run", net, mmap=True), again):
        assert torch.equal(one.predict(x, 7).samples, prediction.samples)
        assert torch.equal(one.sample(2, seed=3), alone.sample(2, seed=3))
    net.load_state_dict(next(alone.state_dicts(1, seed=0)))

    # a function of its seed, and of nothing else
    assert contents(fit(algorithm, problem)) == contents(alone)
    assert contents(fit(algorithm, problem, seed=1)) != contents(alone)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("algorithm", inference.ALGORITHMS)
@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_a_prior_suits_or_is_refused_in_one_line(algorithm, prior):
    problem = "lenet-classification" if algorithm in CLASSES_ONLY else "mlp-regression"
    problem = "linear-regression" if algorithm in LINEAR_ONLY else problem
    problem = "path-regression" if algorithm in NEEDS_PATH else problem
    suits = getattr(inference, algorithm).suits_every_prior or (prior.has_finite_mode and algorithm != "MFVI")
    if suits:
        posterior = fit(algorithm, problem, prior)
        assert torch.isfinite(posterior.sample(3)).all()
        return
    with pytest.raises(rn.ParameterError, match=rf"^algorithm={algorithm} .*: .* use .*SVGI") as caught:
        fit(algorithm, problem, prior)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("prior", [prior for prior in PRIORS if isinstance(prior, ContinuousScalePrior)])
def test_hmc_samples_weights_and_continuous_scales_together(prior):
    net, likelihood, x, y = regression()
    joint = inference.HMC(chains=1, max_tree_depth=2, scales="joint")
    posterior = rn.fit(rn.BayesianModel(net, prior, likelihood), (x, y), joint, epochs=4, verbose=False)
    assert torch.isfinite(posterior.sample(2)).all()


@pytest.mark.parametrize("algorithm", sorted(CLASSES_ONLY))
def test_a_likelihood_that_does_not_suit_is_refused(algorithm):
    with pytest.raises(rn.ParameterError, match=rf"^algorithm={algorithm} .*Categorical") as caught:
        fit(algorithm, "mlp-regression")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("algorithm", ["SGLD", "SGHMC", "HMC", "MCLMC", "LinearGibbs", "LinearFirst"])
def test_samplers_know_no_early_stopping(algorithm):
    problem = "linear-regression" if algorithm in LINEAR_ONLY else "mlp-regression"
    problem = "path-regression" if algorithm in NEEDS_PATH else problem
    with pytest.raises(rn.ParameterError, match=f"^patience=2: {algorithm} keeps draws of many epochs; leave it out$"):
        fit(algorithm, problem, validation=0.2, patience=2)


def test_names_stand_for_default_settings():
    net, likelihood, x, y = regression()
    model = rn.BayesianModel(net, Gaussian(0.5), likelihood)
    for name in ("MAP", "map", "SVI"):
        by_name = rn.fit(model, (x, y), name, epochs=2, verbose=False)
        by_object = rn.fit(model, (x, y), getattr(inference, name.upper())(), epochs=2, verbose=False)
        assert contents(by_name) == contents(by_object)


@pytest.mark.parametrize(("algorithm", "problem"), [pair for pair in PAIRS if pair[1] != "lenet-classification"])
def test_steps_that_follow_do_not_change_a_posterior(algorithm, problem):
    """Neither steps of the state that a source was made of, nor steps from the posterior's own state."""
    net, likelihood, x, y = PROBLEMS[problem]()
    model = rn.BayesianModel(net, Gaussian(0.5), likelihood)
    trainer = method(algorithm).build(model, n=36, steps=24)
    generator, target = torch.Generator().manual_seed(0), likelihood.target(y)
    state = trainer.init(target, generator)
    for _ in range(20):
        state, _ = trainer.step(state, (x, target), generator)
    source = trainer.finish(state)
    posterior = rn.Posterior(source, no_units(target), flat_target=True)
    before = {name: tensor.clone() for name, tensor in flatten(source.state).items()}
    steps = [state]
    if type(posterior.state) is type(state):
        steps.append(posterior.state)
    for start in steps:
        moved = start
        for _ in range(4):
            moved, _ = trainer.step(moved, (x, target), generator)
        assert all(torch.equal(before[name], tensor) for name, tensor in flatten(source.state).items())
