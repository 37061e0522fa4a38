"""The generalized double Pareto prior (Armagan, Dunson and Lee, 2013).

    p(w) = alpha / (2 eta) * (1 + |w| / eta)^-(alpha + 1)

As a scale mixture: w | tau ~ N(0, tau), tau | lam ~ Exp(lam^2 / 2), lam ~ Gamma(alpha, eta). Without tau the
weight is Laplace with rate lam, so a sweep draws lam first, tau integrated out, and then tau:

    lam | w ~ Gamma(alpha + 1, eta + |w|),      tau | lam, w ~ giG(w^2, lam^2, 1/2)

The paper's exponent -alpha + 1 is a misprint.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.distributions import ReciprocalInverseGaussian, standard_gamma
from r2d2net.priors.base import (
    ContinuousScalePrior,
    Shape,
    finite_square,
    log_gamma_density,
    positive_finite,
    require_groups,
    scale_parameter,
    shape_parameter,
    squared,
)
from r2d2net.priors.collapsed_factors import CollapsedFactors

_CHUNK = 1 << 20  # largest number of (weight, node) pairs alive at once


class GeneralizedDoubleParetoScales(NamedTuple):
    """The variance and the Laplace rate of each weight."""

    tau: Tensor  # shape of w
    lam: Tensor  # shape of w


class GeneralizedDoublePareto(ContinuousScalePrior[GeneralizedDoubleParetoScales]):
    """A peak like the Laplace density's with polynomial tails.

    Args:
        alpha: Tail index: p(w) falls as |w|^-(alpha + 1); 1 is as heavy as Cauchy.
        eta: Scale: the density has fallen to 2^-(alpha + 1) of its peak at |w| = eta.

    >>> GeneralizedDoublePareto(alpha=3.0, eta=0.5).log_prob(torch.tensor([0.0, 1.0])).exp()
    tensor([3.0000, 0.0370])
    """

    has_finite_mode = True
    has_exact_factors = True
    draws_scales_jointly = True

    def __init__(self, alpha: float = 1.0, eta: float = 1.0) -> None:
        self.alpha = shape_parameter("alpha", alpha)
        self.eta = scale_parameter("eta", eta)

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> GeneralizedDoubleParetoScales:
        """Draw tau and lam; there is no global scale for ``groups`` to shape."""
        require_groups(shape, groups)
        alpha = torch.full(tuple(shape), self.alpha, dtype=dtype, device=device)
        lam = positive_finite(standard_gamma(alpha, generator) / self.eta)
        psi = 2 * torch.empty_like(lam).exponential_(generator=generator)
        return GeneralizedDoubleParetoScales(positive_finite(psi / lam / lam), lam)

    def variance(self, scales: GeneralizedDoubleParetoScales) -> Tensor:
        return scales.tau

    def log_prob(self, w: Tensor) -> Tensor:
        return math.log(self.alpha / (2 * self.eta)) - (self.alpha + 1) * torch.log1p(w.abs() / self.eta)

    def gibbs(
        self, w: Tensor, scales: GeneralizedDoubleParetoScales, generator: torch.Generator | None = None
    ) -> GeneralizedDoubleParetoScales:
        u = squared(w).sqrt()
        lam = standard_gamma(torch.full_like(u, self.alpha + 1), generator) / (self.eta + u)
        # tau lam^2 ~ giG(w^2 lam^2, 1, 1/2): u lam stays near 1 where u^2 and lam^2 leave the dtype
        psi = ReciprocalInverseGaussian((u * lam).square(), 1.0).sample(generator=generator)
        return GeneralizedDoubleParetoScales(positive_finite(psi / lam / lam), positive_finite(lam))

    def cavi(
        self, second_moment: Tensor, scales: GeneralizedDoubleParetoScales
    ) -> CollapsedFactors[GeneralizedDoubleParetoScales]:
        square = finite_square(second_moment)
        u = square.sqrt()
        lam = (self.alpha + 1) / (self.eta + u)  # E[lam]
        tau = positive_finite(u / lam)  # E[1/tau | lam] = lam / u
        return CollapsedFactors(
            GeneralizedDoubleParetoScales(tau, lam),
            square,
            1 / tau,
            lambda: self.log_prob(u),
            lambda: self._mean_log_tau(u),
        )

    def unconstrained(self, scales: GeneralizedDoubleParetoScales) -> dict[str, Tensor]:
        """Logs of psi = tau lam^2, which is Exp(1/2) whatever lam is, and of lam."""
        log_lam = scales.lam.log()
        return {"log_psi": scales.tau.log() + 2 * log_lam, "log_lam": log_lam}

    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        log_lam = log_gamma_density(u["log_lam"], self.alpha, self.eta)
        return (log_lam + log_gamma_density(u["log_psi"], 1.0, 0.5)).sum()

    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        return u["log_psi"] - 2 * u["log_lam"]

    def _mean_log_tau(self, u: Tensor) -> Tensor:
        """E[log tau | w = u] = log u - E[log lam] + E[e^y E1(y)], y = 2 u lam."""
        total = u + self.eta
        mean_log_lam = torch.digamma(torch.full_like(u, self.alpha + 1)) - total.log()
        return u.log() - mean_log_lam + _mean_scaled_expint(2 * u / total, self.alpha)


def _mean_scaled_expint(k: Tensor, alpha: float) -> Tensor:
    """int_0^inf (1 + k t)^-(alpha + 1) / (1 + t) dt for 0 < k <= 2.

    This is E[e^y E1(y)] for y ~ k Gamma(alpha + 1, 1), from e^y E1(y) = int e^(-y t) / (1 + t) dt. The case
    alpha = 0 is known, -log(k) / (1 - k), and carries the logarithm at k = 0. The rest, with y = k t, is
    int [(1 + y)^-alpha - 1] / ((1 + y) (k + y)) dy: smooth in log y, so that one grid serves all k.

    >>> _mean_scaled_expint(torch.tensor([1.0]), alpha=1.0)  # int (1 + t)^-3 dt
    tensor([0.5000])
    """
    d = 1 - k
    negative_log = torch.where(d.abs() < 0.5, -torch.log1p(-d.clamp(max=0.5)), -k.log())
    known = torch.where(d == 0, 1.0, negative_log / torch.where(d == 0, 1.0, d))

    step = 1 / 4
    y = torch.arange(-40, 40, step, dtype=k.dtype, device=k.device).exp()
    weights = step * y / (1 + y) * torch.expm1(-alpha * torch.log1p(y))
    parts = k.reshape(-1).split(_CHUNK // y.numel())
    rest = torch.cat([(1 / (part.unsqueeze(-1) + y)) @ weights for part in parts])
    return known + rest.reshape(k.shape)
