"""A posterior that predicts in float64 with the draws of one trained in float32.

scikit-learn demands that a row's prediction be the same to seven digits whatever rows stand beside it, which float32
products of matrices are not. Training needs no such digits, and is faster without them.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference import Draws
from r2d2net.likelihoods.base import Unit
from r2d2net.model import BayesianModel, Tensors
from r2d2net.posterior import Posterior
from r2d2net.units import Units


class DoublePosterior(Posterior):
    """The same draws of the same network, whose outputs are worked out in float64."""

    def __init__(self, posterior: Posterior) -> None:
        center, scale, y = posterior.units
        units = Units(center.double(), scale.double(), Unit(y.center.double(), y.scale.double()))
        super().__init__(posterior.running, posterior.state, units, flat_target=posterior.flat_target)
        self._model = copy.copy(posterior.model)
        self._model.net = copy.deepcopy(posterior.model.net).double()

    @property
    def model(self) -> BayesianModel:
        return self._model

    def _forward(self, drawn: Draws, inputs: Any, rows: int, vectorize: bool | None) -> Tensor:
        double = Draws(drawn.weights.double(), drawn.fixed.double(), _doubled(drawn.buffers), _doubled(drawn.noise))
        return super()._forward(double, inputs, rows, vectorize)


def _doubled(tensors: Tensors) -> Tensors:
    return {name: t.to(torch.float64) if t.is_floating_point() else t for name, t in tensors.items()}
