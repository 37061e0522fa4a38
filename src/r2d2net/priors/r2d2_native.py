"""Sweeps of R2D2's scales by the native kernels: the conditionals of `r2d2`, in one pass over memory.

They are `R2D2.gibbs_` and `R2D2.cavi_` with random numbers of their own: a Gibbs sweep takes one key of 64 bits for T
and psi from the generator, and then draws xi as `R2D2` does. Scales that the kernels do not take (other dtypes, other
devices, orders beyond float32: see `gig_refresh.working_dtype`) are refreshed by torch.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from r2d2net.cache_blocks import require_flat
from r2d2net.distributions.gig_moments import narrow_table
from r2d2net.distributions.gig_refresh import hat_of, working_dtype
from r2d2net.distributions.gig_sampler import LOW_ORDER
from r2d2net.native import library
from r2d2net.priors.base import require_finite, squared
from r2d2net.priors.r2d2 import R2D2, R2D2Scales, _mean_rate

CPU = torch.device("cpu")


def native_gibbs_(
    prior: R2D2, w: Tensor, scales: R2D2Scales, precision: Tensor, generator: torch.Generator | None = None
) -> R2D2Scales:
    """Draw new scales in place, as `R2D2.gibbs_` does.

    Args:
        prior: The prior.
        w: Weights of the layer.
        scales: Current scales, overwritten.
        precision: Memory for 1 / v.
        generator: Source of randomness; None for torch's global generator.

    Returns:
        The new scales.
    """
    w = require_finite("w", w.detach())
    if not _fits(w, scales, precision) or _order_dtype(prior, w, scales) != torch.float32:
        return prior.gibbs_(w, scales, precision, generator)
    require_flat(T=scales.T, psi=scales.psi, precision=precision)
    rate = scales.rate if scales.rate.numel() == 1 else scales.rate.expand(w.shape).contiguous()
    key = library.new_key(generator)
    library.gibbs(_conditional(prior.a_pi, prior.sigma0), w.contiguous(), rate, scales.T, scales.psi, precision, key)
    omega = scales.T.sum_to_size(scales.xi.shape)
    xi, rate = prior._draw_rates(omega, w.numel() / max(1, omega.numel()), generator)
    return scales._replace(xi=xi, rate=rate)


def native_cavi_(prior: R2D2, second_moment: Tensor, scales: R2D2Scales, precision: Tensor) -> R2D2Scales:
    """Update the scales in place by coordinate ascent, as `R2D2.cavi_` does.

    Args:
        prior: The prior.
        second_moment: E w^2 of the layer's weights.
        scales: Point values of the factors, overwritten.
        precision: Memory for E[1 / v].

    Returns:
        The new scales.
    """
    second = require_finite("second_moment", second_moment.detach())
    if scales.xi.dim() or not _fits(second, scales, precision):
        return prior.cavi_(second, scales, precision)
    require_flat(T=scales.T, psi=scales.psi, precision=precision)
    table, rate = _table(abs(prior.a_pi - 0.5)), float(scales.rate)
    shared = _conditional(prior.a_pi, prior.sigma0)
    total = library.cavi(shared, table, rate, second.contiguous(), scales.T, scales.psi, precision)
    xi, eta = prior._rate_conditionals(torch.full_like(scales.xi, total), second.numel())
    return scales._replace(xi=xi.mean, rate=_mean_rate(xi, eta))


def _fits(w: Tensor, scales: R2D2Scales, precision: Tensor) -> bool:
    tensors = w, scales.T, scales.psi, scales.rate, precision
    return all(tensor.dtype == torch.float32 and tensor.device == CPU for tensor in tensors)


def _order_dtype(prior: R2D2, w: Tensor, scales: R2D2Scales) -> torch.dtype:
    """Return the dtype in which proposals of T lose nothing; only orders near zero depend on the weights."""
    lam = prior.a_pi - 0.5
    if abs(lam) >= LOW_ORDER:
        return working_dtype(w, w, lam)
    chi, rho, _ = prior._t_conditional(squared(w / prior.sigma0), scales)
    return working_dtype(chi, rho, lam)


@lru_cache(maxsize=32)
def _conditional(a_pi: float, sigma0: float) -> library.Conditional:
    lam = a_pi - 0.5
    order, points = hat_of(lam, torch.float32, CPU)
    shares = (-torch.expm1(-point) for point in (points.right, points.left))
    hat = (float(part) for part in (order, *points, *shares))
    return library.Conditional(*hat, 1 / sigma0, sigma0**2 / 2, lam < 0)


@lru_cache(maxsize=32)
def _table(order: float) -> Tensor:
    return torch.stack(narrow_table(order, CPU))
