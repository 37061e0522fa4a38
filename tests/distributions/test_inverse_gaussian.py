"""The inverse Gaussian and its reciprocal against giG, scipy and quadrature."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.autograd import gradcheck
from torch.distributions import Gamma

from r2d2net.distributions import GeneralizedInverseGaussian, InverseGaussian, ReciprocalInverseGaussian
from reference import DRAWS, LEVEL, GigReference, f64, ks_p_value, seeded

CORNERS = [
    (0.0, 1.0),
    (1e-30, 1.0),
    (1e-12, 1e7),
    (1e-6, 0.3),
    (1.0, 1.0),
    (7.0, 1e-5),
    (1e6, 1.0),
    (1e30, 1.0),
]
STATISTICS = ("mean", "mean_inverse", "mean_log", "variance", "entropy")


def statistic(q, name):
    return q.entropy() if name == "entropy" else getattr(q, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("corner", CORNERS, ids=str)
def test_draws(corner, dtype):
    """False-alarm rate 2e-7 for each of 30 tests: the reciprocal's draws, and those of the inverse Gaussian."""
    chi, rho = (torch.tensor(v, dtype=dtype) for v in corner)
    seed = CORNERS.index(corner) + 100 * (dtype == torch.float32)
    q = ReciprocalInverseGaussian(chi, rho)
    assert ks_p_value(q.sample((DRAWS,), seeded(seed)), GigReference(chi.item(), rho.item(), 0.5).cdf) > LEVEL
    if corner[0] > 0:
        p = InverseGaussian(torch.sqrt(rho / chi), rho)
        loc = p.loc.item()  # giG(concentration, concentration / loc^2, -1/2)
        assert (
            ks_p_value(
                p.sample((DRAWS,), seeded(50 + seed)),
                GigReference(rho.item(), rho.item() / loc / loc, -0.5).cdf,
            )
            > LEVEL
        )


def test_fault_of_the_root():
    """Always the larger root: the proof must reject it."""
    t, n = 1.0, torch.randn(DRAWS, generator=seeded(0), dtype=torch.float64).square() / 2
    assert ks_p_value(t + n + torch.sqrt(n * (n + 2 * t)), GigReference(1.0, 1.0, 0.5).cdf) < LEVEL


def test_every_element_has_its_own_rho():
    """rho over six decades, element by element and across chunks: rho X ~ giG(1, 1, 1/2) in each of seven groups.

    False-alarm rate 2e-7 each.
    """
    n = 7 * DRAWS  # more than four chunks of 2^15, of which seven is no divisor
    rho = 10.0 ** (torch.arange(n, dtype=torch.float64) % 7 - 3)
    x = ReciprocalInverseGaussian(1 / rho, rho).sample((), seeded(8))
    law = GigReference(1.0, 1.0, 0.5)
    for group in (rho * x).view(-1, 7).unbind(1):
        assert ks_p_value(group, law.cdf) > LEVEL


def test_float32_extremes():
    """Where a square or a quotient of the parameters leaves float32 the result does not."""
    narrow = InverseGaussian(torch.tensor(1e-25), 1.0)
    wide = InverseGaussian(narrow.loc.double(), 1.0)
    x = narrow.sample((1000,), seeded(0))  # its relative spread is 3e-13
    torch.testing.assert_close(x, narrow.loc.expand(1000), rtol=1e-6, atol=0)
    for name in ("mean_log", "entropy"):
        torch.testing.assert_close(statistic(narrow, name), statistic(wide, name).float(), rtol=1e-6, atol=0)
    assert narrow.mean_log.item() == pytest.approx(math.log(1e-25), rel=1e-6)
    gaussian = 0.5 * math.log(2 * math.pi * math.e) + 1.5 * math.log(1e-25)  # variance loc^3
    assert narrow.entropy().item() == pytest.approx(gaussian, rel=1e-6)
    small = ReciprocalInverseGaussian(torch.tensor(1e-38), 10.0)
    assert small.mean_inverse.item() == pytest.approx(math.sqrt(1e39), rel=1e-6)
    assert InverseGaussian(torch.tensor(1.0), 1.0).log_prob(torch.tensor(1e30)).item() == pytest.approx(-5e29)
    assert InverseGaussian(torch.tensor(1e15), 1e20).variance.item() == pytest.approx(1e25, rel=1e-6)


@pytest.mark.parametrize("name", STATISTICS)
def test_moments_are_those_of_gig(name):
    chi, rho = f64(CORNERS).unbind(1)
    q = ReciprocalInverseGaussian(chi, rho)
    torch.testing.assert_close(statistic(q, name), statistic(q.gig, name), rtol=1e-12, atol=1e-12)
    chi, rho = chi[1:], rho[1:]
    p, gig = InverseGaussian(torch.sqrt(rho / chi), rho), GeneralizedInverseGaussian(rho, chi, -0.5)
    torch.testing.assert_close(statistic(p, name), statistic(gig, name), rtol=1e-12, atol=1e-12)


def test_log_prob():
    x = f64([1e-3, 0.2, 1.0, 8.0])[:, None]
    chi, rho = f64([1e-12, 0.5, 3.0, 40.0]), f64(2.0)
    q = ReciprocalInverseGaussian(chi, rho)
    torch.testing.assert_close(q.log_prob(x), q.gig.log_prob(x), rtol=1e-12, atol=1e-12)
    p = InverseGaussian(chi.sqrt(), rho)
    theirs = stats.invgauss(mu=(p.loc / rho).numpy(), scale=2.0)
    torch.testing.assert_close(p.log_prob(x), torch.from_numpy(theirs.logpdf(x.numpy())), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(p.variance, theirs.var(), rtol=1e-12)
    limit = ReciprocalInverseGaussian(f64(0.0), 3.0)
    torch.testing.assert_close(limit.log_prob(x), Gamma(f64(0.5), 1.5).log_prob(x))


@pytest.mark.parametrize("name", [*STATISTICS, "log_prob"])
def test_gradcheck(name):
    a, b, x = (f64(v).requires_grad_() for v in ([0.3, 2.0, 30.0], [1.5, 0.4, 5.0], [0.5, 1.0, 3.0]))
    for cls in (ReciprocalInverseGaussian, InverseGaussian):
        if name == "log_prob":
            assert gradcheck(lambda u, v, w, cls=cls: cls(u, v).log_prob(w), (a, b, x))
        else:
            assert gradcheck(lambda u, v, cls=cls: statistic(cls(u, v), name), (a, b))
