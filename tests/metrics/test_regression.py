"""Measures of predicted numbers against scipy and by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import r2d2net as rn
from r2d2net import metrics
from r2d2net.prediction import Regression

RNG = np.random.default_rng(0)
Y, MEAN, STD = RNG.normal(size=20), RNG.normal(size=20), RNG.uniform(0.2, 2, 20)


def brute_crps(cdf, y, low=-40.0, high=40.0):
    """The defining integral, by quadrature on both sides of y."""
    left = integrate.quad(lambda x: cdf(x) ** 2, low, y, limit=500, epsabs=1e-11)[0]
    return left + integrate.quad(lambda x: (1 - cdf(x)) ** 2, y, high, limit=500, epsabs=1e-11)[0]


def test_errors_by_hand():
    assert metrics.mse([0, 0, 3], [1, -1, 1]) == 2
    assert metrics.rmse(torch.tensor([0.0, 0.0]), np.array([3.0, 3.0])) == 3
    assert metrics.mse(np.zeros((2, 2)), np.array([[1, 1], [1, 3]])) == 3


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, list, lambda a: torch.as_tensor(a).unsqueeze(1)])
def test_arrays_tensors_lists_and_columns_are_the_same(kind):
    for measure in (metrics.mse, metrics.rmse):
        value = measure(kind(Y), kind(MEAN))
        assert isinstance(value, float)
        assert value == measure(Y, MEAN)
    assert metrics.gaussian_nll(kind(Y), MEAN, kind(STD)) == metrics.gaussian_nll(Y, MEAN, STD)
    assert metrics.crps_gaussian(kind(Y), MEAN, kind(STD)) == metrics.crps_gaussian(Y, MEAN, STD)


def test_half_precision_tensors_are_read():
    y = torch.tensor([1.0, 2.0])
    assert metrics.mse(y.bfloat16(), y.half()) == 0
    assert metrics.mse(y.requires_grad_(), y) == 0


def test_gaussian_nll():
    np.testing.assert_allclose(metrics.gaussian_nll(Y, MEAN, STD), -stats.norm.logpdf(Y, MEAN, STD).mean())
    rows = Y.reshape(5, 4), MEAN.reshape(5, 4), STD.reshape(5, 4)  # four outputs taken together
    np.testing.assert_allclose(metrics.gaussian_nll(*rows), -stats.norm.logpdf(*rows).sum(1).mean())


def test_nll_of_a_regression_is_that_of_its_mixture():
    samples, noise = RNG.normal(size=(6, 20)), 0.49
    prediction = Regression(torch.as_tensor(samples), torch.tensor(noise, dtype=torch.float64))
    density = stats.norm.pdf(Y, samples, 0.7).mean(0)
    np.testing.assert_allclose(metrics.nll(Y, prediction), -np.log(density).mean())
    one = Regression(torch.as_tensor(samples[:1]), torch.tensor(noise, dtype=torch.float64))
    np.testing.assert_allclose(metrics.nll(Y, one), metrics.gaussian_nll(Y, samples[0], np.full(20, 0.7)))


def test_coverage_and_width_by_hand():
    low, high = [0, 0, 0, 0], [1, 1, 1, 3]
    assert metrics.coverage([0, 1, 1.5, 2], low, high) == 0.75  # both ends belong
    assert metrics.interval_width(low, high) == 1.5


def test_central_intervals_cover_what_they_promise():
    """20,000 normals: the share's deviation is .0021; five of them, false alarm 6e-7."""
    y = np.random.default_rng(1).normal(size=20_000)
    reach = stats.norm.ppf(0.95)
    assert abs(metrics.coverage(y, np.full(20_000, -reach), np.full(20_000, reach)) - 0.9) < 0.0106


# --- CRPS


def test_crps_of_a_normal_is_the_integral():
    brute = [brute_crps(stats.norm(m, s).cdf, y) for y, m, s in zip(Y, MEAN, STD, strict=True)]
    np.testing.assert_allclose(metrics.crps_gaussian(Y, MEAN, STD), np.mean(brute), rtol=1e-8)


def test_crps_of_a_narrow_normal_is_the_absolute_error():
    np.testing.assert_allclose(metrics.crps_gaussian(Y, MEAN, np.full(20, 1e-9)), np.abs(Y - MEAN).mean(), rtol=1e-7)


def test_crps_of_a_mixture_is_the_integral(monkeypatch):
    samples, noise = RNG.normal(size=(5, 4)), RNG.uniform(0.1, 1, (5, 4))
    prediction = Regression(torch.as_tensor(samples), torch.as_tensor(noise))

    def cdf(k):
        return lambda x: stats.norm.cdf(x, samples[:, k], np.sqrt(noise[:, k])).mean()

    brute = [brute_crps(cdf(k), Y[k]) for k in range(4)]
    np.testing.assert_allclose(metrics.crps(Y[:4], prediction), np.mean(brute), rtol=1e-8)
    monkeypatch.setattr("r2d2net.metrics.ranked_probability.PAIRS", 30)  # one row at a time
    np.testing.assert_allclose(metrics.crps(Y[:4], prediction), np.mean(brute), rtol=1e-8)


def test_crps_of_a_mixture_of_one_is_the_normal_s():
    prediction = Regression(torch.as_tensor(MEAN)[None, :, None], torch.tensor([0.25], dtype=torch.float64))
    np.testing.assert_allclose(metrics.crps(Y, prediction), metrics.crps_gaussian(Y, MEAN, np.full(20, 0.5)))


@pytest.mark.parametrize("fair", [True, False])
def test_crps_of_draws_is_the_double_sum(fair):
    samples = np.round(RNG.normal(size=(7, 20)), 1)  # with ties
    pairs = np.abs(samples[:, None] - samples[None]).sum((0, 1)) / (7 * 6 if fair else 49)
    brute = np.abs(samples - Y).mean(0) - 0.5 * pairs
    np.testing.assert_allclose(metrics.crps_samples(Y, samples, fair=fair), brute.mean())


def test_crps_of_draws_without_fairness_is_that_of_the_empirical_distribution():
    samples = RNG.normal(size=5)
    grid = np.sort(np.append(samples, Y[0]))
    cdf = (samples[None] <= grid[:-1, None]).mean(1) - (grid[:-1] >= Y[0])
    np.testing.assert_allclose(
        metrics.crps_samples(Y[:1], samples[:, None], fair=False), np.sum(cdf**2 * np.diff(grid)), rtol=1e-12
    )


def test_the_fair_estimator_has_no_bias():
    """50,000 sets of 3 draws of a normal against the closed form: five standard errors, false alarm 6e-7."""
    rng, y = np.random.default_rng(2), 0.7
    sets = rng.normal(size=(3, 50_000))
    each = np.abs(sets - y).mean(0) - np.abs(sets[:, None] - sets[None]).sum((0, 1)) / 12
    value, exact = metrics.crps_samples(np.full(50_000, y), sets), metrics.crps_gaussian([y], [0.0], [1.0])
    error = each.std() / math.sqrt(50_000)
    assert abs(value - exact) < 5 * error
    assert abs(metrics.crps_samples(np.full(50_000, y), sets, fair=False) - exact) > 20 * error


# --- errors


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.mse([1, 2], [1, 2, 3]), r"mean has shape \(3,\) and y \(2,\): they must agree"),
        (lambda: metrics.mse(np.ones((2, 3)), np.ones((3, 2))), "mean has shape"),
        (lambda: metrics.mse([1, math.nan], [1, 2]), r"y holds nan at \(1,\): remove or fill"),
        (lambda: metrics.mse([1, 2], [1, math.inf]), r"mean holds inf at \(1,\)"),
        (lambda: metrics.mse([], []), r"y has shape \(0,\): give at least one row"),
        (lambda: metrics.mse(3.0, 3.0), r"y has shape \(\): give at least one row"),
        (lambda: metrics.mse(["a"], [1]), "y has dtype <U1: give real numbers"),
        (lambda: metrics.mse([[1], [1, 2]], [1]), "y is no array of numbers"),
        (lambda: metrics.gaussian_nll([1.0], [1.0], [0.0]), "std holds 0: give positive"),
        (lambda: metrics.crps_gaussian([1.0], [1.0], [-1.0]), "std holds -1: give positive"),
        (lambda: metrics.coverage([1.0, 1.0], [0.0, 2.0], [1.0, 1.0]), "low exceeds high at entry 1"),
        (lambda: metrics.interval_width([1.0], [1.0, 2.0]), r"low has shape \(1,\) and high \(2,\)"),
        (lambda: metrics.crps_samples([1.0], [[1.0]]), "samples holds 1 draw"),
        (lambda: metrics.crps_samples([1.0, 2.0], [[1.0], [2.0]]), r"samples has shape \(2, 1\), y \(2,\)"),
        (lambda: metrics.crps([1.0], np.ones((3, 1))), "prediction is a ndarray: give a regression's"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(rn.DataError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
