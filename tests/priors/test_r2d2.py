"""R2D2 beyond the common contract: its density, its views and presets, its coordinate ascent, its known faults."""

import math
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import Exponential, Gamma, kl_divergence

from prior_proofs import gold_densities
from r2d2net import ParameterError
from r2d2net.distributions import (
    GeneralizedInverseGaussian,
    ReciprocalInverseGaussian,
    gamma_mean_log,
    kl_gamma_random_rate,
    sample_gig,
    standard_gamma,
)
from r2d2net.priors import R2D2
from r2d2net.priors.base import squared
from r2d2net.priors.r2d2 import R2D2Scales
from r2d2net.testing import geweke
from r2d2net.testing.coordinate_ascent import bounds_over_sweeps
from r2d2net.testing.prior_scales import require_finite_scales

REJECT = 2e-6  # the level at which tests/priors/test_contract.py proves the right sweep
PRIORS = [R2D2(0.3, 1.0), R2D2.paper(), R2D2(0.1, 0.5, sigma0=2.0), R2D2.from_r2(0.5, 2.0, concentration=0.3)]
each = pytest.mark.parametrize("prior", PRIORS, ids=str)


def test_density_against_gold() -> None:
    for hyper, w, density in gold_densities("r2d2"):
        torch.testing.assert_close(R2D2(hyper["a_pi"], hyper["b"]).log_prob(w).exp(), density, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("a_pi", "b"), [(10, 10), (50, 50), (1000, 1000), (0.1, 1000), (50, 0.5), (0.01, 0.05)])
@pytest.mark.parametrize("w", [1e-6, 0.01, 1.0, 3.0])
def test_density_at_any_shape(a_pi: float, b: float, w: float) -> None:
    """Against the integral over x = e^t of the double-exponential form, by a fine trapezoid rule in 30 digits.

    A total mass of 1 would not do: a coarse rule conserves it while the density is wrong.
    """
    with mpmath.workdps(30):
        a, c, at = (mpmath.mpf(v) for v in (a_pi, b, w))

        def integrand(t: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(-at * mpmath.exp(t) + (2 * c + 1) * t - (a + c) * mpmath.log(mpmath.exp(2 * t) + 2))

        coarse = [mpmath.mpf(k) / 2 for k in range(-160, 120)]
        middle = max(coarse, key=integrand)
        h = mpmath.mpf(1) / (20 if a_pi + b < 5 else 200)
        low, high = (-60, 40) if a_pi + b < 5 else (-8, 8) if min(a_pi, b) >= 10 else (-30, 12)
        total = h * sum(integrand(middle + h * k) for k in range(int(low / h), int(high / h)))
        exact = mpmath.log(total) + a * mpmath.log(2)
        exact += mpmath.loggamma(a + c) - mpmath.loggamma(a) - mpmath.loggamma(c)
        found = R2D2(a_pi, b).log_prob(torch.tensor(w, dtype=torch.float64)).item()
        assert abs(float(found - exact)) < 1e-10 * max(1, abs(found))


def test_density_at_zero() -> None:
    """A pole below a_pi = 1/2, the limit of the density above it."""
    near, zero = torch.tensor(1e-60, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    assert R2D2(0.4).log_prob(zero) == math.inf
    torch.testing.assert_close(R2D2.paper().log_prob(zero), R2D2.paper().log_prob(near), rtol=1e-10, atol=0)


def test_views_are_those_of_t() -> None:
    scales = R2D2().init_scales((4, 3, 2), torch.Generator().manual_seed(0), groups=(4, 1, 1))
    assert scales.omega.shape == scales.xi.shape == (4, 1, 1)
    torch.testing.assert_close(scales.phi.sum((1, 2)), torch.ones(4))
    torch.testing.assert_close(scales.phi * scales.omega, scales.T)


def test_prior_draws_match_dirichlet_times_gamma() -> None:
    """phi and omega / (gamma by xi) drawn as the paper writes them; two KS tests at 1e-6 each."""
    n, p, prior = 20_000, 5, R2D2(0.3, 1.0)
    generator = torch.Generator().manual_seed(1)
    scales = prior.init_scales((n, p), generator, groups=(n, 1), dtype=torch.float64)
    share = stats.kstest(scales.phi[:, 0].numpy(), stats.beta(0.3, 0.3 * (p - 1)).cdf)
    total = stats.kstest((scales.omega * scales.xi).squeeze(1).numpy(), stats.gamma(0.3 * p).cdf)
    assert min(share.pvalue, total.pvalue) > 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a_pi": 0.0}, "a_pi=0.0 is out of range"),
        ({"b": -1}, "b=-1 is out of range"),
        ({"sigma0": math.inf}, "sigma0=inf is out of range"),
        ({"a_pi": math.nan}, "a_pi=nan is out of range"),
        ({"a_pi": "0.1"}, "a_pi='0.1' is out of range"),
        ({"b": torch.ones(2)}, "b=tensor"),
    ],
)
def test_bad_hyperparameters(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        R2D2(**arguments)


# --- from_r2


def test_from_r2_gives_the_promised_r2() -> None:
    """omega / (1 + omega) ~ Beta(mean precision, (1 - mean) precision), whatever the layer's size; 1e-6 each."""
    prior = R2D2.from_r2(0.7, 3.0, concentration=0.5)
    for p in (6, 40):
        scales = prior.init_scales((20_000, p), torch.Generator().manual_seed(p), groups=(20_000, 1))
        r2 = (scales.omega / (1 + scales.omega)).squeeze(1).double().numpy()
        assert stats.kstest(r2, stats.beta(2.1, 0.9).cdf).pvalue > 1e-6
        assert stats.kstest(scales.phi[:, 0].double().numpy(), stats.beta(0.5, 0.5 * (p - 1)).cdf).pvalue > 1e-6


def test_from_r2_sweep_leaves_the_joint_law_unchanged() -> None:
    """False-alarm rate 2e-6."""
    assert geweke(R2D2.from_r2(0.6, 2.0, concentration=0.4), seed=5).p_value > REJECT


def test_from_r2_marginal_density() -> None:
    """Draws against the density's own integral (1e-6); with p a_pi just above a it is nearly the plain prior."""
    prior, p = R2D2.from_r2(0.5, 2.0, concentration=0.3), 8
    w = prior.sample((20_000, p), torch.Generator().manual_seed(2), groups=(20_000, 1), dtype=torch.float64)[:, 0]
    log_x = torch.arange(-60, 40, 0.05, dtype=torch.float64)
    mass = 2 * torch.cumsum(0.05 * torch.exp(prior.log_prob(log_x.exp(), weights=p) + log_x), 0)
    assert abs(float(mass[-1]) - 1) < 1e-6
    table = log_x.numpy(), mass.numpy()
    assert stats.kstest(w.abs().log().numpy(), lambda x: np.interp(x - 0.025, *table)).pvalue > 1e-6
    tied = R2D2.from_r2(0.5, 2.0, concentration=(1 + 1e-7) / p)
    at = torch.tensor([1e-3, 1.0, 30.0], dtype=torch.float64)
    torch.testing.assert_close(tied.log_prob(at, weights=p), R2D2(1 / p, 1.0).log_prob(at), rtol=1e-5, atol=1e-5)


def test_from_r2_says_what_is_missing() -> None:
    prior = R2D2.from_r2(0.5, 2.0, concentration=0.1)
    with pytest.raises(ParameterError, match=r"concentration=0\.1 is too small for a layer of 5 weights"):
        prior.init_scales((5,))
    with pytest.raises(ParameterError, match="too small for a layer of 1 weights"):
        prior.log_prob(torch.ones(1))
    with pytest.raises(ParameterError, match=r"mean_r2=1\.5 is out of range"):
        R2D2.from_r2(1.5, 2.0, 0.1)


# --- coordinate ascent


def converged(prior: R2D2, m: Tensor) -> Any:
    scales = prior.init_scales(m.shape, torch.Generator().manual_seed(0), dtype=m.dtype)
    for _ in range(4000):
        factors = prior.cavi(m, scales)
        scales = factors.scales
    return factors


@each
def test_coordinate_ascent_is_stationary(prior: R2D2) -> None:
    """At convergence the ELBO, written out here, has no slope in any parameter of any factor."""
    m = torch.tensor([1e-6, 1e-3, 0.1, 1.0, 30.0], dtype=torch.float64)
    factors = converged(prior, m)
    at = (
        factors.psi.chi,
        factors.T.chi,
        factors.T.rho.mean(),
        factors.T.lam.mean(),
        factors.xi.concentration,
        factors.xi.rate,
    )
    if factors.eta is not None:
        at = (*at, factors.eta.concentration, factors.eta.rate)
    leaves = [x.detach().clone().requires_grad_() for x in at]

    def elbo(
        psi_chi: Tensor, t_chi: Tensor, t_rho: Tensor, t_lam: Tensor, shape: Tensor, rate: Tensor, *of_eta: Tensor
    ) -> Tensor:
        psi, t, xi = (
            ReciprocalInverseGaussian(psi_chi, 1.0),
            GeneralizedInverseGaussian(t_chi, t_rho, t_lam),
            Gamma(shape, rate),
        )
        s2 = prior.sigma0**2
        log_variance = math.log(s2 / 2) + psi.mean_log + t.mean_log
        normal = -0.5 * (math.log(2 * math.pi) + log_variance + 2 / s2 * psi.mean_inverse * t.mean_inverse * m)
        one = torch.ones_like(shape)
        scale_kl = kl_divergence(psi, Exponential(0.5 * torch.ones_like(m))).sum()
        scale_kl = scale_kl + kl_divergence(xi, Gamma(prior.b * one, one)).sum()
        if of_eta:
            scale_kl = scale_kl + kl_with_eta(t, xi, Gamma(*of_eta))
        else:
            scale_kl = scale_kl + kl_gamma_random_rate(t, prior.a_pi, xi.mean, gamma_mean_log(xi)).sum()
        return normal.sum() - scale_kl

    def kl_with_eta(t: GeneralizedInverseGaussian, xi: Gamma, eta: Gamma) -> Tensor:
        """E[log q(T) q(eta) - log p(T, eta | xi)]: T_j ~ Gamma(a_pi, xi + eta), eta / xi ~ BetaPrime(p a_pi - a, a)."""
        a, e = prior.total, m.numel() * prior.a_pi - prior.total
        log_beta = math.lgamma(e) + math.lgamma(a) - math.lgamma(a + e)
        log_t = ((prior.a_pi - 1) * t.mean_log - (xi.mean + eta.mean) * t.mean - math.lgamma(prior.a_pi)).sum()
        # the powers of xi + eta: p a_pi from T, -(a + e) from the beta prime
        log_eta = (e - 1) * gamma_mean_log(eta) + a * gamma_mean_log(xi) - log_beta
        return -t.entropy().sum() - eta.entropy() - log_t - log_eta

    value = elbo(*leaves)
    torch.testing.assert_close(value.detach(), factors.bound(m), rtol=1e-12, atol=1e-12)
    for leaf, slope in zip(leaves, torch.autograd.grad(value, leaves), strict=True):
        assert float((slope * leaf.detach()).abs().max()) < 1e-7  # per unit of log parameter; value is about 10


@each
def test_kl_of_the_scales_by_monte_carlo(prior: R2D2) -> None:
    """E_q[log q - log p] with 200,000 draws, |z| < 6: false-alarm rate 2e-9 each."""
    m = torch.tensor([1e-4, 0.1, 1.0, 3.0, 0.3], dtype=torch.float64)
    scales = prior.init_scales(m.shape, torch.Generator().manual_seed(0), dtype=m.dtype)
    for _ in range(30):
        factors = prior.cavi(m, scales)
        scales = factors.scales
    g, n = torch.Generator().manual_seed(1), 200_000
    t, psi = factors.T.sample((n,), g), factors.psi.sample((n,), g)
    xi = standard_gamma(factors.xi.concentration.expand(n), g) / factors.xi.rate
    log_q = factors.T.log_prob(t).sum(1) + factors.psi.log_prob(psi).sum(1) + factors.xi.log_prob(xi)
    log_p = Exponential(0.5).log_prob(psi).sum(1) + Gamma(prior.b, 1.0).log_prob(xi)
    rate = xi
    if factors.eta is not None:
        eta = standard_gamma(factors.eta.concentration.expand(n), g) / factors.eta.rate
        log_q = log_q + factors.eta.log_prob(eta)
        excess = m.numel() * prior.a_pi - prior.total
        beta = torch.distributions.Beta(torch.tensor(excess).double(), torch.tensor(prior.total).double())
        share = eta / (xi + eta)  # eta / xi is beta prime
        log_p = log_p + beta.log_prob(share) + torch.log(xi) - 2 * torch.log(xi + eta)
        rate = xi + eta
    log_p = log_p + Gamma(torch.tensor(prior.a_pi).double(), rate[:, None]).log_prob(t).sum(1)
    difference = log_q - log_p
    assert abs(difference.mean() - factors.kl()) < 6 * difference.std() / math.sqrt(n)


def test_from_r2_bound_never_falls() -> None:
    """The tied priors are in tests/priors/test_contract.py."""
    prior = R2D2.from_r2(0.5, 2.0, concentration=0.3)
    m = 10 ** (24 * torch.rand(20, generator=torch.Generator().manual_seed(3), dtype=torch.float64) - 12)
    bounds = bounds_over_sweeps(prior, m, prior.init_scales((20,), torch.Generator().manual_seed(4), dtype=m.dtype), 30)
    assert all(after >= before - 1e-12 * abs(bounds[0]) for before, after in pairwise(bounds))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_from_r2_scales_stay_finite(dtype: torch.dtype, size: float) -> None:
    prior = R2D2.from_r2(0.5, 2.0, concentration=0.1)
    require_finite_scales(prior, torch.full((20,), size, dtype=dtype))
    mixed = torch.tensor([size, 1.0, -size], dtype=dtype).repeat(4, 7)
    require_finite_scales(prior, mixed)
    require_finite_scales(prior, mixed, groups=(4, 1))


def test_from_r2_in_float32() -> None:
    """The sweep as in float64, false-alarm rate 2e-6; the coordinate ascent by its float64 twin."""
    prior = R2D2.from_r2(0.6, 2.0, concentration=0.4)
    assert geweke(prior, seed=5, dtype=torch.float32).p_value > REJECT
    m = torch.tensor([1e-6, 1e-3, 0.1, 1.0, 30.0], dtype=torch.float64)
    start = prior.init_scales(m.shape, torch.Generator().manual_seed(0), dtype=m.dtype)
    wide, narrow = prior.cavi(m, start), prior.cavi(m.float(), R2D2Scales(*(x.float() for x in start)))
    torch.testing.assert_close(narrow.precision, wide.precision.float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(narrow.bound(m.float()), wide.bound(m).float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(prior.log_prob(m.float()), prior.log_prob(m).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [0.0, 1e30])
def test_from_r2_with_a_million_weights(size: float) -> None:
    prior = R2D2.from_r2(0.5, 2.0, concentration=0.1)
    require_finite_scales(prior, torch.full((1000, 1000), size), sweeps=1)


def test_from_r2_density_at_infinity() -> None:
    w = torch.tensor([math.inf, -math.inf])
    assert R2D2.from_r2(0.5, 2.0, concentration=0.3).log_prob(w, weights=20).tolist() == [-math.inf] * 2


# --- the known faults: the Geweke proof rejects each of them


class _Faulty(R2D2):
    def __init__(self) -> None:
        super().__init__(0.3, 1.0)


class PaperOrder(_Faulty):
    """T's order parameter as the paper prints it, a - p/2 with a = p a_pi."""

    def _t_conditional(self, square: Tensor, scales: R2D2Scales) -> tuple[Tensor, Tensor, float]:
        chi, rho, _ = super()._t_conditional(square, scales)
        p = 5  # weights of a layer in `geweke`
        return chi, rho, p * self.a_pi - p / 2


class HalvedChi(_Faulty):
    """chi of T without its factor 2."""

    def _t_conditional(self, square: Tensor, scales: R2D2Scales) -> tuple[Tensor, Tensor, float]:
        chi, rho, lam = super()._t_conditional(square, scales)
        return chi / 2, rho, lam


class DroppedHalfInTheOrder(_Faulty):
    """a_pi in place of a_pi - 1/2."""

    def _t_conditional(self, square: Tensor, scales: R2D2Scales) -> tuple[Tensor, Tensor, float]:
        chi, rho, lam = super()._t_conditional(square, scales)
        return chi, rho, lam + 0.5


class DroppedHalfInTheVariance(_Faulty):
    """psi drawn as if the variance were psi T, without the 1/2."""

    def _psi_conditional(self, square: Tensor, t: Tensor) -> tuple[Tensor, float]:
        chi, rho = super()._psi_conditional(square, t)
        return chi / 2, rho


class SwappedGamma(_Faulty):
    """xi with shape and rate exchanged, as in the authors' code."""

    def _rate_conditionals(self, omega: Tensor, count: float) -> tuple[Gamma, None]:
        xi, _ = super()._rate_conditionals(omega, count)
        return Gamma(xi.rate, xi.concentration, validate_args=False), None


class StaleOmega(_Faulty):
    """phi refreshed from T while omega stays what it was, as in the paper's algorithm."""

    def gibbs(self, w: Tensor, scales: R2D2Scales, generator: torch.Generator | None = None) -> R2D2Scales:
        square, p = squared(w), w.shape[-1]
        chi = (2 * square / (scales.phi * scales.psi)).sum_to_size(scales.xi.shape)
        omega = sample_gig(chi, 2 * scales.xi, p * (self.a_pi - 0.5), generator)
        xi = standard_gamma(torch.full_like(omega, p * self.a_pi + self.b), generator) / (1 + omega)
        psi = ReciprocalInverseGaussian(2 * square / (scales.phi * omega), 1.0).sample((), generator)
        drawn = sample_gig(2 * square / psi, 2 * xi, self.a_pi - 0.5, generator)
        stale = drawn / drawn.sum_to_size(omega.shape) * omega
        return R2D2Scales(stale, psi, xi, xi)


class FreshOmega(StaleOmega):
    """The same steps in the order that is right: omega comes straight after phi. Must pass."""

    def gibbs(self, w: Tensor, scales: R2D2Scales, generator: torch.Generator | None = None) -> R2D2Scales:
        square, p = squared(w), w.shape[-1]
        drawn = sample_gig(2 * square / scales.psi, 2 * scales.xi, self.a_pi - 0.5, generator)
        phi = drawn / drawn.sum_to_size(scales.xi.shape)
        chi = (2 * square / (phi * scales.psi)).sum_to_size(scales.xi.shape)
        omega = sample_gig(chi, 2 * scales.xi, p * (self.a_pi - 0.5), generator)
        xi = standard_gamma(torch.full_like(omega, p * self.a_pi + self.b), generator) / (1 + omega)
        psi = ReciprocalInverseGaussian(2 * square / (phi * omega), 1.0).sample((), generator)
        return R2D2Scales(phi * omega, psi, xi, xi)


@pytest.mark.parametrize(
    "fault",
    [PaperOrder, HalvedChi, DroppedHalfInTheOrder, DroppedHalfInTheVariance, SwappedGamma, StaleOmega],
)
def test_the_geweke_proof_rejects(fault: type[_Faulty]) -> None:
    """60,000 chains and 12 sweeps: the stale omega is the faintest, |z| about 10."""
    assert geweke(fault(), seed=11, sweeps=12, chains=60_000).p_value < REJECT


def test_the_geweke_proof_accepts_the_right_order() -> None:
    """False-alarm rate 2e-6: what is rejected above is the order, not the way the test writes it."""
    assert geweke(FreshOmega(), seed=11, sweeps=12, chains=60_000).p_value > REJECT
