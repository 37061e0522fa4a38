"""The posterior of a mixture of models, found by stacking: stored draws of one network y = A x + f(x).

    p(y | x) = sum_k w_k p_k(y | x),      draws of model k in proportion to w_k

`run.stacking` fits the models and finds the weights. Each of them, a linear model, a network or both, is a special case
of the network with a linear path, so that one collection of draws of its weights is the whole mixture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2d2net.errors import ParameterError, Shown
from r2d2net.inference.base import Method, Trainer
from r2d2net.inference.collection import Collection
from r2d2net.model import BayesianModel, Tensors

TRAITS = {"has_mean": False, "draws_noise": True, "are_chains": False}


@dataclass(frozen=True, kw_only=True)
class Stacked(Method):
    """How a mixture of models was made; `r2d2net.run.stacking.fit_stacked` makes them, and a file names this.

    Args:
        folds: Folds of the cross-validation in which the weights were found; 1 for one set of held-out rows.
    """

    folds: int = 1

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Trainer[Any]:
        raise ParameterError(
            "combines several fits",
            argument="algorithm",
            value=Shown("Stacked"),
            fix="use fit_stacked, or an estimator",
        )

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> Collection:
        return Collection.restored(model, saved, **TRAITS)
