"""Adam on one flat vector, with the prior's precision term applied as a proximal step.

Adam divides by a running root mean square of the gradient. A sampled precision c = 1 / v can be 1e10 at one
step and 1 at the next: inside the gradient it would blow that root mean square up and freeze the weight for thousands
of steps. Outside it, the step

    minimise  (mu - mu')^2 / (2 eta) + beta c mu^2 / 2     =>     mu = mu' / (1 + eta beta c)

with Adam's own step size eta = lr / (sqrt(v_hat) + eps) is stable for every c and has the same fixed points.
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
    vector: Tensor, gradient: Tensor, moments: Moments, t: int, lr: float, unit: Tensor | None = None
) -> Tensor:
    """Update ``vector`` and ``moments`` in place at step t = 1, 2, ...; return the step sizes eta.

    Each entry moves by at most about ``lr``, in units of its own where ``unit`` is given.
    """
    moments.first.lerp_(gradient, 1 - BETA1)
    moments.second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    eta = torch.sqrt(moments.second).div_(math.sqrt(1 - BETA2**t)).add_(EPSILON).reciprocal_().mul_(lr)
    if unit is not None:
        eta.mul_(unit)
    vector.addcmul_(moments.first, eta, value=-1 / (1 - BETA1**t))
    return eta


def shrink_mean(mean: Tensor, eta: Tensor, precision: Tensor, weight: float) -> None:
    """Proximal step of weight * precision * mean^2 / 2, in place."""
    mean.div_((eta * precision).mul_(weight).add_(1))
