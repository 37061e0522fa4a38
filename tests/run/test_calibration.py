"""Noise as validation rows tell it."""

import math

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.prediction import Regression
from r2d2net.run.calibration import noise_factor


@pytest.mark.parametrize("truth", [0.5, 1.0, 2.0])
def test_factor_finds_the_noise(truth):
    """Of 20,000 rows: log m has standard deviation sqrt(2 / n) = .01; the bound is 5 of them (6e-7)."""
    g = torch.Generator().manual_seed(0)
    mean = torch.randn(20_000, 1, generator=g)
    spread = 0.3 * torch.randn(50, 20_000, 1, generator=g)  # of f under the posterior, about the truth
    drawn = mean + 0.3 * torch.randn(20_000, 1, generator=g)
    y = drawn + truth**0.5 * torch.randn(20_000, 1, generator=g)
    assert noise_factor(Regression(mean + spread, torch.ones(1)), y) == pytest.approx(truth, rel=0.06)


def test_few_rows_move_it_little():
    """One residual of 4 deviations alone would ask for a factor of 16."""
    y, predicted = torch.full((1, 1), 4.0), Regression(torch.zeros(2, 1, 1), torch.ones(1))
    assert 1.0 < noise_factor(predicted, y) < 3.0


@pytest.mark.parametrize("size", [1e-8, 1e6])
def test_noise_that_is_far_off_is_put_right(size):
    """Twenty rows of unit noise: log m has standard deviation sqrt(2 / 20) = .32; the bound is 5 of them (6e-7)."""
    y = torch.randn(20, 1, generator=torch.Generator().manual_seed(3))
    found = noise_factor(Regression(torch.zeros(2, 20, 1), torch.full((1,), size)), y)
    assert math.log(found * size) == pytest.approx(0, abs=1.6)


def test_fit_takes_the_noise_from_validation_rows():
    """Validation rows with twice the noise widen the intervals; without them, or with known noise, nothing changes."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(400, 2, generator=g)
    y = x[:, 0] + 0.1 * torch.randn(400, generator=g)
    held = x, x[:, 0] + 0.2 * torch.randn(400, generator=g)

    def noise(validation, known=None):
        model = rn.BayesianModel(nn.Linear(2, 1), likelihood=rn.likelihoods.Gaussian(noise=known))
        posterior = rn.fit(model, (x, y), epochs=30, validation=validation, seed=0)
        return float(posterior.predict(x, 2).aleatoric[0])

    assert noise(None) == pytest.approx(0.1, rel=0.15)
    assert noise(held) == pytest.approx(0.2, rel=0.15)
    assert noise(held, known=0.1) == pytest.approx(0.1)
