"""Mean-field variational inference with Gaussian priors: the closed-form KL, gradients by local reparametrisation.

    q(w_j) = N(mu_j, s_j^2),    KL = sum_j [mu_j^2 + s_j^2] / (2 scale^2) - 1/2 - log(s_j / scale)

The bound is that of `SVI`, and so is the optimum. What differs is the way there: activations are drawn in place of
weights, so that gradients have less noise; and the parameter of s is what the data add to the prior's precision
(1 / s^2 = c + lambda) in place of log s. It is `CAVI` for the prior whose scales are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from r2d2net.errors import require
from r2d2net.inference.base import require_priors
from r2d2net.inference.scale_updates import CoordinateUpdate
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import BayesianModel


@dataclass(frozen=True, kw_only=True)
class MFVI(Variational):
    """Mean-field variational inference with Gaussian priors; the arguments are those of `Variational`."""

    suits_every_prior = False

    estimator: Literal["weights", "local"] | None = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.variance == "free", "variance", self.variance, "mean-field inference needs 'free'")

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> MeanField:
        require_priors(model, lambda prior: not prior.has_scales, "MFVI", "it has scales to learn")
        return MeanField(self, model, CoordinateUpdate(self.compile is True), n=n, steps=steps)
