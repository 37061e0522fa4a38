"""Standardising tables: the network sees inputs and targets of mean 0 and variance 1, the user his own units."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value
from r2d2net.likelihoods.base import Unit


class Units(NamedTuple):
    """How inputs enter the network and how its outputs leave it."""

    x_center: Tensor
    x_scale: Tensor
    y: Unit

    @classmethod
    def of(cls, tensors: dict[str, Tensor], device: torch.device) -> Units:
        """From saved tensors."""
        t = {name: tensor.to(device) for name, tensor in tensors.items()}
        return cls(t["x_center"], t["x_scale"], Unit(t["y/center"], t["y/scale"]))

    def inputs(self, x: Any) -> Any:
        """Inputs as the network sees them."""
        if isinstance(x, tuple) or self.x_scale.numel() == 0:
            return x
        if x.dim() != 2 or x.shape[1] != len(self.x_center):
            fix = f"the model was fitted to (rows, {len(self.x_center)})"
            raise DataError(("has shape ", Value(tuple(x.shape))), argument="x", fix=fix)
        seen = (x - self.x_center) / self.x_scale  # units of float64 may be those of a float32 network
        return seen.to(x.dtype) if x.is_floating_point() else seen

    def targets(self, y: Tensor) -> Tensor:
        """Targets as the network sees them; class numbers are not to be scaled."""
        return (y - self.y.center) / self.y.scale if y.is_floating_point() else y


def no_units(like: Tensor) -> Units:
    """Nothing is standardised."""
    empty = like.new_zeros(0)
    return Units(empty, empty, Unit(like.new_zeros(()), like.new_ones(())))


def measure_units(x: Any, y: Tensor, *, inputs: bool, targets: bool) -> Units:
    """Means and standard deviations of the training data; constant columns keep their scale."""
    reference = y if y.is_floating_point() else torch.zeros((), dtype=torch.get_default_dtype(), device=y.device)
    units = no_units(reference)
    if inputs and isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point():
        units = units._replace(x_center=_center(x), x_scale=_scale(x))
    if targets:
        units = units._replace(y=Unit(_center(y), _scale(y)))
    return units


def _center(values: Tensor) -> Tensor:
    return values.double().mean(0).to(values.dtype)


def _scale(values: Tensor) -> Tensor:
    """In float64, where squares of float32 numbers neither overflow nor vanish; rounding errors are no deviation."""
    exact = values.double()
    deviation = exact.std(0, correction=0)
    varies = deviation > 4 * torch.finfo(values.dtype).eps * exact.abs().amax(0)
    return torch.where(varies, deviation, 1.0).to(values.dtype)
