"""Dirichlet prior networks (Malinin and Gales, 2018), trained with in-distribution data only.

The network's outputs z are log concentrations of a Dirichlet law of the class probabilities, a_k = exp(z_k). Each row
has a target law: of its class y, precise, and a little smoothed, since a Dirichlet law has no corners,

    b_y = precision (1 - smoothing),   b_k = precision smoothing / (K - 1) for k != y

and a step minimises per datum

    forward (2018)   KL(Dirichlet(b) || Dirichlet(a)) - (temperature / N) log p(w)
    reverse (2019)   KL(Dirichlet(a) || Dirichlet(b)) - (temperature / N) log p(w)

Where classes overlap the forward KL fits one law to a mixture of targets, so it loses precision and spreads as laws of
unknown inputs do; the reverse KL mixes the targets' concentrations and stays precise (Malinin and Gales, 2019).

The authors train with data from elsewhere too, whose target is the uniform law. Without them, as here, nothing is said
of unknown inputs: their precision is whatever the network makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from r2d2net.inference.descent import Training, default_step, require_one_of, require_positive, require_share
from r2d2net.inference.point import Point
from r2d2net.likelihoods.base import Noise
from r2d2net.likelihoods.dirichlet import Dirichlet, kl_dirichlet
from r2d2net.model import BayesianModel

STEP_SHARE = 0.25  # of the other algorithms' step size: the KL is exponential in the outputs


@dataclass(frozen=True, kw_only=True)
class DPN(Training):
    """A Dirichlet prior network, for a categorical likelihood; the other arguments are those of `Training`.

    Priors are those of `MAP`. One network is all there is, but its Dirichlet law has an epistemic part: `predict`
    returns a `DirichletClassification`. The history's nll is the loss, and the default lr a quarter of `Training`'s.

    Args:
        precision: Sum of a target's concentrations. The authors have 100 and 1000; with the latter training is slower.
        smoothing: Share of a target's mean that is spread over the other classes; 0.09 is the authors' 0.01 for each of
            nine. Predictions learn it too: they are hardly ever surer than 1 - smoothing.
        direction: "forward" or "reverse" KL.
        clip: As in `Training`, but with a default. The gradients at the start are hundreds of times those at the end,
            and Adam, which remembers a thousand steps, would all but stand still after them.
    """

    suits_every_prior = False
    takes_weights = False

    clip: float | None = 1.0
    precision: float = 100.0
    smoothing: float = 0.09
    direction: Literal["forward", "reverse"] = "forward"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("precision", self.precision)
        require_share("smoothing", self.smoothing, "use a share between 0 and 1, such as 0.1", ends=False)
        require_one_of("direction", self.direction, ("forward", "reverse"))

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Point:
        likelihood = Dirichlet.in_place_of(model.likelihood, "DPN", link="exp", base=0.0)
        loss, default_lr = PriorNetworkLoss(self, likelihood), STEP_SHARE * default_step(steps)
        return Point(self, model.with_likelihood(likelihood), loss, default_lr, n=n, steps=steps)


@dataclass(frozen=True)
class PriorNetworkLoss:
    """The KL divergence between the predicted Dirichlet distribution of a row and its target."""

    settings: DPN
    likelihood: Dirichlet

    def __call__(self, output: Tensor, y: Tensor, noise: Noise, t: int) -> Tensor:
        a, b = self.likelihood.concentration(output), self.target(output, y)
        return (kl_dirichlet(b, a) if self.settings.direction == "forward" else kl_dirichlet(a, b)).mean()

    def target(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the target concentrations b, in the shape of the output."""
        precision, smoothing = self.settings.precision, self.settings.smoothing
        others = torch.full_like(output, precision * smoothing / max(1, output.shape[-1] - 1))
        return others.scatter(-1, y.unsqueeze(-1), precision * (1 - smoothing))
