"""Evidential deep learning (Sensoy, Kaplan and Kandemir, 2018): a network that gives a Dirichlet law of the classes.

The network's outputs z become evidence e_k = g(z_k) >= 0 and concentrations a_k = 1 + e_k. With S = sum_k a_k and the
class y of a row as the indicator y_k, a step minimises per datum

    E[loss(y, p)] + lambda_t KL(Dirichlet(a~) || Dirichlet(1)) - (temperature / N) log p(w),   p ~ Dirichlet(a)
    a~_k = y_k + (1 - y_k) a_k,   lambda_t = penalty min(1, t / (rise steps))

    cross-entropy    E[-log p_y] = psi(S) - psi(a_y)
    squared error    E[sum_k (y_k - p_k)^2] = sum_k (y_k - a_k / S)^2 + a_k (S - a_k) / (S^2 (S + 1))

a~ is a without the evidence for the row's own class, so the KL takes back evidence for wrong classes only. It rises
slowly lest it silence outputs before they have learnt anything. The cross-entropy is what the R2D2-Net paper reports;
Sensoy et al. prefer the squared error.

What the strength S tells is what training rows taught: it is low where classes compete, and at images unlike theirs.
Nothing in the loss speaks of inputs that were not seen: far from all data S grows with the outputs. Nor are predictions
calibrated: the KL makes the risk an improper score, and one input with labels of shares .6, .3, .1 ends at a / S = .46,
.29, .25.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from r2d2net.inference.descent import Training, default_step, require_from_zero, require_one_of, require_share
from r2d2net.inference.point import Point
from r2d2net.likelihoods.base import Noise
from r2d2net.likelihoods.dirichlet import LINKS, Dirichlet, Link, kl_dirichlet
from r2d2net.model import BayesianModel

STEP_SHARE = 0.25  # of the other algorithms' step size: at that, the KL silences outputs, which softplus leaves silent


@dataclass(frozen=True, kw_only=True)
class EDL(Training):
    """Evidential deep learning, for a categorical likelihood; the other arguments are those of `Training`.

    Priors are those of `MAP`. One network is all there is, but its Dirichlet law has an epistemic part: `predict`
    returns a `DirichletClassification`. The history's nll is the loss, and the default lr a quarter of `Training`'s.

    Args:
        risk: "cross-entropy" or "squared-error".
        evidence: The link g: "softplus", "relu" (whose dead outputs learn nothing) or "exp" (up to 2e4, then linear).
        penalty: Largest weight of the KL; 0 leaves it out.
        rise: Share of the steps over which that weight rises from zero.
    """

    suits_every_prior = False
    takes_weights = False

    risk: Literal["cross-entropy", "squared-error"] = "cross-entropy"
    evidence: Link = "softplus"
    penalty: float = 1.0
    rise: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("risk", self.risk, tuple(RISKS))
        require_one_of("evidence", self.evidence, tuple(LINKS))
        require_from_zero("penalty", self.penalty)
        require_share("rise", self.rise, "use a share of the steps, from 0 to 1", ends=True)

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Point:
        likelihood = Dirichlet.in_place_of(model.likelihood, "EDL", link=self.evidence, base=1.0)
        loss, default_lr = EvidentialLoss(self, likelihood, steps), STEP_SHARE * default_step(steps)
        return Point(self, model.with_likelihood(likelihood), loss, default_lr, n=n, steps=steps)


@dataclass(frozen=True)
class EvidentialLoss:
    """The expected risk of a row plus the weighted KL divergence of its misleading evidence."""

    settings: EDL
    likelihood: Dirichlet
    steps: int

    def __call__(self, output: Tensor, y: Tensor, noise: Noise, t: int) -> Tensor:
        a = self.likelihood.concentration(output)
        risk = RISKS[self.settings.risk](a, y).mean()
        weight = self.penalty_weight(t)
        return risk + weight * misleading_evidence(a, y).mean() if weight > 0 else risk

    def penalty_weight(self, t: int) -> float:
        """Return lambda_t, the weight of the KL at step t."""
        return self.settings.penalty * min(1.0, t / max(1.0, self.settings.rise * self.steps))


def expected_cross_entropy(a: Tensor, y: Tensor) -> Tensor:
    """Return E[-log p_y] of each row, p ~ Dirichlet(a); ``a`` is (rows, classes), ``y`` the classes, (rows,)."""
    own = a.gather(-1, y.unsqueeze(-1)).squeeze(-1)
    return torch.digamma(a.sum(-1)) - torch.digamma(own)


def expected_squared_error(a: Tensor, y: Tensor) -> Tensor:
    """Return E[sum_k (y_k - p_k)^2] of each row: squared bias plus variance."""
    total = a.sum(-1, keepdim=True)
    p = a / total
    bias = functional.one_hot(y, a.shape[-1]) - p
    return (bias.square() + p * (1 - p) / (total + 1)).sum(-1)


def misleading_evidence(a: Tensor, y: Tensor) -> Tensor:
    """Return KL(Dirichlet(a~) || Dirichlet(1)) of each row."""
    others = a.scatter(-1, y.unsqueeze(-1), 1.0)
    return kl_dirichlet(others, torch.ones_like(others))


RISKS = {"cross-entropy": expected_cross_entropy, "squared-error": expected_squared_error}
