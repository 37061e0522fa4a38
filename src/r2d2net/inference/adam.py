"""Adam on flat vectors, with the prior's precision term applied as a proximal step.

Adam divides by a running root mean square of the gradient. A sampled precision c = 1 / v can be 1e10 at one
step and 1 at the next: inside the gradient it would blow that root mean square up and freeze the weight for thousands
of steps. Outside it, the step

    minimise  (mu - mu')^2 / (2 eta) + beta c mu^2 / 2     =>     mu = mu' / (1 + eta beta c)

with Adam's own step size eta = lr / sqrt(v_hat + eps^2) is stable for every c and has the same fixed points. (Adam
has sqrt(v_hat) + eps, the same but for a share of eps / sqrt(v_hat); a reciprocal root is cheaper.)
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Moments(NamedTuple):
    """Running mean and mean square of the gradient."""

    first: Tensor
    second: Tensor


class Step(NamedTuple):
    """The number and size of a step; tensors without dimensions in compiled code, where numbers would be constants."""

    t: float | Tensor  # 1, 2, ...
    lr: float | Tensor  # each entry moves by at most about this
    first: float | Tensor  # 1 - beta1^t
    second: float | Tensor  # sqrt(1 - beta2^t)
    unit: Tensor | None = None  # of lr, for each entry; None where it is the same for all and in lr

    @classmethod
    def at(cls, t: int, lr: float, unit: Tensor | None = None) -> Step:
        """Return step t = 1, 2, ... of a given size."""
        return cls(t, lr, 1 - BETA1**t, math.sqrt(1 - BETA2**t), unit)


def no_moments(like: Tensor) -> Moments:
    """Return zero moments for a vector."""
    return Moments(torch.zeros_like(like), torch.zeros_like(like))


def adam_step(vector: Tensor, gradient: Tensor, moments: Moments, step: Step, *, ascend: bool = False) -> None:
    """Update ``vector`` and ``moments`` in place, against the gradient or along it."""
    t, lr, first, second, unit = step
    if isinstance(t, Tensor) or isinstance(lr, Tensor):
        moments.first.lerp_(-gradient if ascend else gradient, 1 - BETA1)
        moments.second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        vector.sub_(moments.first / (moments.second.sqrt() / second + EPSILON) * (lr / first))
        return
    moved = vector if unit is None else torch.zeros_like(vector)
    torch._fused_adam_(  # the kernel of torch.optim.Adam(fused=True): one pass over memory
        [moved],
        [gradient],
        [moments.first],
        [moments.second],
        [],
        [_clock(t, vector.device)],
        lr=lr,
        beta1=BETA1,
        beta2=BETA2,
        weight_decay=0.0,
        eps=EPSILON,
        amsgrad=False,
        maximize=ascend,
    )
    if unit is not None:
        vector.addcmul_(moved, unit)


@lru_cache(maxsize=4)
def _clock(t: float, device: torch.device) -> Tensor:
    """Return t as a tensor, which the kernel reads; all blocks of a step share it."""
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False):
            return torch.full((), t, dtype=torch.float32, device=device)
    return torch.full((), t, dtype=torch.float32, device=device)


def proximal_step(vector: Tensor, moments: Moments, step: Step, precision: Tensor, weight: float | Tensor) -> None:
    """Take the proximal step of weight * precision * vector^2 / 2 after Adam's step, in place."""
    size = step.lr * step.second * weight
    eta = torch.add(moments.second, (EPSILON * step.second) ** 2).rsqrt_()  # in units of lr
    if step.unit is not None:
        eta.mul_(step.unit)
    if isinstance(size, Tensor):
        vector.div_(1 + eta * size * precision)  # in this order: eta * precision may overflow where size is 0
    elif size > 0:  # eta * precision may overflow, and on some devices comes first
        vector.div_(torch.addcmul(eta.new_ones(()), eta, precision, value=size, out=eta))


def add_product_(vector: Tensor, x: Tensor, y: Tensor, factor: float | Tensor) -> Tensor:
    """Add factor x y to ``vector``. Compiled code has factors as tensors, since numbers would be compiled in."""
    return vector.add_(x * y * factor) if isinstance(factor, Tensor) else vector.addcmul_(x, y, value=factor)
