"""Errors of inference: what parameters see and the function does not."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn.utils import parameters_to_vector

import r2d2net as rn
from r2d2net import metrics
from r2d2net.prediction import Regression

RNG = np.random.default_rng(0)


def test_exchanged_hidden_units_are_another_point_and_the_same_function():
    net = rn.nets.mlp(3, [6], 2, activation="tanh")
    same = rn.nets.mlp(3, [6], 2, activation="tanh")
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    with torch.no_grad():
        for parameter, value in zip(
            same.parameters(),
            (net[0].weight[order], net[0].bias[order], net[2].weight[:, order], net[2].bias),
            strict=True,
        ):
            parameter.copy_(value)
        x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
        first, second = net(x)[None], same(x)[None]
    weights = [parameters_to_vector(n.parameters()) for n in (net, same)]
    assert metrics.parameter_error(*weights) > 0.5
    assert metrics.function_error(first, second) < 1e-6
    assert metrics.function_distance(first, second) < 1e-6


def test_parameter_error_is_of_the_means():
    draws, oracle = RNG.normal(size=(50, 4)), RNG.normal(size=(30, 4))
    difference = draws.mean(0) - oracle.mean(0)
    expected = np.sqrt((difference**2).sum())
    np.testing.assert_allclose(metrics.parameter_error(draws, oracle), expected)
    np.testing.assert_allclose(metrics.parameter_error(torch.as_tensor(draws), oracle.mean(0)), expected)
    np.testing.assert_allclose(
        metrics.parameter_error(draws, oracle, relative=True), expected / np.sqrt((oracle.mean(0) ** 2).sum())
    )


@pytest.mark.parametrize("shape", [(9,), (9, 2)])
def test_function_measures_entry_by_entry(shape):
    draws, oracle = RNG.normal(size=(7, *shape)), RNG.normal(0.5, 2, size=(11, *shape))
    np.testing.assert_allclose(
        metrics.function_error(draws, oracle), np.sqrt(((draws.mean(0) - oracle.mean(0)) ** 2).mean())
    )
    a, b = draws.reshape(7, -1), oracle.reshape(11, -1)
    brute = np.mean([stats.wasserstein_distance(a[:, k], b[:, k]) for k in range(a.shape[1])])
    np.testing.assert_allclose(metrics.function_distance(draws, oracle), brute)


def test_function_measures_by_hand():
    assert metrics.function_error([[0.0], [2.0]], [[4.0]]) == 3  # means 1 and 4
    assert metrics.function_distance([[0.0], [2.0]], [[4.0]]) == 3
    assert metrics.function_error([[0.0], [2.0]], [[1.0], [1.0]]) == 0  # the same mean
    assert metrics.function_distance([[0.0], [2.0]], [[1.0], [1.0]]) == 1  # another spread
    assert metrics.function_distance([[1.0], [1.0]], [[1.0]]) == 0  # ties


def test_predictions_are_read_by_their_draws():
    noise = torch.tensor(1.0)
    first, second = torch.randn(4, 6, generator=torch.Generator().manual_seed(1)), torch.zeros(3, 6)
    expected = metrics.function_error(first, second)
    assert metrics.function_error(Regression(first, noise), Regression(second, noise)) == expected
    assert metrics.function_error(first[..., None], second) == expected


def test_the_distance_of_two_sets_of_draws_is_what_the_docstring_says():
    """2,000 pairs of 400 draws: the mean distance times sqrt(400) is 1.8 within .05."""
    draws = np.random.default_rng(3).normal(size=(2, 400, 2000))
    assert abs(metrics.function_distance(draws[0], draws[1]) * 20 - 1.8) < 0.05


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.parameter_error([1.0], [1.0, 2.0]), "weights has 1 parameters and oracle 2"),
        (lambda: metrics.parameter_error(np.ones((1, 1, 1)), [1.0]), r"weights has shape \(1, 1, 1\)"),
        (lambda: metrics.parameter_error([1.0], [0.0], relative=True), "oracle is zero"),
        (lambda: metrics.function_error([1.0], [1.0]), r"prediction has shape \(1,\): give \(draws, rows\)"),
        (lambda: metrics.function_error([[1.0]], [[1.0, 2.0]]), "use the same inputs"),
        (lambda: metrics.function_distance([[float("nan")]], [[1.0]]), r"prediction holds nan at \(0, 0\)"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(rn.DataError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
