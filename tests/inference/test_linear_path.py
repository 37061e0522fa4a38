"""A linear path drawn inside the chains of MCLMC: Geweke's test of y = A x + f(x), planted faults, runs and networks.

    A, sigma^2, g, s ~ as in `linear_gibbs_proofs`,   w ~ N(0, 1),   f(x) = w_3 tanh(w_1 x_1 + w_2 x_2),
    y ~ N(A x + f(x), sigma^2)

Chains start at exact draws of all this; then data are drawn given each chain, and an epoch of MCLMC moves the chain
given its data. After some rounds the chains must still be draws of the joint law. p-values are Bonferroni's over 77
statistics: sound ones above 1e-3 at a pinned seed (a false alarm in 1e-3 of the seeds), planted faults below 1e-6.
"""

import math

import pytest
import torch
from torch import nn

import r2d2net as rn
from linear_gibbs_proofs import design, exact_draw, features, hyper_of, largest_difference
from r2d2net import nets
from r2d2net.inference import MCLMC, chain_potential
from r2d2net.inference.base import flatten
from r2d2net.inference.chain_gibbs import PATH, ChainGibbs, path_of
from r2d2net.inference.layered_gradient import slope_of
from r2d2net.priors import R2D2, Gaussian, Horseshoe

DOUBLE = torch.float64
SOUND, FAULTY = 1e-3, 1e-6
STEP = 1.5  # of the trajectories: three in five are accepted


def small_path(inputs=2):
    beside = nn.Sequential(nn.Linear(inputs, 1, bias=False), nn.Tanh(), nn.Linear(1, 1, bias=False))
    with torch.random.fork_rng():
        return nets.LinearPath(beside, inputs).to(DOUBLE)


def joint_test(prior, monkeypatch, *, chains=3000, rounds=6, rows=5, seed=0):
    """Largest difference between the chains after some rounds and exact draws."""
    generator = torch.Generator().manual_seed(seed)
    x, hyper = design(rows, 2), hyper_of(prior)
    model = rn.BayesianModel(small_path(), {PATH: prior, "*": Gaussian(1.0)})
    trainer = MCLMC(chains=chains, sweep_steps=4, adjusted=True).build(model, n=rows, steps=20)
    trainer.gibbs.hyper = hyper
    slot = trainer.gibbs.path
    assert slot is not None
    state = trainer.init(torch.zeros(rows, 1, dtype=DOUBLE), generator)

    def drawn():
        path = exact_draw(x, hyper, chains, generator)
        weights = torch.randn(chains, model.size, generator=generator, dtype=DOUBLE)
        slot.of(weights).copy_(path.weights.unsqueeze(1))
        return path, weights

    def outputs(weights):
        return trainer.potential.networks(weights, state.start.fixed, state.buffers, x)

    def seen(path, weights):
        beside = outputs(weights) - x @ slot.of(weights).mT
        return features(x, hyper, path) | {"f(x_1)": beside[:, 0, 0], "w_1": weights[:, 2], "w_3": weights[:, 4]}

    path, weights = drawn()
    variance = path.variance.unsqueeze(-1)
    precision = torch.ones(chains, model.size, dtype=DOUBLE)
    spread = torch.exp(-2 * path.log_g.unsqueeze(-1)) / (variance * prior.variance(path.scales))
    slot.of(precision).copy_(spread.unsqueeze(1))
    state = state._replace(
        step=torch.tensor(20),
        start=state.start._replace(rho=torch.zeros_like(state.start.rho)),  # coordinates of unit data precision
        weights=weights,
        prior=state.prior._replace(precision=precision, path={PATH: path}),
        noise={"variance": variance},
        step_size=state.step_size._replace(value=torch.full_like(state.step_size.value, STEP)),
    )
    batch = None

    def own_rows(likelihood, y, noise, number):
        own, targets = noise["variance"].unsqueeze(1), batch[1]
        return lambda output: -0.5 * ((targets - output).square() / own + own.log()).squeeze(-1)

    monkeypatch.setattr(chain_potential, "row_log_likelihoods", own_rows)
    monkeypatch.setattr(chain_potential, "slope_of", lambda likelihood, *known: slope_of(None, *known))
    for _ in range(rounds):
        noise = torch.randn(chains, rows, 1, generator=generator, dtype=DOUBLE)
        batch = x, outputs(state.weights) + state.noise["variance"].sqrt().unsqueeze(1) * noise
        moved, output = trainer._move(state, (x, batch[1][0]), generator, learns=False)
        state = trainer._draw_given_weights(moved, batch, output, generator)
    assert torch.equal(slot.of(state.weights).squeeze(1), state.prior.path[PATH].weights)
    return largest_difference(seen(state.prior.path[PATH], state.weights), seen(*drawn()))


@pytest.mark.parametrize("prior", [R2D2(a_pi=0.5), Gaussian(), Horseshoe()], ids=lambda prior: type(prior).__name__)
def test_an_epoch_leaves_the_joint_law_of_path_and_network_unchanged(prior, monkeypatch):
    z, worst, p_value = joint_test(prior, monkeypatch)
    assert p_value > SOUND, (worst, z)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [R2D2(a_pi=0.5), R2D2.adaptive()], ids=lambda prior: type(prior).__name__)
def test_many_chains_leave_the_joint_law_of_path_and_network_unchanged(prior, monkeypatch):
    z, worst, p_value = joint_test(prior, monkeypatch, chains=20_000, rounds=12, seed=1)
    assert p_value > SOUND, (worst, z)


def with_old_path(draw):
    """Residuals from which the old A is not taken away: y - A x - f(x)."""

    def faulty(self, state, weights, output, batch, *rest, **how):
        return draw(self, state, weights, output + batch[0] @ self.path.of(weights).mT, batch, *rest, **how)

    return faulty


def with_old_network(draw):
    """The path of the targets themselves, as if f were zero."""

    def faulty(self, state, weights, output, batch, *rest, **how):
        return draw(self, state, weights, batch[0] @ self.path.of(weights).mT, batch, *rest, **how)

    return faulty


def with_variance_for_precision(draw):
    """The prior's variance of A where its precision belongs."""

    def faulty(self, *arguments, **how):
        state, weights, noise = draw(self, *arguments, **how)
        precision = state.precision.clone()
        self.path.of(precision).reciprocal_()
        return state._replace(precision=precision), weights, noise

    return faulty


def with_deviation_for_variance(draw):
    """sigma where sigma^2 belongs."""

    def faulty(self, *arguments, **how):
        state, weights, noise = draw(self, *arguments, **how)
        return state, weights, {"variance": noise["variance"].sqrt()}

    return faulty


FAULTS = [(with_old_path, 3000), (with_old_network, 3000)]
FAULTS += [
    pytest.param(with_deviation_for_variance, 20_000, marks=pytest.mark.slow),
    # A itself is drawn anew: it shows in what the network learns
    pytest.param(with_variance_for_precision, 20_000, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("fault", "chains"), FAULTS)
def test_a_fault_in_the_draw_of_the_path_is_seen(fault, chains, monkeypatch):
    monkeypatch.setattr(ChainGibbs, "draw_path", fault(ChainGibbs.draw_path))
    z, worst, p_value = joint_test(R2D2(a_pi=0.5), monkeypatch, chains=chains, rounds=12)
    assert p_value < FAULTY, (worst, z)


# --- a network that is frozen: A has the posterior of LinearGibbs on what it leaves


def bent_table(rows=40, inputs=3, seed=3):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inputs, generator=g)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    y = x[:, 0] - 0.5 * x[:, 1] + torch.tanh(2 * x[:, 2]) + 0.5 * torch.randn(rows, generator=g)
    return x, y - y.mean()


def test_beside_a_frozen_network_the_path_has_the_posterior_of_linear_gibbs():
    """Means and deviations of A over draws: within 5 Monte Carlo errors, which are about 1 / sqrt(200) of them."""
    x, y = bent_table()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        path = nets.mlp(3, [4], 1, linear=True)
    path.net.requires_grad_(False)
    with torch.no_grad():
        left = y - path.net(x).squeeze(-1)
    options = {"verbose": False, "standardize": False, "seed": 1}
    prior = R2D2(a_pi=0.5)
    chains = rn.fit(
        rn.BayesianModel(path, prior), (x, y), MCLMC(start_steps=40, sweep_steps=2), epochs=400, **options
    ).source.state
    layer = rn.BayesianModel(nn.Linear(3, 1, bias=False), prior)
    exact = rn.fit(layer, (x, left), "lineargibbs", epochs=1500, **options).source.state
    a, b = chains.weights.flatten(0, 1), exact.weights.flatten(0, 1)
    assert a.shape[1] == 3
    spread = b.std(0)
    assert float(((a.mean(0) - b.mean(0)) / spread).abs().max()) < 5 / math.sqrt(200)
    assert float((a.std(0) / spread).log().abs().max()) < 5 / math.sqrt(2 * 200)
    noise, expected = (state.noise["variance"].flatten().log() for state in (chains, exact))
    assert abs(float((noise.mean() - expected.mean()) / expected.std())) < 5 / math.sqrt(200)


# --- runs


def test_chains_with_a_path_are_saved_and_loaded(tmp_path):
    x, y = bent_table()
    net = nets.mlp(3, [4], 1, linear=True)
    posterior = rn.fit(rn.BayesianModel(net), (x, y), MCLMC(sweep_steps=3), epochs=8, verbose=False)
    posterior.save(tmp_path / "run")
    again = rn.load(tmp_path / "run", nets.mlp(3, [4], 1, linear=True))
    assert torch.equal(again.predict(x, 6).samples, posterior.predict(x, 6).samples)
    for name, tensor in flatten(posterior.state).items():
        assert torch.equal(flatten(again.state)[name], tensor), name
    with pytest.raises(rn.errors.CheckpointError) as caught:
        rn.load(tmp_path / "run", nets.mlp(3, [4], 1))
    assert "\n" not in str(caught.value)


def test_two_outputs_have_paths_of_their_own():
    x, y = bent_table(60)
    both = torch.stack([y, 3 * x[:, 2] + 0.1 * y], 1)
    net = nets.mlp(3, [4], 2, linear=True)
    posterior = rn.fit(rn.BayesianModel(net), (x, both), "mclmc", epochs=20, verbose=False)
    error = (posterior.predict(x).mean - both).square().mean(0) / both.var(0)
    assert float(error.max()) < 0.4


@pytest.mark.parametrize(
    ("likelihood", "options", "found"),
    [
        (rn.likelihoods.Gaussian(), {}, True),
        (rn.likelihoods.Gaussian(noise=0.5), {}, False),
        (rn.likelihoods.Categorical(), {}, False),
        (rn.likelihoods.Gaussian(), {"deterministic": [PATH]}, False),
        (rn.likelihoods.Gaussian(), {"frozen": [PATH]}, False),
    ],
)
def test_the_path_is_drawn_exactly_where_it_is_conjugate(likelihood, options, found):
    model = rn.BayesianModel(nets.mlp(3, [4], 2, linear=True), R2D2(), likelihood, **options)
    assert (path_of(model) is not None) == found
    assert path_of(rn.BayesianModel(nets.mlp(3, [4], 2), R2D2(), likelihood)) is None


# --- the network


def test_mlp_puts_a_linear_path_beside_hidden_layers():
    net = nets.mlp(3, [4], 2, linear=True)
    assert isinstance(net, nets.LinearPath)
    assert isinstance(net.net, nets.MLP)
    assert next(net.named_parameters())[0] == PATH
    x = torch.randn(5, 3)
    assert torch.allclose(net(x), x @ net.linear.weight.T + net.net(x))
    assert type(nets.mlp(3, [], 2, linear=True)) is nets.MLP  # linear as it is
    assert type(nets.mlp(3, [4], 2)) is nets.MLP
    with pytest.raises(rn.ParameterError, match=r"^linear='yes'.*: use True or False$"):
        nets.mlp(3, [4], linear="yes")


@pytest.mark.filterwarnings("ignore:the chains of the linear fit disagree")  # on some rows, after so few epochs
def test_a_path_goes_beside_any_network_of_one_input():
    torch.manual_seed(0)
    images = torch.randn(6, 1, 4, 4)
    conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1))
    net = nets.LinearPath(conv, 16)
    assert torch.allclose(net(images), conv(images) + images.flatten(1) @ net.linear.weight.T)
    flat = nets.LinearPath(nn.Sequential(nn.Flatten(), nn.Linear(16, 1), nn.Flatten(0)), 16)
    assert flat(images).shape == (6,)
    assert nets.LinearPath(conv.double(), 16).linear.weight.dtype == DOUBLE
    x, y = torch.randn(30, 1, 4, 4), torch.randn(30)
    for algorithm in ("mclmc", "linearfirst", "svgi"):
        fitted = rn.fit(rn.BayesianModel(nets.LinearPath(conv.float(), 16)), (x, y), algorithm, epochs=8, verbose=False)
        assert fitted.predict(x, 3).mean.shape == (30,)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nets.LinearPath("net", 3), "net='net'"),
        (lambda: nets.LinearPath(nn.Linear(3, 1), 0), "inputs=0"),
        (lambda: nets.LinearPath(nn.Linear(3, 1), 3, 1.5), "outputs=1.5"),
        (lambda: nets.LinearPath(nn.Linear(3, 2), 3)(torch.zeros(4, 3)), "outputs=1 "),
    ],
)
def test_what_cannot_be_a_path_is_refused_in_one_line(build, message):
    with pytest.raises(rn.ParameterError) as caught:
        build()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_inputs_of_another_width_are_refused_in_one_line():
    net = nets.LinearPath(nn.Linear(3, 1), 5)
    with pytest.raises(rn.DataError) as caught:
        rn.fit(rn.BayesianModel(net), (torch.randn(9, 3), torch.randn(9)), "mclmc", epochs=8, verbose=False)
    assert "\n" not in str(caught.value)
