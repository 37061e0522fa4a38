"""Rows left out beside a constant: those far below it are counted, in a thousand fits one by chance."""

import numpy as np
import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net.inference import LinearGibbs
from r2d2net.run import stacking
from r2d2net.run.constant_check import constant_scores, gain_over_constant
from r2d2net.run.stack_candidates import Candidate


def test_the_constant_is_that_of_the_other_rows():
    y = torch.randn(25, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    others = torch.cat([y[:7], y[8:]])
    expected = stats.norm(float(others.mean()), float(others.std() * (1 + 1 / 24) ** 0.5)).logpdf(float(y[7]))
    assert float(constant_scores(y)[7]) == pytest.approx(expected)
    assert constant_scores(y[:19]) is None


def test_rows_far_below_are_hardly_ever_chance():
    """The law of the rows itself, N(0, 1) or N(3 x, 1): 2,000 tables of 50 rows have one such row with probability
    exp(-7) each at most; more than 12 of them with probability below 1e-6."""
    generator = torch.Generator().manual_seed(0)
    found = 0
    for table in range(2000):
        mean = 3 * torch.randn(50, 1, generator=generator, dtype=torch.float64) * (table % 2)
        y = mean + torch.randn(50, 1, generator=generator, dtype=torch.float64)
        scores = -(y - mean).square()[:, 0] / 2 - 0.5 * np.log(2 * np.pi)
        found += gain_over_constant(scores, y)["elpd_rows_below"]
    assert found <= 12


def test_one_row_of_a_skewed_target_is_told(monkeypatch):
    """Its error hides in the mean, whose standard error is as large."""
    candidate = Candidate("linear", "linear", rn.priors.Gaussian(), LinearGibbs(chains=2, loo_draws=0), 60)
    monkeypatch.setattr(stacking, "candidates_for", lambda shape, likelihood: [candidate])
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(60, 3, generator=generator)
    y = 3 * x[:, 0] + 0.3 * torch.randn(60, generator=generator)
    fine = stacking.fit_stacked((x, y), rn.likelihoods.Gaussian(), hidden=(4,), jobs=1, verbose=False).health
    assert fine["elpd_gain"] > 1
    assert fine["elpd_rows_below"] == 0
    y[0] += 30
    health = stacking.fit_stacked((x, y), rn.likelihoods.Gaussian(), hidden=(4,), jobs=1, verbose=False).health
    assert health["elpd_rows_below"] == 1
    assert "1 of 60 rows left out is predicted far worse than by a constant" in health["line"]
