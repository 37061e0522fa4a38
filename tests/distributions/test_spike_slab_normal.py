"""The spike-and-slab mixture against scipy."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.autograd import gradcheck
from torch.distributions import Normal, kl_divergence

from r2d2net.distributions import SpikeSlabNormal
from reference import DRAWS, LEVEL, f64, ks_p_value, seeded

CASES = [(0.5, 1.0, 0.1), (0.9, 1.0, 0.01), (0.05, 30.0, 1e-3), (0.3, 0.2, 0.2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws(case, dtype):
    """False-alarm rate 2e-7 for each of 8 tests."""
    pi, slab, spike = (torch.tensor(v, dtype=dtype) for v in case)
    x = SpikeSlabNormal(pi, slab, spike).sample((DRAWS,), seeded(CASES.index(case)))
    pi, slab, spike = pi.item(), slab.item(), spike.item()
    assert ks_p_value(x, lambda v: pi * stats.norm.cdf(v / slab) + (1 - pi) * stats.norm.cdf(v / spike)) > LEVEL


@pytest.mark.parametrize("case", CASES, ids=str)
def test_log_prob_moments_and_entropy(case):
    pi, slab, spike = case
    q = SpikeSlabNormal(*(f64(v) for v in case))

    def density(x):
        return pi * stats.norm.pdf(x, scale=slab) + (1 - pi) * stats.norm.pdf(x, scale=spike)

    def minus_p_log_p(x):
        p = density(x)
        return -p * np.log(p)

    x = np.array([0.0, spike, 3 * spike, slab, 5 * slab])
    np.testing.assert_allclose(q.log_prob(f64(x)), np.log(density(x)), rtol=1e-10, atol=1e-10)
    assert q.mean == 0
    assert q.variance.item() == pytest.approx(pi * slab**2 + (1 - pi) * spike**2, rel=1e-12)
    # scipy's quadrature in pieces about the two scales; its own error is about 1e-12
    edges = sorted({0.0, *(s * k for s in (slab, spike) for k in (1, 3, 6, 12))})
    edges = [e for e in edges if e <= 12 * slab]
    pieces = [integrate.quad(minus_p_log_p, a, b, epsabs=1e-14, epsrel=1e-13)[0] for a, b in pairwise(edges)]
    assert q.entropy().item() == pytest.approx(2 * sum(pieces), abs=1e-11)


def test_float32_spike_whose_variance_leaves_float32():
    q = SpikeSlabNormal(torch.tensor(0.5), 1.0, 1e-25)
    at_zero = math.log(0.5 / 1e-25 / math.sqrt(2 * math.pi))
    assert q.log_prob(torch.tensor(0.0)).item() == pytest.approx(at_zero, rel=1e-6)
    for scale in (1e-25, 1.0):  # of the spike, of the slab: the bound is -log of its probability
        bound = kl_divergence(Normal(torch.tensor(0.0), torch.tensor(scale)), q)
        assert bound.dtype == torch.float32
        assert bound.item() == pytest.approx(math.log(2), rel=1e-6)


def test_gradcheck():
    pi, slab, spike, x = (f64(v).requires_grad_() for v in ([0.3, 0.8], [1.0, 2.0], [0.1, 0.3], [0.2, -1.0]))
    assert gradcheck(lambda *a: SpikeSlabNormal(*a[:3]).log_prob(a[3]), (pi, slab, spike, x))
    assert gradcheck(lambda *a: SpikeSlabNormal(*a).entropy(), (pi, slab, spike))
    assert gradcheck(lambda *a: SpikeSlabNormal(*a).variance, (pi, slab, spike))
