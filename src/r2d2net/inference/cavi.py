"""Coordinate ascent: gradient steps on q(w), deterministic updates of q(scales) from E_q[w^2]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2d2net.errors import Argument, require
from r2d2net.inference.scale_updates import CoordinateUpdate
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import BayesianModel


@dataclass(frozen=True, kw_only=True)
class CAVI(Variational):
    """Coordinate-ascent variational inference; the arguments are those of `Variational`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fix = ("coordinate ascent needs ", Argument("variance", "free"))
        require(self.variance == "free", "variance", self.variance, fix)

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> MeanField:
        return MeanField(self, model, CoordinateUpdate(self.compile is True), n=n, steps=steps)
