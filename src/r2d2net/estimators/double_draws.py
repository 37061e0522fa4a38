"""Draws of a float32 network whose outputs are worked out in float64.

scikit-learn demands that a row's prediction be the same to seven digits whatever rows stand beside it, which float32
products of matrices are not. Training needs no such digits, and is faster without them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch

from r2d2net.inference.base import Draws, DrawSource
from r2d2net.likelihoods.base import Unit
from r2d2net.model import Tensors
from r2d2net.network_inputs import Units
from r2d2net.parameter_roles import copied
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT


def in_double(posterior: Posterior[PredictionT]) -> Posterior[PredictionT]:
    """Return a posterior with the same draws of the same network, whose outputs are worked out in float64.

    Args:
        posterior: A fitted model.
    """
    center, scale, y = posterior.units
    most = None if y.most is None else y.most.double()
    units = Units(center.double(), scale.double(), Unit(y.center.double(), y.scale.double(), most))
    return Posterior(DoubleDraws(posterior.source), units, flat_target=posterior.flat_target)


class DoubleDraws(DrawSource[Any]):
    """The draws of another source with every floating-point tensor in float64."""

    def __init__(self, source: DrawSource[Any]) -> None:
        model = copy.copy(source.model)
        model.net = copied(source.model.net).double()
        super().__init__(model, source.state)
        self.inner, self.draws_noise = source, source.draws_noise

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        return map(_doubled, self.inner.draws(n, generator, at_once))

    def center(self) -> Draws:
        return _doubled(self.inner.center())

    def with_state(self, state: Any) -> DoubleDraws:
        return DoubleDraws(self.inner.with_state(state))

    @property
    def available(self) -> int | None:
        return self.inner.available


def _doubled(networks: Draws) -> Draws:
    def double(tensors: Tensors) -> Tensors:
        return {name: t.to(torch.float64) if t.is_floating_point() else t for name, t in tensors.items()}

    return Draws(networks.weights.double(), networks.fixed.double(), double(networks.buffers), double(networks.noise))
