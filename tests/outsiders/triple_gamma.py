"""The triple gamma prior (Cadonna, Frühwirth-Schnatter and Knaus, 2020, "Triple the gamma").

    w_j | xi_j, kappa_j ~ N(0, phi xi_j / kappa_j),      xi_j ~ Gamma(a, a),      kappa_j ~ Gamma(c, c)

    xi | w, kappa ~ giG(w^2 kappa / phi, 2 a, a - 1/2),     kappa | w, xi ~ Gamma(c + 1/2, c + w^2 / (2 phi xi))

a = c = 1/2 is the horseshoe with a known global scale. In coordinate ascent the factors are the same with w^2 replaced
by E w^2, kappa by its mean and xi by one over the mean of 1 / xi.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Gamma, kl_divergence

from r2d2net.distributions import GeneralizedInverseGaussian, gamma_mean_log, gig_moments, standard_gamma
from r2d2net.priors import ContinuousScalePrior, Factors
from r2d2net.priors.base import (
    Shape,
    finite_square,
    log_gamma_density,
    positive_finite,
    require_groups,
    scale_parameter,
    shape_parameter,
    squared,
)
from r2d2net.priors.scale_quadrature import NORMAL, log_scale_mixture


class TripleGammaScales(NamedTuple):
    """The numerator and the denominator of each weight's variance."""

    xi: Tensor  # shape of w
    kappa: Tensor  # shape of w


class TripleGamma(ContinuousScalePrior[TripleGammaScales]):
    """Normal weights whose variances follow an F distribution.

    Args:
        a: Shape of the numerator: the smaller, the sharper the spike at zero.
        c: Shape of the denominator: p(w) falls as |w|^-(1 + 2c).
        phi: Variance in units of which the weights are measured.
    """

    def __init__(self, a: float = 0.3, c: float = 0.5, phi: float = 1.0) -> None:
        self.a = shape_parameter("a", a)
        self.c = shape_parameter("c", c)
        self.phi = scale_parameter("phi", phi)

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> TripleGammaScales:
        require_groups(shape, groups)
        one = torch.ones(tuple(shape), dtype=dtype, device=device)
        xi = positive_finite(standard_gamma(self.a * one, generator) / self.a)
        return TripleGammaScales(xi, positive_finite(standard_gamma(self.c * one, generator) / self.c))

    def variance(self, scales: TripleGammaScales) -> Tensor:
        return positive_finite(self.phi * scales.xi / scales.kappa)

    def log_prob(self, w: Tensor) -> Tensor:
        a, c, unit = self.a, self.c, math.sqrt(self.phi)
        log_beta = math.lgamma(a) + math.lgamma(c) - math.lgamma(a + c)

        def log_mixing(log_s: Tensor) -> Tensor:  # s^2 = xi / kappa has an F distribution
            log_odds = 2 * log_s + math.log(a / c)
            return math.log(2) - log_beta + a * log_odds - (a + c) * torch.nn.functional.softplus(log_odds)

        # log s is as narrow as this for large shapes
        spread = 0.5 * float(torch.polygamma(1, torch.tensor([a, c], dtype=torch.float64)).sum().sqrt())
        kernel = NORMAL._replace(step=min(NORMAL.step, spread / 2))
        at_zero = math.inf
        if a > 0.5:  # E[1 / s] is finite
            at_zero = math.lgamma(a - 0.5) + math.lgamma(c + 0.5) - math.lgamma(a) - math.lgamma(c)
            at_zero += 0.5 * math.log(a / c) - 0.5 * math.log(2 * math.pi)
        return log_scale_mixture(w / unit, kernel, log_mixing, tail_rate=2 * c, log_at_zero=at_zero) - math.log(unit)

    def gibbs(
        self, w: Tensor, scales: TripleGammaScales, generator: torch.Generator | None = None
    ) -> TripleGammaScales:
        square = squared(w)
        shape, rate = self._kappa(square, scales.xi)
        kappa = positive_finite(standard_gamma(torch.full_like(w, shape).detach(), generator) / rate)
        xi = GeneralizedInverseGaussian(*self._xi(square, kappa)).sample(generator=generator)
        return TripleGammaScales(positive_finite(xi), kappa)

    def cavi(self, second_moment: Tensor, scales: TripleGammaScales) -> TripleGammaFactors:
        square = finite_square(second_moment)
        shape, rate = self._kappa(square, scales.xi)
        kappa = Gamma(torch.full_like(rate, shape), rate, validate_args=False)
        return TripleGammaFactors(self, self._xi(square, kappa.mean), kappa)

    def _kappa(self, square: Tensor, xi: Tensor) -> tuple[float, Tensor]:
        """Shape and rate of kappa's gamma distribution."""
        return self.c + 0.5, positive_finite(self.c + square / self.phi / xi / 2)

    def _xi(self, square: Tensor, kappa: Tensor) -> tuple[Tensor, float, float]:
        """The parameters of xi's giG distribution."""
        return positive_finite(square * (kappa / self.phi)), 2 * self.a, self.a - 0.5

    # --- scales in unconstrained form, for samplers that move them together with the weights

    def unconstrained(self, scales: TripleGammaScales) -> dict[str, Tensor]:
        return {"log_xi": scales.xi.log(), "log_kappa": scales.kappa.log()}

    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        log_xi = log_gamma_density(u["log_xi"], self.a, self.a).sum()
        return log_xi + log_gamma_density(u["log_kappa"], self.c, self.c).sum()

    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        return math.log(self.phi) + u["log_xi"] - u["log_kappa"]


class TripleGammaFactors(Factors[TripleGammaScales]):
    """q(xi) q(kappa), one giG and one gamma factor for each weight."""

    def __init__(self, prior: TripleGamma, xi: tuple[Tensor, float, float], kappa: Gamma) -> None:
        self._prior, self._xi, self._kappa = prior, xi, kappa

    @property
    def scales(self) -> TripleGammaScales:
        mean_reciprocal = gig_moments(*self._xi)[1]
        return TripleGammaScales(positive_finite(1 / mean_reciprocal), positive_finite(self._kappa.mean))

    @property
    def precision(self) -> Tensor:
        return 1 / self._prior.variance(self.scales)

    def log_variance(self) -> Tensor:
        xi = GeneralizedInverseGaussian(*self._xi)
        return math.log(self._prior.phi) + xi.mean_log - gamma_mean_log(self._kappa)

    def kl(self) -> Tensor:
        a, c = self._kappa.rate.new_tensor(self._prior.a), self._kappa.rate.new_tensor(self._prior.c)
        xi = kl_divergence(GeneralizedInverseGaussian(*self._xi), Gamma(a, a)).sum()
        return xi + kl_divergence(self._kappa, Gamma(c, c)).sum()
