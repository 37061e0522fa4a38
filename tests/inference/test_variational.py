"""The mean-field engine: weights that the data do not touch, and the noise it learns."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import nn

import r2d2net as rn
from r2d2net import cache_blocks
from r2d2net.inference import variational

STEPS = 500


@pytest.mark.parametrize(
    ("prior", "cdf"),
    [
        # |w| ~ generalised double Pareto: P(|w| < x) = 1 - (1 + x / (alpha eta))^-alpha with alpha = eta = 1
        (rn.priors.GeneralizedDoublePareto(), lambda x: 1 - 1 / (1 + x)),
        # Laplace(1) given a gamma scale of shape 1/2, by a large sample of it
        (rn.priors.DirichletLaplace(), None),
    ],
    ids=["double-pareto", "dirichlet-laplace"],
)
def test_weights_without_data_keep_their_prior(prior, cdf):
    """With noise that drowns the data, SVGI's draws of 3,000 weights have the prior's distribution.

    Kolmogorov-Smirnov at 1e-4. Steps on rho = log s, which fall faster than they rise, fail it with
    statistics .59 and .98.
    """
    model = rn.BayesianModel(nn.Linear(3000, 1, bias=False), prior, rn.likelihoods.Gaussian(noise=1e6))
    running = rn.inference.SVGI(sweep_every=1, initial_scale=1e3).build(model, n=10, steps=STEPS)
    g = torch.Generator().manual_seed(3)
    x, y = torch.randn(10, 3000, generator=g), torch.randn(10, 1, generator=g)
    state = running.init(y, g)
    for _ in range(STEPS):
        state, _ = running.step(state, (x, y), g)
    drawn = running.source(state).sample(1, g)[0].abs().double().numpy()
    exact = prior.sample((200_000,), g).abs().double().numpy() if cdf is None else cdf
    assert kstest(drawn, exact).pvalue > 1e-4


def test_noise_follows_the_fit_within_about_an_epoch():
    """A running mean that remembers more than the present fit would stay above the residuals of the last epoch."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 3, generator=g)
    y = 10 * x[:, 0] + 0.5 * torch.randn(2000, generator=g)
    posterior = rn.fit(rn.BayesianModel(nn.Linear(3, 1)), (x, y), epochs=25, batch_size=200, seed=0)
    residual = float((posterior.predict(x, "mean").mean - y).std())
    assert posterior.history[-1]["noise"] == pytest.approx(residual, rel=0.05)
    assert np.isclose(residual, 0.5, rtol=0.1)


@pytest.mark.parametrize("value", ["0.1", np.array([0.1]), -1.0, float("nan")], ids=repr)
def test_step_sizes_are_positive_numbers_that_can_be_saved(value):
    with pytest.raises(rn.errors.ParameterError, match=r"^lr=.* is out of range: use a positive number"):
        rn.inference.SVGI(lr=value)


@pytest.mark.parametrize("n", [1, 5, 10_000])
def test_the_kl_rises_over_the_first_steps_however_many_rows_there_are(n):
    running = rn.inference.SVGI().build(rn.BayesianModel(nn.Linear(6, 1)), n=n, steps=100)
    assert [running.temperature(t) for t in (1, 30, 60, 100)] == pytest.approx([1 / 60, 0.5, 1, 1])


class Sum(nn.Module):
    """x (a + b): autograd gives both parameters one and the same gradient tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(3, 1)), nn.Parameter(torch.ones(3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.a + self.b)


def test_parameters_that_share_a_gradient_are_scaled_once(monkeypatch):
    model = rn.BayesianModel(Sum(), rn.priors.Gaussian(), rn.likelihoods.Gaussian(noise=1.0))
    monkeypatch.setattr(cache_blocks, "PIECE", 3)  # a piece for each of the two
    running = rn.inference.SVGI().build(model, n=5, steps=10)
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 3, generator=g), torch.randn(5, 1, generator=g)
    state = running.init(y, g)
    found = []
    for divisor in (1, 2):
        gradients = running._gradients(state, *running.draw(state, torch.Generator().manual_seed(1)), x, y, g)[1]
        owned = gradients.owned()
        owned.div_(divisor)
        found.append(torch.cat([*owned.mean, *owned.rho]))
    torch.testing.assert_close(found[0], 2 * found[1])


@pytest.mark.parametrize("draws", [1, 2])
def test_a_sweep_sees_the_draw_at_which_the_network_was(draws, monkeypatch):
    """So that a step draws all weights once; the gradient in log s must leave that draw as it is."""
    model = rn.BayesianModel(torch.nn.Linear(3, 1, bias=False), rn.priors.R2D2(), rn.likelihoods.Gaussian(noise=1.0))
    running = rn.inference.SVGI(sweep_every=2, draws=draws, estimator="weights").build(model, n=5, steps=10)
    running.joint = None  # which does not call the network; `test_joint_step` compares it with this step
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 3, generator=g), torch.randn(5, 1, generator=g)
    state, seen, swept = running.init(y, g), [], []
    call, refresh = model.call, running.scales.refresh
    monkeypatch.setattr(
        model, "call", lambda net, p, x: (seen.append(p["weight"].detach().clone()), call(net, p, x))[1]
    )
    monkeypatch.setattr(running.scales, "refresh", lambda *a: (swept.append(a[2].weights.clone()), refresh(*a))[1])
    for _ in range(4):
        state, _ = running.step(state, (x, y), g)
    assert len(seen) == 4 * draws
    assert len(swept) == 2
    torch.testing.assert_close(
        torch.stack(swept), torch.stack(seen[2 * draws - 1 :: 2 * draws]).flatten(1), rtol=0, atol=0
    )


@pytest.mark.parametrize("algorithm", ["SVGI", "CAVI", "SVI"])
def test_deviations_that_are_not_kept_are_the_same(algorithm, monkeypatch):
    """Networks of many weights compute them twice."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 3, generator=g), torch.randn(5, 1, generator=g)
    found = []
    for large in (variational.LARGE, 0):
        monkeypatch.setattr(variational, "LARGE", large)
        model = rn.BayesianModel(torch.nn.Linear(3, 1), rn.priors.R2D2(), rn.likelihoods.Gaussian(noise=1.0))
        method = getattr(rn.inference, algorithm)(sweep_every=2, draws=2, estimator="weights", start="he")
        running, generator = method.build(model, n=5, steps=10), torch.Generator().manual_seed(1)
        state = running.init(y, generator)
        assert (running.draw(state, torch.Generator())[1] is None) == (large == 0)
        for _ in range(5):
            state, _ = running.step(state, (x, y), generator)
        found.append(torch.cat([state.mean, state.rho, state.precision]))
    assert torch.equal(*found)


class Shift(nn.Module):
    """Adds the sum of 50 parameters, whose gradient is one number with stride 0, or every second of 100."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.a, self.stride = nn.Parameter(torch.zeros(50)), stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.stride == 0:
            return x + self.a.sum()
        both = torch.stack([self.a, torch.arange(50.0)], 1)
        return x + (both * both.detach().new_tensor([1.0, 100.0])).sum()


@pytest.mark.parametrize("stride", [0, 2])
@pytest.mark.parametrize("algorithm", ["SVGI", "SVI", "MAP"])
def test_gradients_of_any_strides_are_read_as_they_are(algorithm, stride):
    """All entries have the same gradient, so that their first moments are equal."""
    model = rn.BayesianModel(Shift(stride), rn.priors.Gaussian(), rn.likelihoods.Gaussian(noise=1.0))
    running = getattr(rn.inference, algorithm)().build(model, n=5, steps=10)
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 1, generator=g), torch.randn(5, 1, generator=g)
    state, _ = running.step(running.init(y, g), (x, y), g)
    first = state.moments["mean"].first
    assert bool(first.ne(0).all())
    if algorithm != "SVI":  # whose gradient has the prior's pull
        torch.testing.assert_close(first, first[:1].expand(50))


class Level(nn.Module):
    """A single parameter, which is also the output: a view of the draw."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.theta.expand(len(x), 1)


@pytest.mark.parametrize("settings", [{"clip": 1e6}, {"draws": 2}], ids=str)
def test_the_noise_is_learnt_from_outputs_that_are_views_of_a_draw(settings):
    found = []
    for more in ({}, settings):
        model = rn.BayesianModel(Level(), rn.priors.Gaussian())
        running = rn.inference.SVGI(estimator="weights", **more).build(model, n=200, steps=300)
        g = torch.Generator().manual_seed(0)
        y = 5 + torch.randn(200, 1, generator=g)
        state = running.init(y, g)
        for _ in range(300):
            state, _ = running.step(state, (torch.zeros(200, 1), y), g)
        found.append(float(state.noise["variance"]))
    assert found[1] == pytest.approx(found[0], rel=0.2)


class WithNothing(nn.Module):
    """A linear layer, and parameters without entries before or after it."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.before = nn.ParameterList(torch.zeros(0, 3) for _ in range(before))
        self.layer = nn.Linear(3, 1)
        self.after = nn.ParameterList(torch.zeros(0) for _ in range(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (2, 2)])
def test_parameters_without_entries_are_left_alone(before, after):
    model = rn.BayesianModel(WithNothing(before, after), rn.priors.R2D2(), rn.likelihoods.Gaussian(noise=1.0))
    running = rn.inference.SVGI(sweep_every=1).build(model, n=5, steps=10)
    g = torch.Generator().manual_seed(0)
    y = torch.randn(5, 1, generator=g)
    state, info = running.step(running.init(y, g), (torch.randn(5, 3, generator=g), y), g)
    assert torch.isfinite(info.nll)
    assert torch.isfinite(state.mean).all()
