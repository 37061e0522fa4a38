"""Refreshed values keep the distribution that they have, and forget where they come from."""

import pytest
import torch
from scipy import stats

from r2d2net.distributions import GeneralizedInverseGaussian, sample_gig
from r2d2net.distributions.gig_refresh import gig_refreshed, working_dtype
from r2d2net.distributions.gig_sampler import BUFFERS

CASES = [(2.0, 1.5, -0.4), (1e-6, 3.0, -0.4), (50.0, 2.0, 0.6), (1e-3, 1.0, -0.1), (1.0, 0.01, 0.1)]
REJECT = 1e-6  # false alarms: five cases, two dtypes, seeds pinned


def refreshed(x, chi, rho, lam, seed, buffered=True):
    g = torch.Generator().manual_seed(seed)
    u, v = (torch.rand(x.shape, generator=g, dtype=x.dtype) for _ in range(2))
    buffers = torch.empty(BUFFERS, x.numel(), dtype=x.dtype) if buffered else None
    return gig_refreshed(x, torch.full_like(x, chi), torch.tensor(rho, dtype=x.dtype), lam, u, v, buffers=buffers)


def start(chi, rho, lam, dtype, seed=0, count=40_000):
    return sample_gig(torch.full((count,), chi, dtype=dtype), rho, lam, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("chi", "rho", "lam"), CASES)
def test_the_distribution_is_left_invariant(chi, rho, lam, dtype):
    """Kolmogorov and Smirnov's two-sample test against draws that never were refreshed; a hat at the order next to
    the right one fails with p < 1e-30."""
    x = refreshed(start(chi, rho, lam, dtype), chi, rho, lam, seed=1)
    assert stats.ks_2samp(x.numpy(), start(chi, rho, lam, dtype, seed=2).numpy()).pvalue > REJECT
    wrong = refreshed(start(chi, rho, lam, dtype), chi, rho, lam + 0.5, seed=1)
    assert stats.ks_2samp(wrong.numpy(), start(chi, rho, lam, dtype, seed=2).numpy()).pvalue < REJECT


@pytest.mark.parametrize(("chi", "rho", "lam"), CASES)
def test_any_start_is_forgotten(chi, rho, lam):
    """At least 60% of the proposals are accepted: after 40 rounds, a share of 1e-16 is old."""
    x = torch.full((40_000,), 1e9)
    for seed in range(40):
        x = refreshed(x, chi, rho, lam, seed)
    assert stats.ks_2samp(x.numpy(), start(chi, rho, lam, torch.float32).numpy()).pvalue > REJECT


def test_what_is_rejected_stays():
    x = torch.full((10_000,), 123.0)
    kept = (refreshed(x, 2.0, 1.5, -0.4, seed=0) == 123.0).double().mean()
    assert 0.05 < kept < 0.4


def test_buffers_change_nothing():
    x = start(2.0, 1.5, -0.4, torch.float32, count=1000)
    assert torch.equal(refreshed(x, 2.0, 1.5, -0.4, 3), refreshed(x, 2.0, 1.5, -0.4, 3, buffered=False))


def test_low_orders_work_in_double_where_chi_rho_leaves_float32():
    one = torch.ones(1)
    assert working_dtype(one, one, -0.1) == torch.float32
    assert working_dtype(1e-38 * one, one, -0.1) == torch.float64
    assert working_dtype(1e-38 * one, one, -0.4) == torch.float32
    assert working_dtype(one.double(), one, -0.4) == torch.float64


@pytest.mark.parametrize("chi", [1e-38, 1e37])
def test_the_ends_of_float32_stay_finite(chi):
    x = refreshed(torch.ones(1000), chi, 1e-3 if chi > 1 else 1e3, -0.4, seed=0)
    assert bool(torch.isfinite(x).all())
    assert bool((x >= 0).all())


def test_the_mean_is_that_of_the_distribution():
    """5 standard errors: a false alarm in 2 million."""
    q = GeneralizedInverseGaussian(torch.tensor(2.0, dtype=torch.float64), 1.5, -0.4)
    x = refreshed(start(2.0, 1.5, -0.4, torch.float64, count=400_000), 2.0, 1.5, -0.4, seed=4)
    assert abs(float(x.mean() - q.mean)) < 5 * float(q.variance / len(x)) ** 0.5
