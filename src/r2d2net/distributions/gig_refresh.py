"""Gibbs updates of giG(chi, rho, lam) variables by one proposal each; a rejected proposal leaves the old value.

Whether a proposal x' of `gig_sampler` is accepted depends on (chi, rho, lam) and never on the old value x. So

    x <- x' ~ giG(chi, rho, lam) with probability a(chi, rho, lam),      x <- x otherwise

leaves giG(chi, rho, lam) invariant, as a Gibbs sweep must. No rejected proposal is drawn again, so all shapes are
known beforehand, which suits compilers and accelerators.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.distributions.gig_sampler import (
    HIGH_ORDER,
    LOW_ORDER,
    NARROW_LEAST,
    NARROW_MOST,
    TouchingPoints,
    propose,
    representable,
    touching_points,
)
from r2d2net.distributions.primitives import where_negative


class Hat(NamedTuple):
    """The part of a proposal that depends on the order alone.

    Attributes:
        order: |lam|, a scalar.
        points: Limits of the hat's touching points.
    """

    order: Tensor
    points: TouchingPoints


def gig_refreshed(
    x: Tensor,
    chi: Tensor,
    rho: Tensor,
    lam: float,
    u: Tensor,
    v: Tensor,
    *,
    hat: Hat | None = None,
    buffers: Tensor | None = None,
) -> Tensor:
    """Propose a new value for each element once and keep the old value where the proposal is rejected.

    Args:
        x: Old values, a flat tensor.
        chi: Coefficient of 1/x, positive and finite. In float32 it is held at 1e30 / rho, which no sweep of R2D2
            reaches: psi is as small as that only where w^2 is.
        rho: Coefficient of x, positive and finite; a tensor in the shape of ``chi`` or a scalar.
        lam: Order.
        u: Uniform numbers on [0, 1), in the shape of ``x``.
        v: Uniform numbers independent of ``u``.
        hat: Result of `hat_of` for the order in the working dtype, which compiled code cannot compute.
        buffers: `BUFFERS` rows of at least the length of ``x`` that are overwritten: fresh memory costs more than
            the arithmetic.

    Returns:
        The updated values, in the shape and dtype of ``x``.
    """
    order, points = hat_of(lam, working_dtype(chi, rho, lam), x.device) if hat is None else hat
    work = order.dtype
    c, r = chi.to(work), rho.to(work)
    if work == torch.float32:
        c = torch.minimum(c, NARROW_MOST / r)
    else:
        c, r = representable(c, r, order)
    space = None if buffers is None or buffers.dtype != work else list(buffers[:, : x.numel()].unbind())
    proposed = propose(c, r, order, points, u.to(work), v.to(work), reciprocal=lam < 0, buffers=space)
    proposed = proposed.to(x.dtype)
    return where_negative(proposed, x, proposed)


def working_dtype(chi: Tensor, rho: Tensor, lam: float) -> torch.dtype:
    """Return float32 where proposals lose nothing in it, else float64; orders near zero depend on chi and rho."""
    if chi.dtype != torch.float32 or abs(lam) > HIGH_ORDER:
        return torch.float64
    if abs(lam) >= LOW_ORDER or chi.numel() == 0:
        return torch.float32
    least = math.sqrt(float(chi.min())) * math.sqrt(float(rho.min()))
    return torch.float32 if least >= math.sqrt(NARROW_LEAST) else torch.float64


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def hat_of(lam: float, work: torch.dtype, device: torch.device) -> Hat:
    """Compute the part of a proposal that depends on the order alone."""
    order = torch.tensor(abs(lam), dtype=work, device=device)
    return Hat(order, touching_points(order))
