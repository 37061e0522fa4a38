"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin, 2014), the paper's SGMCMC, by a splitting.

    dw = v dt,      dv = -(l g + b l c w + gamma v) dt + sqrt(2 gamma b l) dB,      b = T / N,

has the target (see `langevin`) for w and N(0, b l) for v. A step has the length 1 and is B R O R:

    B    v <- v - l g / (1 - s / 16)                                                the likelihood's kick
    R    w <- w + v / 4,    v <- v - (s / 2) / (1 + s / 16) w,    w <- w + v / 4    the prior's motion, half a step
    O    v <- (1 - friction) v + sqrt((1 - (1 - friction)^2) b l) N(0, 1)

with s = b l c. R is the implicit midpoint rule, written as shears: a rotation that keeps c w^2 + v^2 / (b l), so that
R and O keep the prior whatever l. The kick's factor carries a property of the splitting B A O A B (Leimkuhler and
Matthews, 2013) over to a prior whose motion is part of A: under a Gaussian likelihood the mean and variance of w are
exact for every stable step size, and the variance of v is off by O(l), if gradients are those of all rows.

s stays below 1: a weight that its prior holds tightly takes smaller steps, l = 1 / (b c). Where l changes at a sweep, v
is rescaled with its root and so keeps its law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from r2d2net.errors import require
from r2d2net.inference.langevin import Gradients, Langevin, LangevinState, Sampling, descend
from r2d2net.model import BayesianModel, Tensors


@dataclass(frozen=True, kw_only=True)
class SGHMC(Sampling):
    """Stochastic gradient Hamiltonian Monte Carlo; the other arguments are those of `Sampling`.

    Args:
        friction: Share of the velocity that is lost in a step: 0.1 is a momentum of 0.9.
    """

    friction: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = isinstance(self.friction, (int, float)) and 0 < self.friction <= 1
        require(fits, "friction", self.friction, "use a share above 0, up to 1")

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Langevin:
        """Bind to a model, the number of training rows and of steps."""
        kernel = Underdamped(self.friction)
        return Langevin(self, model, kernel, kernel, Underdamped.coefficients, n=n, steps=steps)


class Underdamped:
    """The splitting B R O R."""

    coefficients = ("size", "kick", "back", "spread")
    limit: ClassVar[float] = 4.0  # the leapfrog's

    def __init__(self, friction: float) -> None:
        self.left = 1 - friction  # of the velocity after a step

    def prepare(self, state: LangevinState, steps: Tensors, beta: float) -> None:
        now, v = state.coefficients, state.velocity["weights"]
        held = state.precision * beta
        v.div_(now["size"].sqrt_())
        size = torch.minimum(steps["weights"], held.reciprocal(), out=now["size"])
        root = torch.sqrt(size, out=now["spread"])
        v.mul_(root)
        root.mul_(math.sqrt(beta * (1 - self.left**2)))
        s = held.mul_(size)
        torch.div(s, -16, out=now["kick"]).add_(1).reciprocal_().mul_(size)
        torch.div(s, 16, out=now["back"]).add_(1).reciprocal_().mul_(s).div_(2)
        now["fixed"].copy_(steps["fixed"])

    def move(self, state: LangevinState, gradients: Gradients, normal: Tensor) -> None:
        now, w, v = state.coefficients, state.weights, state.velocity["weights"]
        descend(v, gradients["weights"], now["kick"])
        _rotate(w, v, now["back"])
        v.mul_(self.left).addcmul_(normal, now["spread"])
        _rotate(w, v, now["back"])
        descend(state.velocity["fixed"].mul_(self.left), gradients["fixed"], now["fixed"])
        state.fixed.add_(state.velocity["fixed"])


def _rotate(w: Tensor, v: Tensor, back: Tensor) -> None:
    """Integrate half a step of the motion under the prior, in place."""
    w.add_(v, alpha=0.25)
    v.addcmul_(w, back, value=-1)
    w.add_(v, alpha=0.25)
