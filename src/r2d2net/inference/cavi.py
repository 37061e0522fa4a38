"""Coordinate ascent: gradient steps on q(w), deterministic updates of q(scales) from E_q[w^2]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import Argument, require
from r2d2net.inference.descent import Known
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import AnyPrior, BayesianModel


@dataclass(frozen=True, kw_only=True)
class CAVI(Variational):
    """Coordinate-ascent variational inference; the arguments are those of `Variational`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fix = ("coordinate ascent needs ", Argument("variance", "free"))
        require(self.variance == "free", "variance", self.variance, fix)

    def build(self, model: BayesianModel, *, n: int, steps: int) -> CoordinateAscent:
        """Bind to a model, the number of training rows and of steps."""
        return CoordinateAscent(self, model, n=n, steps=steps)


class CoordinateAscent(MeanField):
    """CAVI bound to a model."""

    sweep_draws = False

    def refresh(self, prior: AnyPrior, scales: Any, precision: Tensor, known: Known, generator: torch.Generator) -> Any:
        assert known.second_moment is not None
        return prior.cavi_(known.second_moment, scales, precision, compiled=self.settings.compile)
