"""Adam on flat vectors, with the prior's precision term applied as a proximal step.

Adam divides by a running root mean square of the gradient. A sampled precision c = 1 / v can be 1e10 at one
step and 1 at the next: inside the gradient it would blow that root mean square up and freeze the weight for thousands
of steps. Outside it, the step

    minimise  (mu - mu')^2 / (2 eta) + beta c mu^2 / 2     =>     mu = mu' / (1 + eta beta c)

with Adam's own step size eta = lr / sqrt(v_hat + eps^2) is stable for every c and has the same fixed points. (Adam as
published has sqrt(v_hat) + eps, the same but for a share of eps / sqrt(v_hat). A reciprocal root is cheaper.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Moments(NamedTuple):
    """Running mean and mean square of the gradient."""

    first: Tensor
    second: Tensor


def no_moments(like: Tensor) -> Moments:
    """Moments before the first step."""
    return Moments(torch.zeros_like(like), torch.zeros_like(like))


def adam_step(
    vector: Tensor,
    gradient: Tensor,
    moments: Moments,
    t: int,
    lr: float,
    unit: Tensor | float = 1.0,
    *,
    precision: Tensor | None = None,
    weight: float = 0.0,
) -> None:
    """Update ``vector`` and ``moments`` in place at step t = 1, 2, ...

    Each entry moves by at most about ``lr``, in units of its own or of the vector's. Where a precision is given, the
    proximal step of weight * precision * vector^2 / 2 follows.
    """
    moments.first.lerp_(gradient, 1 - BETA1)
    moments.second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    correction = math.sqrt(1 - BETA2**t)
    size = lr * correction
    eta = torch.add(moments.second, (EPSILON * correction) ** 2).rsqrt_()  # in units of size
    if isinstance(unit, Tensor):
        eta.mul_(unit)
    else:
        size *= unit
    vector.addcmul_(moments.first, eta, value=-size / (1 - BETA1**t))
    if precision is not None:
        vector.div_(eta.mul_(precision).mul_(size * weight).add_(1))
