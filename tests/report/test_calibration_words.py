"""Bounds of chance are the binomial quantiles of `scipy.stats`, for probabilities of any size."""

import numpy as np
import pytest
from scipy.stats import binom

from r2d2net.report.calibration_words import chance

TINY = [0, 1e-300, 1e-18, 1e-17, 1e-16, 1e-12, 1e-5, 1e-3]  # below 1e-17 the inverse of `scipy.special` is NaN
PROBABILITIES = np.array([*TINY, *np.linspace(0.01, 0.99, 99), *(1 - np.array(TINY))])


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 37, 1000, 10**6])
def test_bounds_are_binomial_quantiles(rows):
    for found, level in zip(chance(PROBABILITIES, rows), (0.05, 0.95), strict=True):
        assert (found == binom.ppf(level, rows, PROBABILITIES) / rows).all()


def test_each_probability_may_have_its_own_rows():
    low, high = chance(np.array([0.2, 0.9]), np.array([10, 200]))
    assert low.tolist() == [0.0, float(binom.ppf(0.05, 200, 0.9)) / 200]
    assert high.tolist() == [0.4, float(binom.ppf(0.95, 200, 0.9)) / 200]
