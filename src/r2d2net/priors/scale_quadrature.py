"""Marginal densities of scale mixtures by the trapezoid rule on a logarithmic grid.

    w | s ~ k(w/s) / s,   log s ~ f        p(w) = 1/|w| * int k(e^z) e^z f(log|w| - z) dz,   z = log(|w|/s)

The integrand is analytic in a strip around the real line and decays at both ends, so the trapezoid rule
converges geometrically: with a strip of half-width d and a step h the relative error is about exp(-2 pi d/h).
A normal kernel has d = pi/4, a Laplace kernel pi/2 (Trefethen and Weideman, 2014, "The exponentially
convergent trapezoidal rule"). Both steps below put that error at 1e-17; sums run in the log domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

LogFunction = Callable[[Tensor], Tensor]

_DROP = 45.0  # what lies this far below the peak, in nats, is left out
_CHUNK = 1 << 20  # largest number of (weight, node) pairs alive at once


class Kernel(NamedTuple):
    """A density k of w/s, given as log k(e^z), and the step at which the trapezoid rule integrates it."""

    log_density: LogFunction
    step: float


NORMAL = Kernel(lambda z: -0.5 * (2 * z).exp() - 0.5 * math.log(2 * math.pi), step=1 / 8)
LAPLACE = Kernel(lambda z: -z.exp() - math.log(2), step=1 / 4)


def log_scale_mixture(
    w: Tensor,
    kernel: Kernel,
    log_mixing: LogFunction,
    *,
    tail_rate: float,
    log_at_zero: float = math.inf,
) -> Tensor:
    """Log density of w = s * x, where x has the kernel's density and log s the mixing density.

    Args:
        w: Weights of any shape; differentiable. Zeros are allowed.
        kernel: `NORMAL`, `LAPLACE` or another symmetric density.
        log_mixing: Log density of log s, element by element. Its bulk must lie near log s = 0: divide w by
            the unit of s first. A feature narrower than about one needs a kernel with a smaller step.
        tail_rate: The rate r >= 0 of the mixing density's upper tail, exp(-r log s).
        log_at_zero: The value at w = 0, where the logarithmic grid does not reach: log of k(0) E[1/s].

    >>> def half_cauchy(log_s):  # the horseshoe's: 1 / (pi cosh(log s))
    ...     return -math.log(math.pi) - log_s.cosh().log()
    >>> log_scale_mixture(torch.tensor([0.0, 1.0]), NORMAL, half_cauchy, tail_rate=1.0).exp()
    tensor([   inf, 0.1172])
    """
    magnitude = w.abs()
    at_zero, at_infinity = magnitude == 0, magnitude == math.inf
    log_w = torch.where(at_zero | at_infinity, 1.0, magnitude).log()
    flat = log_w.reshape(-1)
    if flat.numel() == 0:
        return torch.zeros_like(w)

    upper = _upper_limit(kernel, tail_rate)
    lowest = float(flat.detach().nan_to_num(0.0).amin())
    lower = min(lowest, 0.0) - max(_DROP / (1 + tail_rate), 4.0) - 1.0  # a steep tail sets in some way off
    nodes = kernel.step * torch.arange(
        math.floor(lower / kernel.step), math.ceil(upper / kernel.step) + 1, dtype=w.dtype, device=w.device
    )
    log_weights = kernel.log_density(nodes) + nodes + math.log(kernel.step)
    rows = max(1, _CHUNK // nodes.numel())
    grids = (part.unsqueeze(-1) - nodes for part in flat.split(rows))  # log s, shape (rows, nodes)
    sums = [torch.logsumexp(log_weights + log_mixing(log_s), dim=-1) for log_s in grids]
    density = torch.cat(sums).reshape(w.shape) - log_w
    return torch.where(at_zero, log_at_zero, torch.where(at_infinity, -math.inf, density))


def _upper_limit(kernel: Kernel, tail_rate: float) -> float:
    """The largest z = log(|w|/s) that matters: s is then so small that the kernel rules |w| out."""
    z = torch.arange(-8.0, 32.0, 1 / 8, dtype=torch.float64)
    exponent = kernel.log_density(z) + (1 + tail_rate) * z
    return float(z[exponent > exponent.max() - _DROP].max()) + 1 / 8
