"""The tabulated moments against the exact ones."""

import pytest
import torch

from r2d2net import ParameterError
from r2d2net.distributions import GeneralizedInverseGaussian, gig_moments
from r2d2net.distributions.gig_moments import CELLS_PER_UNIT, LOWEST, bessel_down_ratio
from reference import BesselReference, f64, relative_error

ORDERS = [0.0, 0.1, -0.4, 0.5, 2.7, -30.0, 1e4, 1e7]
CHI = torch.logspace(-40, 30, 20_001, dtype=torch.float64)


@pytest.mark.parametrize("lam", ORDERS)
def test_table_is_exact(lam):
    """The issue asks for 1e-12, over 70 decades of chi."""
    q = GeneralizedInverseGaussian(CHI, f64(1.3), lam)
    mean, mean_inverse = gig_moments(CHI, 1.3, lam)
    assert relative_error(mean, q.mean) <= 1e-12
    assert relative_error(mean_inverse, q.mean_inverse) <= 1e-12


@pytest.mark.parametrize("lam", [0.1, -0.4])
def test_table_against_30_digits(lam):
    for x in (1e-12, 3e-3, 0.77, 4.2, 80.0):
        mean, mean_inverse = gig_moments(f64([x * x]), 1.0, lam)
        t = BesselReference(lam, x)
        assert relative_error(mean, f64([x * float(t.moment(1))])) <= 1e-12
        assert relative_error(mean_inverse, f64([float(t.moment(-1)) / x])) <= 1e-12


def test_edges_of_the_table():
    """On, inside and outside of both ends the value is the exact one."""
    for lam in (0.1, 2.7):
        ends = f64([LOWEST, 1e6 * (1 + lam)])
        x = torch.cat([ends * (1 + e) for e in (-1e-3, -1e-12, 0.0, 1e-12, 1e-3)] + [ends * f64([1e-30, 1e30])])
        q = GeneralizedInverseGaussian(x, x, lam)
        torch.testing.assert_close(gig_moments(x, x, lam)[1], q.mean_inverse, rtol=1e-12, atol=0)


def test_float32_and_shapes():
    chi = torch.logspace(-30, 20, 24).reshape(4, 6)
    mean, mean_inverse = gig_moments(chi, torch.tensor(0.7), -0.4)
    q = GeneralizedInverseGaussian(chi, 0.7, -0.4)
    assert mean.shape == mean_inverse.shape == (4, 6)
    assert mean.dtype == mean_inverse.dtype == torch.float32
    torch.testing.assert_close(mean, q.mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(mean_inverse, q.mean_inverse, rtol=1e-6, atol=0)
    assert gig_moments(torch.empty(0), 1.0, 0.1)[0].shape == (0,)


def test_derivative():
    """A cubic with exact slopes has derivatives good to the cube of its cell."""
    chi = torch.logspace(-6, 4, 101, dtype=torch.float64).requires_grad_()
    (table,) = torch.autograd.grad(gig_moments(chi, 1.0, 0.1)[1].sum(), chi)
    (exact,) = torch.autograd.grad(GeneralizedInverseGaussian(chi, f64(1.0), 0.1).mean_inverse.sum(), chi)
    assert relative_error(table, exact) <= CELLS_PER_UNIT**-3
    assert bessel_down_ratio(0.1, f64([2.0])).dtype == torch.float64


@pytest.mark.parametrize(("chi", "rho"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (torch.nan, 1.0), (1.0, torch.inf)])
def test_bad_parameters(chi, rho):
    with pytest.raises(ParameterError):
        gig_moments(f64([1.0, chi]), rho, 0.1)


@pytest.mark.parametrize("lam", [torch.nan, torch.inf])
def test_bad_order(lam):
    with pytest.raises(ParameterError, match=f"^lam={lam} is out of range: use a finite number$"):
        gig_moments(f64([1.0]), 1.0, lam)


def test_inference_mode():
    """A table built inside serves autograd outside; no other test uses these orders."""
    for lam in (0.3123, -1.3123):
        chi = f64([1e-3, 2.0, 50.0])
        with torch.inference_mode():
            inside = gig_moments(chi, 1.0, lam)
        chi.requires_grad_()
        outside = gig_moments(chi, 1.0, lam)
        for one, other in zip(inside, outside, strict=True):
            assert torch.equal(one, other)
        (slope,) = torch.autograd.grad(sum(m.sum() for m in outside), chi)
        assert bool(slope.isfinite().all())


@pytest.mark.parametrize("order", [0.0, 0.1, 0.4, 0.5, 1.3])
def test_float32_errs_by_little_more_than_rounding(order):
    """Over the dtype's whole range: 2e-7 is three roundings, a cubic's own error is at most 1.2e-7."""
    x = torch.exp(torch.linspace(-43, 43, 100_001, dtype=torch.float64)).float()
    mean, inverse = gig_moments(x, x, -order)  # so that sqrt(chi rho) = x
    exact = gig_moments(x.double(), x.double(), -order)
    torch.testing.assert_close(mean.double(), exact[0], rtol=4e-7, atol=0)
    torch.testing.assert_close(inverse.double(), exact[1], rtol=4e-7, atol=0)
