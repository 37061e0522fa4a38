"""Stochastic variational Gibbs inference: gradient steps on q(w), Gibbs sweeps of the scales given a draw of w.

The paper's algorithm, corrected: the ELBO has a KL gradient, the prior's sigma0 is fixed, the conditionals are the
right ones and every scale is as fresh as the sweep requires. It works with every prior of the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2d2net.inference.scale_updates import GibbsUpdate
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import BayesianModel


@dataclass(frozen=True, kw_only=True)
class SVGI(Variational):
    """Stochastic variational Gibbs inference; the arguments are those of `Variational`."""

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> MeanField:
        return MeanField(self, model, GibbsUpdate(self.compile is True), n=n, steps=steps)
