"""Kullback-Leibler divergences of the shrinkage hierarchies, registered with torch.distributions.

torch has Gamma/Gamma, Normal/Normal, Dirichlet/Dirichlet and Laplace/Laplace; this module adds giG/Gamma, reciprocal
inverse Gaussian/Exponential and an upper bound of Normal/spike-and-slab. A hierarchy also needs the divergence from a
gamma prior whose rate is itself random: `kl_gamma_random_rate`.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Normal, kl_divergence, register_kl

from r2d2net.distributions.exponential_integral import EULER, scaled_expint
from r2d2net.distributions.generalized_inverse_gaussian import GeneralizedInverseGaussian
from r2d2net.distributions.inverse_gaussian import ReciprocalInverseGaussian
from r2d2net.distributions.primitives import gamma_mean_log
from r2d2net.distributions.spike_slab_normal import SpikeSlabNormal


class PositiveFactor(Protocol):
    """A distribution on the half line with the moments that a divergence from a gamma prior needs."""

    @property
    def mean(self) -> Tensor: ...
    @property
    def mean_log(self) -> Tensor: ...
    def entropy(self) -> Tensor: ...


def kl_gamma_random_rate(
    q: PositiveFactor | Gamma, shape: Tensor | float, mean_rate: Tensor, mean_log_rate: Tensor
) -> Tensor:
    """Compute E_rate KL(q || Gamma(shape, rate)), element by element.

    Args:
        q: A gamma, giG or reciprocal inverse Gaussian factor.
        shape: Shape of the prior.
        mean_rate: E[rate] under the rate's own factor.
        mean_log_rate: E[log rate] under the rate's own factor.

    Returns:
        The expected divergence, in the batch shape of ``q``.
    """
    mean_log = gamma_mean_log(q) if isinstance(q, Gamma) else q.mean_log
    a = torch.as_tensor(shape, dtype=mean_log.dtype, device=mean_log.device)
    return -q.entropy() - a * mean_log_rate + torch.lgamma(a) - (a - 1) * mean_log + mean_rate * q.mean


@register_kl(GeneralizedInverseGaussian, Gamma)
def _kl_gig_gamma(q: GeneralizedInverseGaussian, p: Gamma) -> Tensor:
    return kl_gamma_random_rate(q, p.concentration, p.rate, torch.log(p.rate))


@register_kl(ReciprocalInverseGaussian, Gamma)
def _kl_reciprocal_gamma(q: ReciprocalInverseGaussian, p: Gamma) -> Tensor:
    return kl_gamma_random_rate(q, p.concentration, p.rate, torch.log(p.rate))


@register_kl(ReciprocalInverseGaussian, Exponential)
def _kl_reciprocal_exponential(q: ReciprocalInverseGaussian, p: Exponential) -> Tensor:
    """KL in terms of t = sqrt(chi rho) and r = rate / rho, that is in units where rho = 1."""
    limit = q.chi == 0
    t = torch.sqrt(torch.where(limit, 1.0, q.chi)) * torch.sqrt(q.rho)
    minus_entropy = -0.5 * (math.log(2 * math.pi) + 1 + torch.log(t) + scaled_expint(2 * t))
    minus_entropy = torch.where(limit, -0.5 * (math.log(math.pi) + 1 - EULER), minus_entropy)
    t = torch.where(limit, 0.0, t)
    r = p.rate / q.rho
    return minus_entropy - torch.log(r) + r * (1 + t)


@register_kl(Normal, SpikeSlabNormal)
def _kl_normal_spike_slab(q: Normal, p: SpikeSlabNormal) -> Tensor:
    """An upper bound: -log(pi e^-KL(q || slab) + (1 - pi) e^-KL(q || spike)); the mixture has no closed form."""
    slab, spike = p.components()
    wide = Normal(q.loc.double(), q.scale.double())
    bound = -p.log_mix(-kl_divergence(wide, slab), -kl_divergence(wide, spike))
    return bound.to(torch.promote_types(q.loc.dtype, p.slab_scale.dtype))
