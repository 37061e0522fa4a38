"""Plain stochastic variational inference: Adam on the whole ELBO, KL included, over mu and rho = log s.

With a Gaussian prior the KL is closed and this is Bayes by Backprop (Blundell et al., 2015) in its lower-variance
form. Other priors take their expected precision from the coordinate-ascent factors, as CAVI does; what differs from
CAVI is the gradient step: here Adam sees the whole of d/dmu = g + beta c mu and d/drho = g_s s + beta (c s^2 - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from r2d2net.errors import require
from r2d2net.inference.adam import Step, adam_step
from r2d2net.inference.mean_field_family import Family, Form, Piece
from r2d2net.inference.scale_updates import CoordinateUpdate
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import BayesianModel

# Deviations must not outrun what gradients of drawn weights can tell of them: with a third of the means' step size,
# LeNet under priors of unit variance had only noise left after 200 steps on MNIST.
RHO_SHARE = 1 / 20


@dataclass(frozen=True, kw_only=True)
class SVI(Variational):
    """Stochastic variational inference; the arguments are those of `Variational`."""

    estimator: Literal["weights", "local"] | None = "weights"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.variance == "free", "variance", self.variance, "plain variational inference needs 'free'")

    @property
    def family(self) -> Family:
        return Family(LOG)

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> MeanField:
        return MeanField(self, model, CoordinateUpdate(self.compile is True), RHO_SHARE, n=n, steps=steps)


def _log_start(scale: Tensor, precision: Tensor) -> Tensor:
    return torch.log(scale)


def _log_deviation(out: Tensor, rho: Tensor, precision: Tensor) -> Tensor:
    return torch.exp(rho, out=out)


def _log_update(piece: Piece, step: Step, rho_step: Step, beta: float | Tensor) -> None:
    pull = piece.scale.square_().mul_(piece.precision).sub_(1)
    adam_step(piece.rho, piece.g_rho.add_(pull.mul_(beta)), piece.rho_moments, rho_step)
    gradient = torch.mul(piece.precision, piece.mean, out=pull).mul_(beta).add_(piece.g_mean)
    adam_step(piece.mean, gradient, piece.mean_moments, step)


LOG = Form(_log_start, _log_deviation, _log_update)
