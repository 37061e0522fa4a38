"""Gamma likelihood: scipy, the shape's maximum and Gibbs draw, planted parameters, rows far out."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net.distributions.primitives import standard_gamma
from r2d2net.errors import DataError
from r2d2net.likelihoods import Gamma
from r2d2net.likelihoods.base import Unit
from r2d2net.likelihoods.gamma import GRID, LEAST, MOST, PositiveAmounts
from r2d2net.likelihoods.grid_draws import draw_from_grid

UNIT = Unit(torch.zeros(()), torch.ones(()))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def prediction():
    return PositiveAmounts(normal(2, 6), torch.tensor([0.4, 30.0], dtype=torch.float64).reshape(2, 1))


def test_by_scipy(prediction):
    y = torch.tensor([0.01, 0.5, 1, 2.5, 7, 20], dtype=torch.float64)
    laws = [
        stats.gamma(float(k), scale=(mean.exp() / k).numpy())
        for mean, k in zip(prediction.log_mean, prediction.shape, strict=True)
    ]
    for found, name in ((prediction.log_prob(y).exp(), "pdf"), (prediction.cdf(y), "cdf")):
        torch.testing.assert_close(found, torch.from_numpy(sum(getattr(law, name)(y.numpy()) for law in laws) / 2))
    torch.testing.assert_close(prediction.aleatoric.square(), torch.from_numpy(sum(law.var() for law in laws) / 2))
    torch.testing.assert_close(prediction.mean, torch.from_numpy(sum(law.mean() for law in laws) / 2))


@pytest.mark.parametrize("probability", [1e-4, 0.05, 0.5, 0.999])
def test_quantiles_invert_and_are_positive(prediction, probability):
    found = prediction.quantile(probability)
    assert bool((found > 0).all())
    torch.testing.assert_close(prediction.cdf(found), torch.full((6,), probability).double(), rtol=1e-5, atol=0)


def test_quantiles_too_small_for_a_number_are_positive():
    tiny = PositiveAmounts(torch.zeros(3, 2, 1), torch.full((3, 1, 1), 0.02))
    assert bool((tiny.quantile(1e-9) > 0).all())


@pytest.mark.parametrize("k", [0.05, 1.0, 40.0, 3000.0])
def test_the_shape_at_rate_one_is_the_maximum_of_the_likelihood(k):
    y = torch.from_numpy(stats.gamma(k, scale=2 / k).rvs((500, 1), random_state=0)).clamp(min=1e-30)
    likelihood, output = Gamma(), torch.zeros(500, 1, dtype=torch.float64)
    noise = likelihood.observe(output, y, likelihood.init(y), 1.0)
    noise["shape"].requires_grad_()
    likelihood.log_prob(output, y, noise).mean().backward()
    assert abs(float(noise["shape"].grad * k)) < 1e-8
    # standard error of log k is at most sqrt(2 / 500) = .063: five of them
    assert abs(math.log(float(noise["shape"].detach()) / k)) < 0.32


def test_gibbs_keeps_the_prior_of_the_shape():
    """Of (shape, amounts) from the joint law, one update leaves the prior; 20,000 columns at once."""
    draw, columns = torch.Generator().manual_seed(0), 20_000
    grid = torch.logspace(math.log10(LEAST), math.log10(MOST), GRID, dtype=torch.float64)
    k = draw_from_grid(grid, (-grid.log() - 1 / grid).unsqueeze(1).expand(-1, columns), draw)
    output = torch.randn(4, columns, generator=draw, dtype=torch.float64) + 1
    y = (output.exp() * standard_gamma(k.expand(4, -1).contiguous(), draw) / k).clamp(min=1e-300)
    noise = {"shape": k, "offset": torch.zeros(columns, dtype=torch.float64)}
    new = Gamma().gibbs(output, y, noise, draw)["shape"]
    assert stats.ks_2samp(new, k).pvalue > 1e-4  # false alarm 1e-4
    assert float((new != k).double().mean()) > 0.9


@pytest.mark.parametrize("algorithm", [rn.inference.MCLMC(), rn.inference.SVGI()], ids=["MCLMC", "SVGI"])
def test_fits_find_slope_and_shape(algorithm):
    draw = torch.Generator().manual_seed(0)
    x = normal(400, 1).float()
    y = torch.exp(7 + 0.5 * x[:, 0]) * standard_gamma(torch.full((400,), 4.0), draw) / 4
    model = rn.BayesianModel(torch.nn.Linear(1, 1), rn.priors.Gaussian(), Gamma())
    posterior = rn.fit(model, (x, y), algorithm, seed=0, verbose=False)
    prediction = posterior.predict(torch.tensor([[-1.0], [1.0]]), 50)
    # standard error of a log mean at x = 1 about .5 / sqrt(400) * sqrt(2) = .035, of log k .07: five of them
    torch.testing.assert_close(prediction.mean.log(), torch.tensor([6.5, 7.5]), atol=0.18, rtol=0)
    assert abs(math.log(float(prediction.shape.mean()) / 4)) < 0.35
    low, high = prediction.interval(0.9)
    assert bool((low > 0).all() and (low < high).all())


def test_targets_that_are_not_positive():
    with pytest.raises(DataError, match=r"y holds 0\.0: a gamma likelihood needs numbers above 0"):
        Gamma().target(torch.tensor([1.0, 0.0]))
    predicted = PositiveAmounts(torch.zeros(2, 3), torch.ones(2, 1))
    assert predicted.log_prob(torch.tensor([1.0, -1.0, 0.0])).isinf().tolist() == [False, True, True]
    assert predicted.cdf(torch.tensor([1.0, -1.0, 0.0]))[1:].tolist() == [0, 0]


def test_rows_far_out_are_finite_wide_and_bounded_in_their_means():
    likelihood = Gamma()
    noise = {"shape": torch.tensor([5.0]), "offset": torch.tensor([math.log(100.0)])}
    slopes = torch.linspace(0.4, 0.6, 40).reshape(-1, 1, 1)
    for sign in (-1, 1):
        outputs = slopes * torch.tensor([0.0, 8.0, sign * 3e6]).reshape(1, 3, 1)
        found = likelihood.predict(outputs, noise, UNIT._replace(most=torch.tensor([400.0])))
        assert float(found.mean[0]) == pytest.approx(100, rel=1e-5)
        assert bool((found.mean <= 1200 * (1 + 1e-6)).all())
        low, high = found.interval(0.9)
        assert 0 < low[2] < 1e-6 * high[2] < torch.inf
        assert found.mean[2] < found.std[2] < torch.inf
        assert bool(found.log_prob(torch.full((3, 1), 50.0)).isfinite().all())


def test_large_shapes_keep_their_digits_in_float32():
    y = torch.tensor(np.exp(0.01 * np.random.default_rng(0).normal(size=(50, 1))))
    noise = {"shape": torch.tensor([9000.0]).double(), "offset": torch.zeros(1).double()}
    exact = Gamma().log_prob(torch.zeros(50, 1).double(), y, noise)
    single = Gamma().log_prob(torch.zeros(50, 1), y.float(), {name: value.float() for name, value in noise.items()})
    torch.testing.assert_close(single.double(), exact, atol=2e-2, rtol=0)
