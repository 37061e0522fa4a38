"""The coordinate-ascent factors of the R2D2 prior, and its share of the ELBO."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, kl_divergence

from r2d2net.distributions import (
    GeneralizedInverseGaussian,
    ReciprocalInverseGaussian,
    gamma_mean_log,
    gig_moments,
    kl_gamma_random_rate,
    scaled_log_k,
)
from r2d2net.priors.base import Factors

if TYPE_CHECKING:
    from r2d2net.priors.r2d2 import R2D2, R2D2Scales


class R2D2Factors(Factors["R2D2Scales"]):
    """q(psi) q(T) q(xi), and q(eta) where the total shape is free."""

    def __init__(
        self,
        prior: R2D2,
        scales: R2D2Scales,
        psi: ReciprocalInverseGaussian,
        t: tuple[Tensor, Tensor, float],
        xi: Gamma,
        eta: Gamma | None,
    ) -> None:
        self._prior, self._scales = prior, scales
        self.psi, self.xi, self.eta = psi, xi, eta
        self._t = t

    @property
    def T(self) -> GeneralizedInverseGaussian:  # noqa: N802 (the paper's symbol)
        """q(T), built when it is asked for: a sweep needs only two of its moments."""
        return GeneralizedInverseGaussian(*self._t)

    @property
    def scales(self) -> R2D2Scales:
        return self._scales

    @property
    def precision(self) -> Tensor:
        return 1 / self._prior.variance(self._scales)

    def log_variance(self) -> Tensor:
        return math.log(self._prior.sigma0**2 / 2) + self.psi.mean_log + self.T.mean_log

    def bound(self, second_moment: Tensor) -> Tensor:
        """The prior's share of the ELBO without E log T and E log psi, which cancel between log N and the KL."""
        return self.local_bound(second_moment) - self.kl_of_xi() - self.kl_of_eta()

    def local_bound(self, second_moment: Tensor) -> Tensor:
        """Compute the share of the ELBO that the weights, psi and T have, without that of xi and eta.

        Args:
            second_moment: E w^2.

        Returns:
            The share, a scalar.
        """
        prior, (chi, rho, lam) = self._prior, self._t
        # E[log N] + H[psi] + E[log p(psi)], one term of each that holds log psi gone
        local = -math.log(2) - 0.5 * torch.sqrt(self.psi.chi) - 0.5 * math.log(prior.sigma0**2 / 2)
        local = local - 0.5 * self.precision * second_moment
        # H[T] + (E rho T + E chi / T) / 2 - E[log T] terms: log_z, delta and an asinh, each of order one
        chi64, rho64 = chi.to(torch.float64), rho.to(torch.float64)
        om = torch.sqrt(chi64) * torch.sqrt(rho64)
        order = torch.full_like(om, abs(lam))
        log_z, delta = scaled_log_k(order, om)
        entropy = log_z + order * torch.asinh(order / om) + delta + 0.5 * lam * (torch.log(chi64) - torch.log(rho64))
        mean_t = gig_moments(chi, rho, lam)[0]
        shared = (self._scales.rate * mean_t.sum_to_size(self.xi.rate.shape)).sum()
        count = om.numel() / max(1, self.xi.rate.numel())
        local = local + entropy.to(local.dtype) - math.lgamma(prior.a_pi)
        return local.sum() + prior.a_pi * count * self._mean_log_rate().sum() - shared

    def kl(self) -> Tensor:
        return self.local_kl() + self.kl_of_xi() + self.kl_of_eta()

    def local_kl(self) -> Tensor:
        """Compute the KL of psi and T, a scalar."""
        half = torch.tensor(0.5, dtype=self.psi.chi.dtype, device=self.psi.chi.device)
        link = kl_gamma_random_rate(self.T, self._prior.a_pi, self._scales.rate, self._mean_log_rate())
        return kl_divergence(self.psi, Exponential(half)).sum() + link.sum()

    def _mean_log_rate(self) -> Tensor:
        """E[log rate] in T's prior; with eta the normalising constants of T and eta | xi cancel it."""
        return gamma_mean_log(self.xi) if self.eta is None else torch.zeros_like(self.xi.rate)

    def kl_of_xi(self) -> Tensor:
        """Compute the KL of xi, a scalar."""
        ones = torch.ones_like(self.xi.concentration)
        return kl_divergence(self.xi, Gamma(self._prior.b * ones, ones)).sum()

    def kl_of_eta(self) -> Tensor:
        """Compute the KL of eta, a scalar; 0 where there is none.

        p(T, eta | xi) = prod_j [T_j^(a_pi-1) e^-(xi+eta)T_j / Gamma(a_pi)] eta^(e-1) xi^a / B(e, a), e = p a_pi - a.
        """
        xi, eta, a = self.xi, self.eta, self._prior.total
        if eta is None or a is None:
            return xi.concentration.new_zeros(())
        e = eta.concentration
        log_beta = torch.lgamma(e) + math.lgamma(a) - torch.lgamma(e + a)
        return (-eta.entropy() - (e - 1) * gamma_mean_log(eta) - a * gamma_mean_log(xi) + log_beta).sum()
