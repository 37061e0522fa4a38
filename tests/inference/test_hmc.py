"""HMC where the answer is known, its coordinates, its resumption after any step, and what it refuses."""

import math
import sys

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import r2d2net as rn
from langevin_targets import normal_means
from r2d2net import checkpoint
from r2d2net.diagnostics.convergence import diagnose
from r2d2net.inference import HMC
from r2d2net.inference.base import flatten, unflatten
from r2d2net.inference.coordinates import GivenScales, JointScales
from r2d2net.priors import R2D2, Gaussian
from r2d2net.run.global_generator import lent_generator

CPU = torch.device("cpu")
DOUBLE = torch.float64
both_ways = pytest.mark.parametrize("scales", ["gibbs", "joint"])


def linear_problem():
    """Five correlated inputs, noise of deviation 1/2."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 5, generator=g, dtype=DOUBLE) @ torch.randn(5, 5, generator=g, dtype=DOUBLE)
    y = x @ torch.randn(5, generator=g, dtype=DOUBLE)
    return x, y + 0.5 * torch.randn(40, generator=g, dtype=DOUBLE)


def linear(inputs, prior, noise):
    net = nn.Linear(inputs, 1, bias=False, dtype=DOUBLE)
    return rn.BayesianModel(net, prior, rn.likelihoods.Gaussian(noise=noise))


def z_scores(values, expected):
    """How many Monte Carlo errors the means of draws (chains, draws, ...) are from what is expected."""
    return (values.mean((0, 1)) - torch.as_tensor(expected)) / diagnose(values).mcse


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("temperature", "transitions", "chains"),
    [(1.0, 450, 1), pytest.param(1.0, 2000, 4, marks=slow), pytest.param(4.0, 2000, 2, marks=slow)],
)
def test_linear_regression_in_closed_form(temperature, transitions, chains):
    """Mean and covariance of the weights: 5 + 15 statistics at |z| < 5, 1e-5 in all.

    With a temperature the data count 1 / temperature times.
    """
    x, y = linear_problem()
    precision = x.T @ x / (0.25 * temperature) + torch.eye(5, dtype=DOUBLE)
    covariance = torch.linalg.inv(precision)
    mean = covariance @ x.T @ y / (0.25 * temperature)
    method = HMC(chains=chains, burn_in=0.2, temperature=temperature)
    posterior = rn.fit(linear(5, Gaussian(1.0), 0.5), (x, y), method, epochs=transitions, standardize=False, jobs=1)
    w = posterior.state.weights
    assert w.shape == (chains, 0.8 * transitions, 5)
    assert float(z_scores(w, mean).abs().max()) < 5
    rows, columns = torch.tril_indices(5, 5)
    products = (w - mean)[..., rows] * (w - mean)[..., columns]
    assert float(z_scores(products, covariance[rows, columns]).abs().max()) < 5


@pytest.mark.parametrize(
    ("scales", "transitions"),
    [("gibbs", 500), pytest.param("gibbs", 5000, marks=slow), pytest.param("joint", 3000, marks=slow)],
)
def test_normal_means_agree_with_quadrature(scales, transitions):
    """y_j ~ N(w_j, 1), w with the R2D2 prior: means of w and w^2 at |z| < 5 (2e-6)."""
    a_pi, b, y = 0.3, 1.0, torch.tensor([0.3, 4.0], dtype=DOUBLE)
    exact = normal_means(a_pi, b, y.numpy())
    method = HMC(chains=1, burn_in=0.2, scales=scales)
    model = linear(2, R2D2(a_pi, b), 1.0)
    posterior = rn.fit(model, (torch.eye(2, dtype=DOUBLE), y), method, epochs=transitions, standardize=False)
    w = posterior.state.weights
    assert float(z_scores(w, exact["w"]).abs().max()) < 5
    assert float(z_scores(w.square(), exact["w2"]).abs().max()) < 5


def test_learnt_noise_agrees_with_quadrature():
    """One weight and the noise, s ~ C+(0, 1): E of w, w^2, log s^2, |z| < 5 (2e-6)."""
    g = torch.Generator().manual_seed(4)
    x = torch.randn(6, 1, generator=g, dtype=DOUBLE)
    y = 0.8 * x[:, 0] + 0.6 * torch.randn(6, generator=g, dtype=DOUBLE)
    w, log_s = np.meshgrid(np.arange(-6, 6, 0.01), np.arange(-6, 6, 0.02), indexing="ij")
    squares = sum((float(b) - w * float(a)) ** 2 for a, b in zip(x[:, 0], y, strict=True))
    log_joint = -(w**2) / 2 - squares / 2 * np.exp(-2 * log_s) - 6 * log_s + log_s - np.log1p(np.exp(2 * log_s))
    weight = np.exp(log_joint - log_joint.max())
    weight /= weight.sum()
    exact = [(weight * value).sum() for value in (w, w**2, 2 * log_s)]
    method = HMC(chains=1, burn_in=0.2)
    posterior = rn.fit(linear(1, Gaussian(1.0), None), (x, y), method, epochs=600, standardize=False)
    drawn, variance = posterior.state.weights[..., 0], posterior.state.noise["variance"][..., 0]
    found = torch.stack([drawn, drawn.square(), variance.log()], -1)
    assert float(z_scores(found, exact).abs().max()) < 5


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_noise_sweeps_leave_the_posterior_unchanged(weight):
    """20,000 outputs with the same residuals are as many chains: Kolmogorov-Smirnov at 1e-6."""
    likelihood, g = rn.likelihoods.Gaussian(), torch.Generator().manual_seed(0)
    y = torch.tensor([0.3, -0.8, 0.1], dtype=DOUBLE)[:, None].expand(3, 20_000)
    noise = likelihood.init(y)
    for _ in range(60):
        noise = likelihood.gibbs(torch.zeros_like(y), y, noise, g, weight)
    log_s = np.arange(-8, 12, 0.001)
    log_density = -0.5 * weight * 0.74 * np.exp(-2 * log_s) - 3 * weight * log_s + log_s - np.log1p(np.exp(2 * log_s))
    cdf = np.cumsum(np.exp(log_density - log_density.max()))
    found = 0.5 * noise["variance"].log().numpy()
    assert stats.kstest(found, lambda at: np.interp(at, log_s + 0.0005, cdf / cdf[-1])).pvalue > 1e-6


def test_only_learnt_noise_is_drawn():
    y = torch.zeros(3, 1)
    for likelihood in (rn.likelihoods.Gaussian(noise=2.0), rn.likelihoods.Heteroscedastic(), rn.likelihoods.Poisson()):
        noise = likelihood.init(y)
        assert likelihood.gibbs(y, y, noise) is noise


# --- coordinates


def framed(kind, prior):
    """Coordinates, a position and a frame with an h of its own."""
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
    coordinates, g = kind(rn.BayesianModel(net, prior)), torch.Generator().manual_seed(1)
    position, frame = coordinates.start(torch.randn(11, generator=g), g)
    for size in (1.0, 30.0):
        gradient = size * torch.randn(11, generator=g)
        position, frame, _ = coordinates.adopt(position, coordinates.observe(frame, gradient, 0.0))
    return coordinates, position, frame, g


PRIORS = [R2D2(), R2D2.from_r2(0.5, 2.0, 1.2), rn.priors.HorseshoePlus(), Gaussian(0.5)]


@pytest.mark.parametrize("prior", [*PRIORS[:3], rn.priors.SpikeSlab()], ids=repr)
def test_given_scales_are_a_change_of_variables(prior):
    """log p(x | s) = log N(w | 0, v) + log |dw/dx| but for a constant; sweeps and a new h leave w where it is."""
    coordinates, position, frame, g = framed(GivenScales, prior)
    read = coordinates.at(frame)
    weights = read(position)[0]
    v = torch.ones(11, dtype=DOUBLE)
    for slot in coordinates.model.bayesian:
        if slot.name in frame.scales:
            slot.of(v).copy_(prior.variance(frame.scales[slot.name]))
    torch.testing.assert_close(position, weights * torch.sqrt(1 / v + frame.curvature))
    torch.testing.assert_close(read(position)[1], -0.5 * (weights.square() / v).sum())

    moved, new = coordinates.refresh(position, frame, g)
    torch.testing.assert_close(coordinates.at(new)(moved)[0], weights, rtol=1e-12, atol=0)
    assert not torch.equal(moved, position)
    moved, new, growth = coordinates.adopt(position, coordinates.observe(frame, torch.full((11,), 50.0), 0.0))
    torch.testing.assert_close(coordinates.at(new)(moved)[0], weights, rtol=1e-12, atol=0)
    torch.testing.assert_close(moved, position * growth)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_joint_scales_are_a_change_of_variables(prior):
    """log p(x, u) = log N(w | 0, v(u)) + log |dw/dx| + log p(u) but for a constant."""
    coordinates, position, frame, _ = framed(JointScales, prior)
    read = coordinates.at(frame)
    elsewhere = position + 0.1 * torch.randn(len(position), generator=torch.Generator().manual_seed(2), dtype=DOUBLE)

    def by_hand(position):
        total = torch.zeros((), dtype=DOUBLE)
        jacobian = torch.autograd.functional.jacobian(lambda p: read(p)[0], position)[:, :11].diagonal()
        v = torch.ones(11, dtype=DOUBLE)
        for slot in coordinates.model.bayesian:
            if isinstance(slot.prior, Gaussian):
                slot.of(v).fill_(slot.prior.scale**2)
        for slot, prior in coordinates.continuous:
            u = coordinates.parts(position)[1][slot.name]
            slot.of(v).copy_(prior.log_variance(u).exp())
            total += prior.log_prob_scales(u)
        normal = torch.distributions.Normal(torch.zeros_like(v), v.sqrt())
        torch.testing.assert_close(read(position)[0] * torch.sqrt(1 / v + frame.curvature), position[:11])
        return total + normal.log_prob(read(position)[0]).sum() + jacobian.log().sum()

    difference = read(elsewhere)[1] - read(position)[1]
    torch.testing.assert_close(difference, by_hand(elsewhere) - by_hand(position))


def test_large_prior_variances_cost_no_gradients():
    """The scales are drawn from heavy tails; the data hold the weights, and 7 gradients a transition are enough.

    In units of the prior deviation alone (h = 0) the same chain takes 200.
    """
    x, y = linear_problem()
    chain, batch = built(linear(5, rn.priors.Horseshoe(), 0.5), 200, burn_in=0.75), (x, y[:, None])
    g = torch.Generator().manual_seed(0)
    state, calls, call = chain.init(batch[1], g), 0, chain.model.call

    def counted(*arguments, **options):
        nonlocal calls
        calls += 1
        return call(*arguments, **options)

    with lent_generator(0, CPU):
        for _ in range(150):
            state, _ = chain.step(state, batch, g)
        chain.model.call = counted
        for _ in range(50):
            state, _ = chain.step(state, batch, g)
    assert calls < 50 * 25


# --- the run


def built(model, steps, **settings):
    return HMC(chains=1, **settings).build(model, n=10, steps=steps)


@both_ways
def test_a_chain_goes_on_from_a_file_after_any_step(scales, tmp_path):
    """Bitwise, through the warm-up's windows (they end at steps 2, 13 and 21) and the draws that follow."""
    g = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    chain = built(rn.BayesianModel(net, R2D2()), 30, burn_in=0.75, scales=scales, max_tree_depth=3)
    x = torch.randn(10, 2, generator=g)
    batch, path = (x, x[:, :1] + 0.3 * torch.randn(10, 1, generator=g)), tmp_path / "chain.safetensors"
    state, windows = chain.init(batch[1], g), []
    template = chain.init(batch[1], torch.Generator().manual_seed(5))
    for k in range(30):
        checkpoint.write(path, {"generator": g.get_state(), **flatten(state)}, {})
        stored = checkpoint.read(path)[0]
        resumed = torch.Generator()
        resumed.set_state(stored.pop("generator"))
        with lent_generator(k, CPU):
            state, info = chain.step(state, batch, g)
        with lent_generator(k, CPU):
            again, told = chain.step(unflatten(template, stored), batch, resumed)
        windows.append(int(state.nuts.window))
        one, other = flatten(state), flatten(again)
        assert all(torch.equal(one[name], other[name]) for name in one)
        assert torch.equal(info.nll, told.nll)
        assert torch.equal(g.get_state(), resumed.get_state())
    assert windows == [0] + [1] * 11 + [2] * 8 + [3] * 10
    assert int(state.kept.number) == 8


def test_draws_are_thinned_and_capped():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(10, 1, generator=g, dtype=DOUBLE)
    data, model = (x, x[:, 0]), linear(1, Gaussian(1.0), 0.5)
    fit = {"epochs": 44, "standardize": False, "jobs": 1}
    every = rn.fit(model, data, HMC(chains=1), **fit).state.weights
    thinned = rn.fit(model, data, HMC(chains=1, thin=3), **fit).state.weights
    assert torch.equal(thinned, every[:, 2::3])
    assert len(every.unique()) == 22
    capped = rn.fit(model, data, HMC(chains=1, memory=10 * 16), **fit).state.weights  # ten draws of weight and noise
    assert torch.equal(capped, every[:, 3::4])
    with pytest.raises(rn.ParameterError, match=r"^memory=8 is out of range: two draws of this network need 32 bytes$"):
        rn.fit(model, data, HMC(chains=1, memory=8), **fit)


def test_chains_differ_and_the_network_stays():
    x, y = linear_problem()
    model = linear(5, R2D2(), None)
    before = model.own_weights()[0].clone()
    posterior = rn.fit(model, (x[:20], y[:20]), HMC(chains=2, max_tree_depth=4), epochs=8, jobs=1)
    one, other = posterior.state.weights
    assert not torch.equal(one, other)
    assert torch.equal(model.own_weights()[0], before)
    assert posterior.predict(x[:3]).samples.shape == (8, 3)


def test_what_does_not_suit_is_refused_in_one_line(monkeypatch):
    def refused(match, net=None, prior=None, steps=10, **settings):
        net = nn.Linear(2, 1) if net is None else net
        with pytest.raises(rn.ParameterError, match=match) as caught:
            HMC(**settings).build(rn.BayesianModel(net, prior), n=10, steps=steps)
        assert "\n" not in str(caught.value)

    normalised = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    refused("^algorithm=HMC needs a prior on every parameter, and '1.weight' has none: .*norm=Gaussian", normalised)
    for prior in (rn.priors.SpikeSlab(), R2D2.adaptive()):
        what = f"^scales='joint' does not suit the prior {type(prior).__name__} of 'weight'.*: use scales='gibbs'$"
        refused(what, prior=prior, scales="joint")
    refused("^algorithm=HMC keeps no draw: the burn-in leaves 5 of 10 transitions, and thin=6; use more epochs", thin=6)
    numbers = {"burn_in": (0.0, 1.0, "half"), "target_accept": (0.0, 1), "chains": (0, 1.5), "temperature": (0, -1.0)}
    for name, values in {**numbers, "scales": ("both",), "start": ("zero",), "max_tree_depth": (0,)}.items():
        for value in values:
            refused(f"^{name}={value!r} is out of range", **{name: value})
    monkeypatch.setitem(sys.modules, "pyro", None)
    refused(r"^algorithm=HMC needs pyro-ppl: pip install 'r2d2net\[mcmc\]'$")


def test_a_network_in_float32_is_sampled_in_float64():
    g = torch.Generator().manual_seed(0)
    chain = built(rn.BayesianModel(nn.Linear(2, 1), R2D2()), 4, max_tree_depth=2)
    x = torch.randn(10, 2, generator=g)
    state = chain.init(x[:, :1], g)
    with lent_generator(0, CPU):
        for _ in range(4):
            state, info = chain.step(state, (x, x[:, :1]), g)
    assert state.position.dtype == state.frame.scales["weight"].T.dtype == DOUBLE
    assert state.kept.draws.weights.dtype == state.noise["variance"].dtype == info.nll.dtype == torch.float32
    assert math.isfinite(info.nll)
