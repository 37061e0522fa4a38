"""Stochastic variational Gibbs inference: gradient steps on q(w), Gibbs sweeps of the scales given a draw of w.

The paper's algorithm, corrected: the ELBO has a KL gradient, the prior's sigma0 is fixed, the conditionals are the
right ones and every scale is as fresh as the sweep requires. It works with every prior of the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.descent import Known
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import AnyPrior, BayesianModel


@dataclass(frozen=True, kw_only=True)
class SVGI(Variational):
    """Stochastic variational Gibbs inference; the arguments are those of `Variational`."""

    def build(self, model: BayesianModel, *, n: int, steps: int) -> VariationalGibbs:
        """Bind to a model, the number of training rows and of steps."""
        return VariationalGibbs(self, model, n=n, steps=steps)


class VariationalGibbs(MeanField):
    """SVGI bound to a model."""

    def refresh(self, prior: AnyPrior, scales: Any, precision: Tensor, known: Known, generator: torch.Generator) -> Any:
        return prior.gibbs_(known.weights, scales, precision, generator, compiled=self.settings.compile)
