"""Maximum a posteriori: ordinary training, in which a Gaussian prior of scale s is a weight decay of 1 / (s^2 N).

It is the paper's frequentist network ("Freq"). One draw, the mode, is all there is: predictions have no epistemic part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2d2net.inference.descent import Training
from r2d2net.inference.point import Point
from r2d2net.model import BayesianModel


@dataclass(frozen=True, kw_only=True)
class MAP(Training):
    """Maximum a posteriori; the arguments are those of `Training`.

    Priors whose density is infinite at zero (R2D2, the horseshoes, Dirichlet-Laplace) have no mode but zero weights
    and are refused.
    """

    suits_every_prior = False

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Point:
        return Point(self, model, n=n, steps=steps)
