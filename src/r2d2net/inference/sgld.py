"""Stochastic gradient Langevin dynamics (Welling and Teh, 2011), the prior's part by an exponential integrator.

    dw = -(l g + b l c w) dt + sqrt(2 b l) dB,      b = T / N,

with g constant over a step of length 1 is an Ornstein-Uhlenbeck process, whose step is

    w <- e^-a w - l phi(a) g + sqrt((1 - e^-2a) / c) N(0, 1),      a = b l c,      phi(a) = (1 - e^-a) / a.

Where the likelihood is Gaussian too, of precision d (N / T times the curvature of the mean loss), the mean is exact,
and the variance that of the target times (2 - k c) / (2 - k (c + d)), k = b l phi(a): off by k d / 2 at first order.

The burn-in takes the steps of SGHMC, whose momentum gets there sooner; no draw is kept of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from r2d2net.inference.langevin import Gradients, Langevin, LangevinState, Sampling, descend
from r2d2net.inference.sghmc import Underdamped
from r2d2net.model import BayesianModel, Tensors

FRICTION = 0.1  # of the burn-in


@dataclass(frozen=True, kw_only=True)
class SGLD(Sampling):
    """Stochastic gradient Langevin dynamics; the arguments are those of `Sampling`."""

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Langevin:
        """Bind to a model, the number of training rows and of steps."""
        exploring, names = Underdamped(FRICTION), Underdamped.coefficients
        return Langevin(self, model, exploring, Overdamped(), names, n=n, steps=steps)


class Overdamped:
    """The exponential integrator; its coefficients are 1 - e^-a, l phi(a) and the noise's deviation."""

    limit: ClassVar[float] = 2.0

    def prepare(self, state: LangevinState, steps: Tensors, beta: float) -> None:
        now = state.coefficients
        rate, c = steps["weights"] * beta, state.precision
        a = rate * c
        acts = a > torch.finfo(a.dtype).tiny  # the prior; where it does not, the limits a -> 0
        lost = torch.expm1(-a, out=now["back"]).neg_()  # 1 - e^-a; 1 - e^-2a = lost (2 - lost)
        now["kick"].copy_(torch.where(acts, lost / (beta * c), steps["weights"]))
        now["spread"].copy_(torch.where(acts, lost * (2 - lost) / c, 2 * rate).sqrt_())
        now["fixed"].copy_(steps["fixed"])

    def move(self, state: LangevinState, gradients: Gradients, normal: Tensor) -> None:
        now, w = state.coefficients, state.weights
        w.addcmul_(w, now["back"], value=-1)
        descend(w, gradients["weights"], now["kick"])
        w.addcmul_(normal, now["spread"])
        descend(state.fixed, gradients["fixed"], now["fixed"])
