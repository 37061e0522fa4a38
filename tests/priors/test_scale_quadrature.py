"""Marginal densities by quadrature, against closed forms."""

import math

import mpmath
import pytest
import torch

from r2d2net.priors import Horseshoe, HorseshoePlus
from r2d2net.priors.scale_quadrature import LAPLACE, log_scale_mixture

SIZES = [1e-30, 1e-8, 1e-3, 0.3, 1.0, 4.0, 1e3, 1e12, 1e30]


def test_horseshoe_against_its_closed_form() -> None:
    """p(w) = exp(w^2/2) E1(w^2/2) / sqrt(2 pi^3)."""
    ours = Horseshoe(global_scale=None).log_prob(torch.tensor(SIZES, dtype=torch.float64))
    for w, value in zip(SIZES, ours.tolist(), strict=True):
        with mpmath.workdps(40):
            y = mpmath.mpf(w) ** 2 / 2
            scaled = 1 / y - 1 / y**2 if y > 1e20 else mpmath.exp(y) * mpmath.e1(y)
            exact = mpmath.log(scaled / mpmath.sqrt(2 * mpmath.pi**3))
        assert value == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("w", [1e-30, 1e-3, 1.0, 1e3, 1e30])
@pytest.mark.parametrize("count", [2, 3])
def test_one_more_half_cauchy(w: float, count: int) -> None:
    """One half-Cauchy of the product is integrated numerically over the closed form of the others."""
    prior = Horseshoe() if count == 2 else HorseshoePlus()
    smaller = Horseshoe(global_scale=None) if count == 2 else HorseshoePlus(global_scale=None)
    step = 1 / 8
    log_x = torch.arange(-120, 120, step, dtype=torch.float64)
    mixing = -(math.pi * log_x.cosh()).log() + math.log(step)  # x ~ C+(0, 1): p(w) = E[p_smaller(w / x) / x]
    expected = torch.logsumexp(mixing - log_x + smaller.log_prob(w / log_x.exp()), 0)
    ours = prior.log_prob(torch.tensor(w, dtype=torch.float64))
    assert ours.item() == pytest.approx(expected.item(), rel=1e-11)


def test_laplace_kernel_against_a_closed_form() -> None:
    """A gamma rate makes a Laplace weight double Pareto: lam ~ Gamma(2, 1), p(w) = (1 + |w|)^-3."""
    w = torch.tensor([0.0, *SIZES], dtype=torch.float64)
    ours = log_scale_mixture(w, LAPLACE, lambda log_s: -2 * log_s - (-log_s).exp(), tail_rate=2.0, log_at_zero=0.0)
    torch.testing.assert_close(ours, -3 * torch.log1p(w), rtol=1e-12, atol=1e-13)


def test_zero_empty_and_single_precision() -> None:
    prior = HorseshoePlus()
    assert prior.log_prob(torch.zeros(())) == math.inf
    assert prior.log_prob(torch.zeros(0, 3)).shape == (0, 3)
    w = torch.tensor(SIZES)
    torch.testing.assert_close(prior.log_prob(w), prior.log_prob(w.double()).float(), rtol=1e-6, atol=1e-5)
