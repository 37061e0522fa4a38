"""The beta-prime distribution against scipy."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.autograd import gradcheck

from r2d2net.distributions import BetaPrime
from reference import DRAWS, LEVEL, f64, ks_p_value, seeded

SHAPES = [(0.3, 0.5), (0.6, 0.5), (2.0, 3.0), (50.0, 2.5), (0.05, 4.0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_draws(shapes, dtype):
    """False-alarm rate 2e-7 for each of 10 tests."""
    a, b = (torch.tensor(v, dtype=dtype) for v in shapes)
    x = BetaPrime(a, b).sample((DRAWS,), seeded(SHAPES.index(shapes)))
    assert ks_p_value(x, stats.betaprime(a.item(), b.item()).cdf) > LEVEL


@pytest.mark.parametrize("shapes", [(0.02, 0.02), (0.01, 0.5), (0.5, 0.02)], ids=str)
def test_float32_draws_of_small_shapes(shapes):
    """Up to a sixth of the draws lie at an end of float32's range, as the law says; 2e-7 for each of 3 tests."""
    a, b = (torch.tensor(v) for v in shapes)
    x, law = BetaPrime(a, b).sample((DRAWS,), seeded(20)), stats.betaprime(a.item(), b.item())
    assert ks_p_value(x, law.cdf) > LEVEL
    limits = torch.finfo(torch.float32)
    for at_end, share in ((x <= limits.tiny, law.cdf(limits.tiny)), (x >= limits.max, law.sf(limits.max))):
        # 6 standard errors, and one draw where none is expected: false-alarm rate 2e-9 each
        assert abs(at_end.double().mean().item() - share) < 6 * (share * (1 - share) / DRAWS) ** 0.5 + 1 / DRAWS


def test_float32_log_prob_and_entropy_of_large_shapes():
    """log B(1e7, 1e7) is -1.4e7, and what is left of it 7."""
    narrow, wide = BetaPrime(torch.tensor(1e7), 1e7), BetaPrime(f64(1e7), 1e7)
    assert narrow.log_prob(torch.tensor(1.0)).item() == pytest.approx(wide.log_prob(f64(1.0)).item(), rel=1e-6)
    assert narrow.entropy().item() == pytest.approx(wide.entropy().item(), rel=1e-6)
    # nearly a normal of variance 2e-7 in log x
    assert narrow.log_prob(torch.tensor(1.0)).item() == pytest.approx(-0.5 * np.log(2 * np.pi * 2e-7), rel=1e-6)
    assert narrow.entropy().item() == pytest.approx(0.5 * np.log(2 * np.pi * np.e * 2e-7), rel=1e-6)


def test_fault_shapes_swapped():
    x = BetaPrime(f64(0.5), f64(0.6)).sample((DRAWS,), seeded(0))
    assert ks_p_value(x, stats.betaprime(0.6, 0.5).cdf) < LEVEL


def test_log_prob_and_moments():
    x = np.array([1e-30, 1e-3, 0.5, 20.0, 1e30])
    for a, b in SHAPES:
        q, p = BetaPrime(f64(a), f64(b)), stats.betaprime(a, b)
        np.testing.assert_allclose(q.log_prob(f64(x)), p.logpdf(x), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(q.mean, p.mean() if b > 1 else np.inf, rtol=1e-12)
        np.testing.assert_allclose(q.variance, p.var() if b > 2 else np.inf, rtol=1e-12)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_entropy_and_mean_log(shapes):
    """By quadrature in log x, between points where both tails are below e^-34."""
    q = BetaPrime(*(f64(v) for v in shapes))
    u = np.linspace(max(-50 / shapes[0], -690), 50 / shapes[1], 400_001)
    log_density = q.log_prob(f64(np.exp(u))).numpy() + u  # of u
    density = np.exp(log_density)
    assert integrate.trapezoid(density, u) == pytest.approx(1, abs=1e-9)
    assert q.entropy().item() == pytest.approx(-integrate.trapezoid(density * (log_density - u), u), abs=1e-8)
    assert q.mean_log.item() == pytest.approx(integrate.trapezoid(density * u, u), abs=1e-8)


def test_gradcheck():
    a, b, x = (f64(v).requires_grad_() for v in ([0.3, 2.0], [2.5, 4.0], [0.2, 9.0]))
    assert gradcheck(lambda u, v, w: BetaPrime(u, v).log_prob(w), (a, b, x))
    for name in ("mean", "variance", "mean_log"):
        assert gradcheck(lambda u, v, name=name: getattr(BetaPrime(u, v), name), (a, b))
    assert gradcheck(lambda u, v: BetaPrime(u, v).entropy(), (a, b))
