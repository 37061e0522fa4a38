"""Likelihoods of networks whose output is a Dirichlet distribution of the class probabilities: EDL's and DPN's.

    y | p ~ p,   p ~ Dirichlet(a),   a_k = base + g(z_k),   P(y = k) = a_k / sum_j a_j

with z the network's K outputs and g a positive link. It is none of the user's likelihoods: the algorithms put it in
place of a categorical one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from r2d2net.errors import ParameterError, Shown
from r2d2net.likelihoods.base import Likelihood, Noise, Unit
from r2d2net.likelihoods.discrete import Categorical
from r2d2net.prediction import DirichletClassification

Link = Literal["softplus", "relu", "exp"]
EXPONENT = 10.0  # up to which `bounded_exp` is the exponential: concentrations from 5e-5 to 2e4


@dataclass(frozen=True)
class Dirichlet(Categorical):
    """y is one of the classes 0, 1, ..., K-1; the network gives K numbers, which a link makes concentrations."""

    is_softmax = False

    link: Link
    base: float

    def concentration(self, output: Tensor) -> Tensor:
        """Convert an output to concentrations a, in the shape of the output."""
        return self.base + LINKS[self.link](output)

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        return super().log_prob(self.concentration(output).log(), y, noise)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> DirichletClassification:
        return DirichletClassification(self.concentration(outputs))

    @classmethod
    def in_place_of(cls, likelihood: Likelihood[Any], method: str, *, link: Link, base: float) -> Dirichlet:
        """Build the Dirichlet likelihood of a method for a categorical model; refuse other models."""
        if not (likelihood.has_classes and likelihood.is_softmax):
            name = type(likelihood).__name__
            problem = f"does not suit the likelihood {name}: it replaces a softmax over classes"
            raise ParameterError(problem, argument="algorithm", value=Shown(method), fix="use Categorical")
        return cls(link, base)


def bounded_exp(z: Tensor) -> Tensor:
    """exp(z) for abs(z) <= 10; beyond, its tangent above and one over that of exp(-z) below.

    No output of a network makes it 0 or infinite, and its slope is nowhere 0, as it would be were z clamped: a network
    that starts too far out finds its way back.
    """
    above, below = functional.relu(z - EXPONENT), functional.relu(-z - EXPONENT)
    return torch.exp(z.clamp(-EXPONENT, EXPONENT)) * (1 + above) / (1 + below)


LINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus": functional.softplus,
    "relu": functional.relu,
    "exp": bounded_exp,
}


def kl_dirichlet(p: Tensor, q: Tensor) -> Tensor:
    """KL(Dirichlet(p) || Dirichlet(q)) in nats; the concentrations' last dimension is that of the classes.

        lgamma(P) - lgamma(Q) + sum_k [lgamma(q_k) - lgamma(p_k) + (p_k - q_k) (psi(p_k) - psi(P))]

    with P = sum_k p_k, Q = sum_k q_k.
    """
    p, q = torch.broadcast_tensors(p, q)
    total_p, total_q = p.sum(-1), q.sum(-1)
    slopes = torch.digamma(p) - torch.digamma(total_p).unsqueeze(-1)
    terms = torch.lgamma(q) - torch.lgamma(p) + (p - q) * slopes
    return torch.lgamma(total_p) - torch.lgamma(total_q) + terms.sum(-1)
