"""Negative binomial likelihood, and Poisson's with an offset: scipy, Gibbs draw by its prior, planted parameters."""

import math

import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net.distributions.primitives import standard_gamma
from r2d2net.likelihoods import NegativeBinomial, Poisson
from r2d2net.likelihoods.base import Unit
from r2d2net.likelihoods.grid_draws import draw_from_grid
from r2d2net.likelihoods.negative_binomial import GRID, LEAST, MOST, DispersedCounts

UNIT = Unit(torch.zeros(()), torch.ones(()))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def laws_of(prediction):
    pairs = zip(prediction.samples, prediction.concentration, strict=True)
    return [stats.nbinom(float(k), (k / (k + mean)).numpy()) for mean, k in pairs]


@pytest.fixture
def prediction():
    concentration = torch.tensor([0.4, 3.0], dtype=torch.float64).reshape(2, 1)
    return DispersedCounts((2 * normal(2, 6)).exp(), concentration)


def test_by_scipy(prediction):
    y = torch.tensor([0, 1, 2, 5, 20, 0], dtype=torch.float64)
    laws = laws_of(prediction)
    for found, name in ((prediction.log_prob(y).exp(), "pmf"), (prediction.cdf(y), "cdf")):
        torch.testing.assert_close(found, torch.from_numpy(sum(getattr(law, name)(y.numpy()) for law in laws) / 2))
    torch.testing.assert_close(prediction.aleatoric.square(), torch.from_numpy(sum(law.var() for law in laws) / 2))


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.999])
def test_quantiles_are_the_smallest_count_that_reaches_a_probability(prediction, probability):
    found = prediction.quantile(probability)
    assert bool((found >= 0).all())
    assert bool((prediction.cdf(found) >= probability).all())
    assert bool((prediction.cdf(found - 1) < probability).all())


def test_gibbs_keeps_the_prior_of_the_concentration():
    """Of (concentration, counts) from the joint law, one update leaves the prior; 20,000 columns at once."""
    draw, columns = torch.Generator().manual_seed(0), 20_000
    grid = torch.logspace(math.log10(LEAST), math.log10(MOST), GRID, dtype=torch.float64)
    k = draw_from_grid(grid, (-grid.log() - 1 / grid).unsqueeze(1).expand(-1, columns), draw)
    output = torch.randn(4, columns, generator=draw, dtype=torch.float64) + 1
    y = torch.poisson(output.exp() * standard_gamma(k.expand(4, -1).contiguous(), draw) / k, generator=draw)
    noise = {"concentration": k, "offset": torch.zeros(columns, dtype=torch.float64)}
    new = NegativeBinomial().gibbs(output, y, noise, draw)["concentration"]
    assert stats.ks_2samp(new, k).pvalue > 1e-4  # false alarm 1e-4
    assert float((new != k).double().mean()) > 0.5


def test_variational_steps_find_the_concentration():
    rows = torch.from_numpy(stats.nbinom(2.5, 2.5 / (2.5 + 6)).rvs((1500, 64, 1), random_state=0)).float()
    likelihood = NegativeBinomial()
    noise = likelihood.init(rows[0])
    noise["offset"] = torch.tensor([math.log(6.0)])
    for t, y in enumerate(rows, 1):
        noise = likelihood.observe(torch.zeros(64, 1), y, noise, max(0.01, 1 / t))
    assert float(noise["concentration"]) == pytest.approx(2.5, rel=0.15)


def test_chains_find_slope_and_dispersion_of_large_counts():
    draw = torch.Generator().manual_seed(0)
    x = normal(400, 1).float()
    mean = torch.exp(7 + 0.5 * x[:, 0])
    y = torch.poisson(mean * standard_gamma(torch.full((400,), 4.0), draw) / 4, generator=draw)
    model = rn.BayesianModel(torch.nn.Linear(1, 1), rn.priors.Gaussian(), NegativeBinomial())
    posterior = rn.fit(model, (x, y), rn.inference.MCLMC(), seed=0, verbose=False)
    prediction = posterior.predict(torch.tensor([[-1.0], [1.0]]), 50)
    # standard error of a log mean at x = 1 about .5 / sqrt(400) * sqrt(2) = .035, of log k .07: five of them
    torch.testing.assert_close(prediction.mean.log(), torch.tensor([6.5, 7.5]), atol=0.18, rtol=0)
    assert abs(math.log(float(prediction.concentration.mean()) / 4)) < 0.35
    low, high = prediction.interval(0.9)
    assert bool((low >= 0).all())
    assert bool((high > low).all())


def test_poisson_with_an_offset_is_poisson():
    y = torch.tensor([[3.0], [5.0], [1.0]])
    likelihood = Poisson(centered=True)
    noise = likelihood.init(y)
    torch.testing.assert_close(noise["offset"].exp(), torch.tensor([3.0]))
    output = normal(3, 1).float()
    plain = Poisson().log_prob(output + noise["offset"], y, {})
    torch.testing.assert_close(likelihood.log_prob(output, y, noise), plain)
    assert float(likelihood.predict(torch.zeros(1, 3, 1), noise, UNIT).mean[0]) == pytest.approx(3)


def test_distribution_function_of_poisson():
    rate = normal(2, 5).exp()
    found = rn.Counts(rate).cdf(torch.tensor([-1.0, 0.0, 1.0, 2.5, 9.0]))
    expected = stats.poisson(rate.numpy()).cdf([-1.0, 0.0, 1.0, 2.5, 9.0]).mean(0)
    torch.testing.assert_close(found, torch.from_numpy(expected))


@pytest.mark.parametrize("likelihood", [Poisson(centered=True), NegativeBinomial()], ids=repr)
def test_counts_of_rows_out_of_all_reach_are_finite_and_wide(likelihood):
    noise = likelihood.init(torch.tensor([[3.0], [5.0], [1.0]]))
    slopes = torch.linspace(0.4, 0.6, 40).reshape(-1, 1, 1)
    found = likelihood.predict(slopes * torch.tensor([-1e6, 1e6, 0.0]).reshape(1, 3, 1), noise, UNIT)
    low, high = found.interval(0.9)
    assert bool((low >= 0).all())
    assert bool((high[:2] > 1e6).all() and high.isfinite().all())
    assert bool((low[:2] == 0).all())
    assert bool((found.std[:2] > found.mean[:2]).all())


@pytest.mark.parametrize("likelihood", [Poisson(centered=True), NegativeBinomial()], ids=repr)
def test_rates_of_next_to_nothing_stay_so(likelihood):
    """A logarithm of -25 is a rate that rows of zeros have, and nothing that is out of reach."""
    noise = likelihood.init(torch.tensor([[3.0], [5.0], [1.0]]))
    found = likelihood.predict(torch.full((40, 1, 1), -25.0), noise, UNIT)
    assert float(found.mean) < 1e-9
    assert float(found.log_prob(torch.zeros(1, 1))) == pytest.approx(0, abs=1e-6)


def test_quantiles_of_poisson_laws_beside_much_larger_ones():
    """The search goes on for the larger ones, and those of a rate of 0 stay at 0."""
    found = rn.Counts(torch.tensor([[0.0, 1e9, 2.0]])).quantile(0.05)
    assert found[0] == 0
    assert found[2] == stats.poisson(2).ppf(0.05)
    assert float(found[1]) == pytest.approx(stats.poisson(1e9).ppf(0.05), rel=1e-6)
