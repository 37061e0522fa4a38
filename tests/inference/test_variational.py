"""The mean-field engine: weights that the data do not touch, and the noise it learns."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import nn

import r2d2net as rn
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
    drawn = running.sample(state, 1, g)[0].abs().double().numpy()
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


@pytest.mark.parametrize(
    ("net", "n", "warm_up"),
    [
        (nn.Linear(6, 1), 119, 0.0),
        (nn.Linear(6, 1), 120, 0.6),
        # a convolution's weights see every patch: 18 inputs, not the pixels of an image
        (nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.LazyLinear(1)), 359, 0.0),
        (nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.LazyLinear(1)), 360, 0.6),
    ],
)
def test_the_kl_rises_slowly_where_rows_are_many_for_each_input_of_the_first_layer(net, n, warm_up):
    net(torch.zeros(2, 6) if isinstance(net, nn.Linear) else torch.zeros(2, 2, 8, 8))
    running = rn.inference.SVGI().build(rn.BayesianModel(net), n=n, steps=100)
    assert [running.temperature(t) for t in (1, 30, 60, 100)] == pytest.approx(
        [1 / 60, 0.5, 1, 1] if warm_up else [1, 1, 1, 1]
    )


class Sum(nn.Module):
    """x (a + b): autograd gives both parameters one and the same gradient tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(3, 1)), nn.Parameter(torch.ones(3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.a + self.b)


def test_parameters_that_share_a_gradient_are_scaled_once():
    model = rn.BayesianModel(Sum(), rn.priors.Gaussian(), rn.likelihoods.Gaussian(noise=1.0))
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
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 3, generator=g), torch.randn(5, 1, generator=g)
    state, seen, swept = running.init(y, g), [], []
    call, refresh = model.call, running.refresh_all
    monkeypatch.setattr(
        model, "call", lambda net, p, x: (seen.append(p["weight"].detach().clone()), call(net, p, x))[1]
    )
    monkeypatch.setattr(running, "refresh_all", lambda *a: (swept.append(a[2].weights.clone()), refresh(*a))[1])
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
