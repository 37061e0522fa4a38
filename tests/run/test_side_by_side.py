"""Runs side by side against the same runs one by one; their ends, and interruptions."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import inference, likelihoods, priors
from r2d2net.inference import linear_gibbs
from r2d2net.inference.base import flatten
from r2d2net.inference.chain_members import ChainMembers
from r2d2net.inference.langevin_members import LangevinMembers
from r2d2net.inference.linear_members import LinearMembers
from r2d2net.inference.members import Members
from r2d2net.posterior import Posterior
from r2d2net.run import several_runs, side_by_side
from r2d2net.run import train as runs
from r2d2net.run.prepare import prepare
from r2d2net.specification import describe, describe_model

ROWS, RUNS = 60, 3
FAST = {"epochs": 4, "batch_size": 15, "seed": 1, "verbose": False, "jobs": 1}


def data():
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1)).double()
    return x, 10 + 3 * x[:, 0] + x[:, 1].sin()


def network(outputs=1, *, path=False):
    torch.manual_seed(4)
    return rn.nets.mlp(3, [8, 6], outputs, linear=path).double()


def fit(method, own_prior=None, likelihood=None, *, classes=False, counts=False, path=False, bias="own", **options):
    x, y = data()
    y = (y > 10).long() if classes else (y - y.min()).round() if counts else y
    own_bias = {} if bias == "own" else {"bias": bias}
    model = rn.BayesianModel(network(2 if classes else 1, path=path), own_prior, likelihood, **own_bias)
    return rn.fit(model, (x, y), method, **{**FAST, **options})


def same(one, other):
    """Whether two posteriors are the same to the bit."""
    mine, theirs = (flatten(posterior.state) for posterior in (one, other))
    return mine.keys() == theirs.keys() and all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())


@pytest.fixture
def ends(monkeypatch):
    """Collect the posteriors of all single runs by (candidate, restart), and how many went together."""
    found, finish, together = {}, runs.finish, side_by_side.train_together

    def collected(plan, run, folder):
        posterior = finish(plan, run, folder)
        found[plan.settings["candidate"], plan.settings["restart"]] = posterior
        return posterior

    def counted(plans, folders):
        found["together"] = found.get("together", 0) + len(plans)
        return together(plans, folders)

    monkeypatch.setattr(runs, "finish", collected)
    monkeypatch.setattr(several_runs, "train_together", counted)
    return found


def one_by_one(monkeypatch):
    monkeypatch.setattr(several_runs, "groups_of", lambda plans: [[index] for index in range(len(plans))])


def assert_equal_runs(one, other):
    """To 1e-6, in float64: rounding of 1e-16 grows over 16 steps and their sweeps."""
    assert one.keys() == other.keys()
    for key, posterior in one.items():
        theirs = other[key]
        assert posterior.settings == theirs.settings
        assert [entry.keys() for entry in posterior.history] == [entry.keys() for entry in theirs.history]
        for mine, yours in zip(posterior.history, theirs.history, strict=True):
            assert mine == pytest.approx(yours, rel=1e-6, abs=1e-6)
        tensors = flatten(theirs.state)
        for name, tensor in flatten(posterior.state).items():
            if "scales" not in name:  # these may be 1e30
                torch.testing.assert_close(tensor, tensors[name], rtol=1e-6, atol=1e-6)


CHAINS = {"chains": 2, "sweep_steps": 4, "start_steps": 10}
BY_CHAINS = {"epochs": 14, "batch_size": None}
CASES = {
    "svgi": (inference.SVGI(averaging=1.0), priors.R2D2(), None, {"restarts": RUNS}),
    "svgi-averaged": (inference.SVGI(averaging=0.1), priors.R2D2(), None, {"restarts": RUNS}),
    "svgi-averaged-drawn": (
        inference.SVGI(averaging=0.1, estimator="weights"),
        priors.R2D2(),
        None,
        {"restarts": RUNS},
    ),
    "svgi-drawn": (inference.SVGI(estimator="weights"), priors.R2D2(), None, {"restarts": RUNS}),
    "svgi-horseshoe": (inference.SVGI(sweep_every=3), priors.Horseshoe(), None, {"restarts": RUNS}),
    "svgi-scaled-classes": (
        inference.SVGI(variance="scaled"),
        priors.R2D2(),
        likelihoods.Categorical(),
        {"restarts": RUNS, "classes": True, "score": "auroc"},
    ),
    "svgi-early-stopping": (
        inference.SVGI(lr=0.6, schedule="constant"),
        priors.R2D2(),
        None,
        {"restarts": RUNS, "patience": 1, "epochs": 12},
    ),
    "svgi-prior-auto": (inference.SVGI(), priors.R2D2(), None, {"prior": "auto", "restarts": 2}),
    "cavi": (inference.CAVI(), priors.R2D2(), None, {"restarts": RUNS}),
    "svi-heteroscedastic": (inference.SVI(), priors.SpikeSlab(), None, {"restarts": RUNS}),
    "mfvi": (inference.MFVI(), priors.Gaussian(), None, {"restarts": RUNS}),
    "radial": (inference.Radial(), priors.R2D2(), None, {"restarts": RUNS}),
    "map": (inference.MAP(), priors.GeneralizedDoublePareto(), None, {"restarts": RUNS}),
    "chains": (inference.MCLMC(**CHAINS), priors.R2D2(), None, {"restarts": RUNS, **BY_CHAINS}),
    "chains-heavy-tails": (
        inference.MCLMC(**CHAINS, start_prior="own"),
        priors.R2D2(),
        likelihoods.StudentT(),
        {"restarts": RUNS, **BY_CHAINS},
    ),
    "chains-classes": (
        inference.MCLMC(**CHAINS),
        priors.Horseshoe(),
        likelihoods.Categorical(),
        {"restarts": RUNS, "classes": True, **BY_CHAINS},
    ),
    "chains-counts": (
        inference.MCLMC(**CHAINS),
        priors.Gaussian(),
        likelihoods.Poisson(),
        {"restarts": RUNS, "counts": True, **BY_CHAINS},
    ),
    "chains-path": (inference.MCLMC(**CHAINS), priors.R2D2(), None, {"prior": "auto", "path": True, **BY_CHAINS}),
    "sgld": (inference.SGLD(chains=RUNS), priors.R2D2(), None, {}),
    "sgld-classes": (
        inference.SGLD(preconditioner="none", thin=2),
        priors.Horseshoe(),
        likelihoods.Categorical(),
        {"restarts": RUNS, "classes": True},
    ),
    "sghmc-cycles-path": (
        inference.SGHMC(chains=RUNS, cycles=2),
        priors.Gaussian(),
        None,
        {"path": True, "bias": None, "epochs": 6},
    ),
    "sghmc-counts": (inference.SGHMC(chains=RUNS), priors.R2D2(), likelihoods.Poisson(), {"counts": True}),
    "ensemble": (inference.DeepEnsemble(members=RUNS), priors.Gaussian(), None, {}),
    "ensemble-validation": (inference.DeepEnsemble(members=RUNS), priors.Gaussian(), None, {"validation": 0.2}),
}


@pytest.mark.parametrize("case", CASES)
def test_runs_are_those_one_by_one(case, ends, monkeypatch):
    method, prior, likelihood, options = CASES[case]
    posterior = fit(method, prior, likelihood, **options)
    together = dict(ends)
    assert together.pop("together") == len(together) > 1
    again = fit(method, prior, likelihood, **options)
    assert same(posterior, again)
    assert posterior.history == again.history
    ends.clear()
    one_by_one(monkeypatch)
    alone = fit(method, prior, likelihood, **options)
    assert "together" not in ends
    assert_equal_runs(together, ends)
    assert_equal_runs({"": posterior}, {"": alone})
    assert len(posterior.candidates) == len(alone.candidates)
    for mine, theirs in zip(posterior.candidates, alone.candidates, strict=True):
        assert mine == {**theirs, "validation": pytest.approx(theirs["validation"], rel=1e-5)}
    if "patience" in options:  # runs that end at different epochs, before the last
        assert len({len(run.history) for run in together.values()}) > 1


@pytest.mark.parametrize(
    ("method", "net"),
    [
        (inference.SVGI(), nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Linear(4, 1)).double()),
        (inference.SVGI(clip=1.0), network()),
        (inference.SGLD(chains=2, clip=1.0), network()),
        (inference.MCDropout(), network()),
    ],
    ids=["dropout-layer", "clip", "clipped-chains", "mc-dropout"],
)
def test_others_go_one_by_one(method, net, ends):
    model = rn.BayesianModel(net, priors.Gaussian())
    options = {} if method.runs > 1 else {"restarts": 2}
    rn.fit(model, data(), method, **{**FAST, "epochs": 20, **options})
    assert "together" not in ends


def test_groups_are_of_a_bounded_size(monkeypatch):
    sizes = []
    together = side_by_side.train_together
    monkeypatch.setattr(side_by_side, "MOST", 2)
    monkeypatch.setattr(several_runs, "train_together", lambda p, f: (sizes.append(len(p)), together(p, f))[1])
    posterior = fit("svgi", restarts=5, epochs=2)
    assert sizes == [2, 2]
    assert len(posterior.candidates) == 5


def test_draws_that_would_take_too_much_memory_are_made_by_fewer_chains_at_a_time(monkeypatch, ends):
    size = 8 * sum(p.numel() for p in network().parameters()) * 8  # 8 draws of 8 bytes a number
    monkeypatch.setattr(side_by_side, "STORE", 2 * size)
    fit(inference.SGLD(chains=RUNS), priors.R2D2())
    assert ends.pop("together") == 2
    assert len(ends) == RUNS
    ends.clear()
    monkeypatch.setattr(side_by_side, "STORE", size)
    fit(inference.SGLD(chains=RUNS), priors.R2D2())
    assert "together" not in ends


def test_processes_give_the_same_bits(monkeypatch):
    monkeypatch.setattr(side_by_side, "MOST", 2)
    here, there = (fit("svgi", restarts=4, epochs=2, jobs=jobs) for jobs in (1, 2))
    assert here.candidates == there.candidates
    assert torch.equal(here.state.mean, there.state.mean)


def test_each_run_may_have_rows_of_its_own(tmp_path):
    """Plans with different data of one shape go together too, as folds or bootstrap samples would."""
    plans, x, y = [], *data()
    for k in range(3):
        rows = torch.randint(ROWS, (ROWS,), generator=torch.Generator().manual_seed(k))
        model, method = rn.BayesianModel(network()), inference.SVGI()
        prepared = prepare(model, (x[rows], y[rows]), 15, k, None, None, True)
        settings = {"seed": k, "restart": 0, "candidate": "given", "epochs": 3, "batches": 4, "patience": None}
        settings |= {"score": "nll", "algorithm": describe(method), "model": describe_model(model), "data": k}
        plans.append(runs.Plan(model, method, prepared, settings, 60.0))
    assert side_by_side.groups_of(plans) == [[0, 1, 2]]
    together = side_by_side.train_together(plans, [tmp_path / f"{k}" for k in range(3)])
    for plan, posterior in zip(plans, together, strict=True):
        assert isinstance(posterior, Posterior)
        alone = runs.train(plan, None, resume=False, verbose=False)
        torch.testing.assert_close(posterior.state.mean, alone.state.mean, rtol=1e-6, atol=1e-6)


# --- linear chains


def linear_plans(every=60.0, runs_of=3, epochs=60):
    """Three runs on rows of their own, whose chains agree at different sweeps."""
    plans, (x, y) = [], data()
    for k in range(runs_of):
        rows = torch.randint(ROWS, (ROWS,), generator=torch.Generator().manual_seed(k))
        model = rn.BayesianModel(nn.Linear(3, 2), priors.R2D2(), likelihoods.Categorical())
        method = inference.LinearGibbs(chains=2, loo_draws=0)
        prepared = prepare(model, (x[rows].float(), (y[rows] > 10).long()), ROWS, k, None, None, True)
        settings = {"seed": k, "restart": 0, "candidate": "given", "epochs": epochs, "batches": 1, "patience": None}
        settings |= {"score": "nll", "algorithm": describe(method), "model": describe_model(model), "data": k}
        plans.append(runs.Plan(model, method, prepared, settings, every, is_part=True))
    return plans


@pytest.mark.filterwarnings("ignore:the chains disagree")
def test_linear_chains_are_one_batch_and_resume_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(linear_gibbs, "LEAST_SWEEPS", 20)
    monkeypatch.setattr(linear_gibbs, "CONVERGED", 1.2)
    assert side_by_side.groups_of(linear_plans()) == [[0, 1, 2]]
    assert side_by_side.groups_of([replace(plan, compared=True) for plan in linear_plans()]) == [[0], [1], [2]]
    alone = side_by_side.train_together(linear_plans(), [tmp_path / f"{k}" for k in range(3)])
    lengths = [len(posterior.history) for posterior in alone]
    assert min(lengths) < max(lengths)
    step, taken = LinearMembers.step, []

    def counted(*arguments):
        taken.append(1)
        if len(taken) == min(lengths) + 3:  # after the first run has come to its end
            raise Killed
        return step(*arguments)

    monkeypatch.setattr(LinearMembers, "step", counted)
    folders = [tmp_path / "resumed" / f"{k}" for k in range(3)]
    with pytest.raises(Killed):
        side_by_side.train_together(linear_plans("epoch"), folders)
    resumed = side_by_side.train_together(linear_plans("epoch"), folders)
    assert len(taken) == max(lengths) + 1
    for mine, theirs in zip(resumed, alone, strict=True):
        assert same(mine, theirs)
        assert mine.history == theirs.history


@pytest.mark.filterwarnings("ignore:the chains disagree")
def test_a_linear_run_that_is_lost_leaves_the_batch(tmp_path, monkeypatch):
    step = LinearMembers.step

    def spoilt(members, batch, generators):
        losses = step(members, batch, generators)
        if int(members.states[0].step) == 5:
            members.states[1].chains.linear.weights.fill_(math.inf)
        return losses

    monkeypatch.setattr(LinearMembers, "step", spoilt)
    first, lost, last = side_by_side.train_together(linear_plans(epochs=12), [tmp_path / f"{k}" for k in range(3)])
    assert isinstance(lost, rn.errors.DivergenceError)
    assert len(first.history) == len(last.history) == 12


# --- failures and interruptions


def spoil(members, run):
    """Make the weights of one run infinite."""
    members.matrices.mean[run].fill_(math.inf)


@pytest.mark.parametrize("at", [3, 8, 12])
def test_a_run_that_diverges_is_out_and_the_others_go_on(at, ends, monkeypatch):
    """At a step whose scales are swept (8), at the end of an epoch (12), and between."""
    fit("svgi", restarts=RUNS)
    unspoilt = dict(ends)
    ends.clear()
    step = Members.step

    def spoilt(members, batch, generators):
        losses = step(members, batch, generators)
        if int(members.steps[0]) == at:
            spoil(members, 1)
        return losses

    monkeypatch.setattr(Members, "step", spoilt)
    posterior = fit("svgi", restarts=RUNS)
    assert [entry["validation"] is None for entry in posterior.candidates] == [False, True, False]
    assert posterior.candidates[1]["error"].startswith(("the loss became", "training diverged"))
    assert ("given", 1) not in ends
    for key, run in ends.items():
        if key != "together":
            assert torch.equal(run.state.mean, unspoilt[key].state.mean)
    monkeypatch.setattr(Members, "step", lambda m, b, g: (step(m, b, g), [spoil(m, k) for k in range(RUNS)])[0])
    with pytest.raises(rn.errors.DivergenceError, match=r"^all 3 runs failed; the first: "):
        fit("svgi", restarts=RUNS)


class Killed(BaseException):
    """Stands for SIGKILL inside this process."""


@pytest.mark.parametrize("method", ["svgi", "ensemble"])
@pytest.mark.parametrize("every", [0, "epoch"])
def test_killed_and_resumed(method, every, tmp_path, monkeypatch):
    """Killed after 5 of 12 steps, then while the first posterior is saved: bitwise as if nothing had happened."""
    chosen = inference.SVGI() if method == "svgi" else inference.DeepEnsemble(members=RUNS)
    options = {"restarts": RUNS, "patience": 3} if method == "svgi" else {"validation": 0.2}
    options = {"own_prior": priors.Gaussian(), **options}
    alone = fit(chosen, **options)
    step, taken = Members.step, []

    def counted(*arguments):
        taken.append(1)
        if len(taken) == 6:
            raise Killed
        return step(*arguments)

    monkeypatch.setattr(Members, "step", counted)
    resume = {**options, "resume": tmp_path, "checkpoint_every": every}
    with pytest.raises(Killed):
        fit(chosen, **resume)
    finish = runs.finish
    monkeypatch.setattr(runs, "finish", lambda *a: (finish(*a), (_ for _ in ()).throw(Killed))[1])
    with pytest.raises(Killed):
        fit(chosen, **resume)
    steps = len(taken)
    assert steps == 6 + (7 if every == 0 else 9)  # from step 5, or from the end of the first epoch
    monkeypatch.setattr(runs, "finish", finish)
    resumed = fit(chosen, **resume)
    assert len(taken) == steps
    assert same(resumed, alone)
    assert resumed.history == alone.history
    assert resumed.candidates == alone.candidates
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "posterior.safetensors"]


@pytest.mark.parametrize("after", [3, 9])
def test_chains_killed_and_resumed(after, tmp_path, monkeypatch):
    """Killed in SVGI's epochs, and while chains are kept."""
    options = {"own_prior": priors.R2D2(), "restarts": RUNS, **BY_CHAINS}
    alone = fit(inference.MCLMC(**CHAINS), **options)
    step, taken = ChainMembers.step, []

    def counted(*arguments):
        taken.append(1)
        if len(taken) == after + 1:
            raise Killed
        return step(*arguments)

    monkeypatch.setattr(ChainMembers, "step", counted)
    with pytest.raises(Killed):
        fit(inference.MCLMC(**CHAINS), **options, resume=tmp_path, checkpoint_every="epoch")
    resumed = fit(inference.MCLMC(**CHAINS), **options, resume=tmp_path, checkpoint_every="epoch")
    assert len(taken) == BY_CHAINS["epochs"] + 1
    assert same(resumed, alone)
    assert resumed.history == alone.history


def test_chains_that_diverge_are_out_and_the_others_go_on(ends, monkeypatch):
    options = {"own_prior": priors.R2D2(), "restarts": RUNS, **BY_CHAINS}
    fit(inference.MCLMC(**CHAINS), **options)
    unspoilt = dict(ends)
    ends.clear()
    step = ChainMembers.step

    def spoilt(members, batch, generators):
        losses = step(members, batch, generators)
        if int(members.states[1].step) == 9:
            members.states[1].weights.fill_(math.inf)
        return losses

    monkeypatch.setattr(ChainMembers, "step", spoilt)
    posterior = fit(inference.MCLMC(**CHAINS), **options)
    assert [entry["validation"] is None for entry in posterior.candidates] == [False, True, False]
    assert ("given", 1) not in ends
    for key in (("given", 0), ("given", 2)):
        assert same(ends[key], unspoilt[key])


@pytest.mark.parametrize("after", [5, 13])
def test_langevin_chains_killed_and_resumed(after, tmp_path, monkeypatch):
    """Killed in the burn-in, and while draws are kept: bitwise as if nothing had happened."""
    alone = fit(inference.SGHMC(chains=RUNS, thin=2), priors.R2D2())
    step, taken = LangevinMembers.step, []

    def counted(*arguments):
        taken.append(1)
        if len(taken) == after + 1:
            raise Killed
        return step(*arguments)

    monkeypatch.setattr(LangevinMembers, "step", counted)
    options = {"resume": tmp_path, "checkpoint_every": 0}
    with pytest.raises(Killed):
        fit(inference.SGHMC(chains=RUNS, thin=2), priors.R2D2(), **options)
    resumed = fit(inference.SGHMC(chains=RUNS, thin=2), priors.R2D2(), **options)
    assert len(taken) == 16 + 1
    assert same(resumed, alone)
    assert resumed.history == alone.history


@pytest.mark.parametrize("runs_away", [False, True])
def test_langevin_chains_that_diverge_are_out_and_the_others_go_on(runs_away, ends, monkeypatch):
    """Infinite weights while draws are kept, or a loss that grew beyond all sense although it is finite."""
    chains, options = inference.SGLD(), {"own_prior": priors.R2D2(), "restarts": RUNS}
    fit(chains, **options)
    unspoilt = dict(ends)
    ends.clear()
    step = LangevinMembers.step

    def spoilt(members, batch, generators):
        losses = step(members, batch, generators)
        if int(members.steps[0]) == 12:
            state = members.states[1]
            (state.watch.loss if runs_away else state.weights).fill_(1e6 if runs_away else math.inf)
        return losses

    monkeypatch.setattr(LangevinMembers, "step", spoilt)
    posterior = fit(chains, **options)
    assert [entry["validation"] is None for entry in posterior.candidates] == [False, True, False]
    error = posterior.candidates[1]["error"]
    assert ("ran away" in error) if runs_away else error.startswith(("the loss became", "training diverged"))
    for key in (("given", 0), ("given", 2)):
        assert same(ends[key], unspoilt[key])


def test_a_failure_outlives_a_kill(tmp_path, monkeypatch):
    step, taken = Members.step, []

    def spoilt(members, batch, generators):
        losses = step(members, batch, generators)
        taken.append(1)
        if len(taken) == 2:
            spoil(members, 0)
        if len(taken) == 10:
            raise Killed
        return losses

    monkeypatch.setattr(Members, "step", spoilt)
    options = {"restarts": 2, "resume": tmp_path, "checkpoint_every": "epoch"}
    with pytest.raises(Killed):
        fit("svgi", **options)
    posterior = fit("svgi", **options)
    assert posterior.candidates[0]["error"].startswith(("the loss became", "training diverged"))
    assert posterior.settings["restart"] == 1


def test_another_groups_checkpoint_is_refused(tmp_path, monkeypatch):
    def killed(*arguments):
        raise Killed

    monkeypatch.setattr(Members, "step", killed)
    with pytest.raises(Killed):
        fit("svgi", restarts=2, resume=tmp_path)
    with pytest.raises(rn.errors.CheckpointError, match="epochs=4, here epochs=5"):
        fit("svgi", restarts=2, resume=tmp_path, epochs=5)


def test_draws_that_come_in_pieces_are_joined():
    """A network of more weights than a cache holds: its draws come one by one, and validation rows need them all."""
    x = torch.randn(40, 120, generator=torch.Generator().manual_seed(0))
    posterior = rn.fit(
        rn.BayesianModel(rn.nets.mlp(120, [50, 50], 1)), (x, x[:, 0]), epochs=2, validation=0.2, verbose=False
    )
    pieces = list(posterior.source.draws(100, torch.Generator().manual_seed(1)))
    joined = posterior.source.joined(100, torch.Generator().manual_seed(1))
    assert len(pieces) > 1
    assert torch.equal(joined.weights, torch.cat([piece.weights for piece in pieces]))
    assert joined.noise["variance"].shape[0] == len(joined.fixed) == 100
