"""Radial posteriors (Farquhar, Osborne and Gal, 2020): noise in a random direction, of a length that ignores dimension.

    w = mu + s * (e / |e|) r,    e ~ N(0, I_D), r ~ N(0, 1)        for the D weights of one parameter tensor

The noise (w - mu) / s has the length |r|: half-normal whatever D, where independent normal noise has a length of about
sqrt(D) and is never near zero. Its covariance is I / D, so E w_j^2 = mu_j^2 + s_j^2 / D, and the cross-entropy to a
normal prior is closed. So is the entropy: the direction is uniform on a sphere of area A_D = 2 pi^(D/2) / Gamma(D/2),
and E log|r| = -(gamma + log 2) / 2, hence

    H = sum_j log s_j + log A_D + log(pi / 2) / 2 + 1/2 - (D - 1) (gamma + log 2) / 2.

The authors estimate the cross-entropy by draws; here the whole KL is exact. Written in a weight's own deviation
d = s / sqrt(D) its gradient is that of mean-field inference: beta c mu, and beta (c d^2 - 1) in log d. So the engine is
that of `SVI` with rho = log d, other noise and another constant. d starts as in SVI, which gives a layer's outputs the
same noise variance whatever its size. Where the log likelihood is quadratic in w only the covariance of q counts, and
the optimum is the mean-field one. At equal d the KL is .635 nats a weight above the mean-field one (D large): the
bounds of the two do not compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from r2d2net.errors import require
from r2d2net.inference.mean_field_family import Family, NormalNoise
from r2d2net.inference.scale_updates import CoordinateUpdate
from r2d2net.inference.svi import LOG, RHO_SHARE
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import BayesianModel

EULER = 0.5772156649015329


@dataclass(frozen=True, kw_only=True)
class Radial(Variational):
    """Radial posteriors; the arguments are those of `Variational`.

    ``initial_scale`` is that of d = s / sqrt(D), the deviation of a single weight. Every prior will do: those with
    scales to learn give their expected precision by the coordinate-ascent factors, as in `SVI`.
    """

    estimator: Literal["weights"] = "weights"  # weights share r: a layer's activations are not normal

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.variance == "free", "variance", self.variance, "radial posteriors need 'free'")
        fix = "radial noise is drawn for weights: use 'weights'"
        require(self.estimator == "weights", "estimator", self.estimator, fix)

    @property
    def family(self) -> Family:
        return Family(LOG, RadialNoise())

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> MeanField:
        return MeanField(self, model, CoordinateUpdate(self.compile is True), RHO_SHARE, n=n, steps=steps)


class RadialNoise:
    """Noise in a random direction in each parameter tensor: sqrt(D) r e / |e|, of variance 1 in every entry."""

    def draw(self, model: BayesianModel[Any], generator: torch.Generator | None, *draws: int) -> Tensor:
        noise, slots = NormalNoise().draw(model, generator, *draws), model.bayesian
        radius = torch.empty(*draws, len(slots), dtype=noise.dtype, device=noise.device).normal_(generator=generator)
        for k, slot in enumerate(slots):
            part = noise[..., slot.start : slot.stop]
            # a single float32 normal draw is zero once in 2^24 times
            norm = torch.linalg.vector_norm(part, dim=-1, keepdim=True).clamp(min=torch.finfo(noise.dtype).tiny)
            part.mul_(radius[..., k : k + 1].div(norm).mul_(math.sqrt(slot.stop - slot.start)))
        return noise

    def blocks(self, model: BayesianModel[Any], generator: torch.Generator | None, draws: int) -> Iterator[Tensor]:
        yield self.draw(model, generator, draws)

    def entropy(self, model: BayesianModel[Any], deviation: Tensor) -> Tensor:
        return sum(_entropy(slot.stop - slot.start) for slot in model.bayesian) + torch.log(deviation).sum()


def _entropy(size: int) -> float:
    """Return the entropy of radial noise of ``size`` entries, each of variance 1.

    >>> math.isclose(_entropy(1), 0.5 * math.log(2 * math.pi * math.e))  # a single weight's noise is normal
    True
    """
    half = size / 2
    log_area = math.log(2) + half * math.log(math.pi) - math.lgamma(half)
    length = 0.5 * math.log(math.pi / 2) + 0.5 - (size - 1) * 0.5 * (EULER + math.log(2))
    return half * math.log(size) + log_area + length
