"""The Polya-Gamma distribution: density, moments and their gradients against 50-digit values and quadrature."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate
from torch.autograd import gradcheck

from r2d2net import ParameterError
from r2d2net.distributions import PolyaGamma
from reference import PolyaGammaReference, f64, relative_error, scaled_error, seeded

TILTS = [0.0, 1e-300, 1e-8, 0.3, 0.999, 1.0, 1.001, 2.0, -10.0, 50.0, 700.0, -1e6]
POINTS = [1e-6, 1e-3, 0.05, 0.1599999, 0.16, 0.1600001, 0.3, 1.0, 5.0, 1e3]


def exact_moments(z: float) -> tuple[float, float]:
    """Mean and variance of PG(1, z) by the closed formulas in so many digits that their cancellation is harmless."""
    with mpmath.workdps(60):
        wide = mpmath.mpf(z if abs(z) > 1e-10 else 1e-15)
        variance = (mpmath.sinh(wide) - wide) / (4 * wide**3) * mpmath.sech(wide / 2) ** 2
        return float(mpmath.tanh(wide / 2) / (2 * wide)), float(variance)


def exact_log_density(x: float, z: float) -> float:
    """The series for small x in 60 digits, or that for large x where the first would need thousands of digits."""
    with mpmath.workdps(60):
        x, z = mpmath.mpf(x), mpmath.mpf(z)
        if x < 1:
            terms = [(-1) ** n * (2 * n + 1) * mpmath.exp(-mpmath.mpf((2 * n + 1) ** 2) / (8 * x)) for n in range(20)]
            log_series = mpmath.log(mpmath.fsum(terms)) - mpmath.log(2 * mpmath.pi * x**3) / 2
        else:
            rate = mpmath.pi**2 * x / 2
            terms = [(-1) ** n * (2 * n + 1) * mpmath.exp(-((2 * n + 1) ** 2) * rate) for n in range(20)]
            log_series = mpmath.log(2 * mpmath.pi * mpmath.fsum(terms))
        return float(mpmath.log(mpmath.cosh(z / 2)) - z * z * x / 2 + log_series)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 5e-15), (torch.float32, 1e-7)], ids=["f64", "f32"])
def test_moments(dtype, tolerance):
    z = torch.tensor(TILTS, dtype=dtype)
    mean, variance = f64([exact_moments(v) for v in z.tolist()]).T
    for b in (1, 7):
        q = PolyaGamma(z, b)
        assert q.mean.dtype == q.variance.dtype == dtype
        assert relative_error(q.mean.double(), b * mean) < tolerance
        assert relative_error(q.variance.double(), b * variance) < tolerance


def test_moments_of_the_largest_tilts():
    """A variance below the smallest number is 0, not nan."""
    q = PolyaGamma(f64([1e150, torch.finfo(torch.float64).max]))
    torch.testing.assert_close(q.mean, 0.5 / q.z, rtol=1e-15, atol=0)
    assert q.variance.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("z", TILTS)
def test_log_prob(z):
    x = f64(POINTS)
    exact = f64([exact_log_density(v, z) for v in POINTS])
    assert scaled_error(PolyaGamma(f64(z)).log_prob(x), exact) < 1e-14
    narrow = PolyaGamma(torch.tensor(z)).log_prob(x.float()).double()
    near = f64([exact_log_density(v, torch.tensor(z).item()) for v in x.float().tolist()])
    assert scaled_error(narrow, near) < 1e-6


@pytest.mark.parametrize("z", [0.0, 0.5, 2.0, 10.0, 50.0])
def test_density_is_that_of_the_laplace_transform(z):
    law, q = PolyaGammaReference(1, z), PolyaGamma(f64(z))
    x = q.mean.item() * np.array([0.2, 0.5, 1.0, 2.0, 4.0])
    peak = law.pdf(x).max()
    np.testing.assert_allclose(torch.exp(q.log_prob(f64(x))).numpy() / peak, law.pdf(x) / peak, atol=1e-7)


@pytest.mark.parametrize("z", [0.0, 3.0, 700.0, 1e6])
def test_density_integrates_to_one(z):
    q = PolyaGamma(f64(z))
    mean, width = q.mean.item(), q.variance.sqrt().item() / q.mean.item()

    def integrand(u):  # in u = (log x - log E X) / width
        x = mean * math.exp(width * u)
        return math.exp(q.log_prob(f64(x)).item()) * x * width

    parts = [integrate.quad(integrand, low, low + 4, epsabs=1e-12)[0] for low in range(-12, 12, 4)]
    assert sum(parts) == pytest.approx(1, abs=1e-9)


def test_gradients():
    z = f64([-7.0, -0.4, 1e-3, 0.99, 1.01, 30.0]).requires_grad_()
    x = f64([0.05, 0.15, 0.17, 0.4, 1.0, 0.02]).requires_grad_()
    assert gradcheck(lambda v: PolyaGamma(v).mean, z)
    assert gradcheck(lambda v: PolyaGamma(v).variance, z)
    assert gradcheck(lambda v, w: PolyaGamma(v).log_prob(w), (z, x))


@pytest.mark.parametrize("tilt", [0.0, 1e-300, 1e-8, 1e6])
def test_gradients_at_extremes(tilt):
    """Near 0 they are -z / 24 and -z / 60, without overflow; far out they vanish."""
    z = f64(tilt).requires_grad_()
    q = PolyaGamma(z)
    slopes = [torch.autograd.grad(value, z, retain_graph=True)[0].item() for value in (q.mean, q.variance)]
    exact = [-tilt / 24, -tilt / 60] if tilt < 1 else [-0.5 / tilt**2, -1.5 / tilt**4]
    assert slopes == pytest.approx(exact, rel=1e-12, abs=0)
    assert math.isfinite(torch.autograd.grad(q.log_prob(f64(0.2)), z)[0].item())


def test_density_of_sums_is_refused():
    with pytest.raises(ParameterError, match=r"^b holds 3\.0: the log density is known for b = 1 only$"):
        PolyaGamma(torch.zeros(2), torch.tensor([1.0, 3.0])).log_prob(torch.ones(2))


def test_each_element_has_its_own_parameters():
    """Means of 20,000 draws; 6 standard errors, false-alarm rate 2e-9 for each of 6 elements."""
    q = PolyaGamma(f64([[0.0], [3.0], [-40.0]]), f64([1.0, 4.0]))
    x = q.sample((20_000,), seeded(0))
    assert x.shape == (20_000, 3, 2)
    assert bool(((x.mean(0) - q.mean).abs() < 6 * (q.variance / 20_000).sqrt()).all())
