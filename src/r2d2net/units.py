"""Standardisation of tables: a network has inputs and targets of mean 0 and variance 1, its user the original units."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value
from r2d2net.likelihoods.base import Unit


class Units(NamedTuple):
    """Centres and scales by which inputs and targets are standardised.

    Attributes:
        x_center: Mean of each input column; empty where inputs are not standardised.
        x_scale: Standard deviation of each input column; empty where inputs are not standardised.
        y: Centre and scale of the targets.
    """

    x_center: Tensor
    x_scale: Tensor
    y: Unit

    @classmethod
    def of(cls, tensors: dict[str, Tensor], device: torch.device) -> Units:
        """Rebuild units from saved tensors.

        Args:
            tensors: Tensors by name, as `checkpoint.flatten` makes them.
            device: Device of the model.

        Returns:
            The units.
        """
        t = {name: tensor.to(device) for name, tensor in tensors.items()}
        return cls(t["x_center"], t["x_scale"], Unit(t["y/center"], t["y/scale"]))

    def are_exact_for(self, dtype: torch.dtype) -> bool:
        """Return whether inputs are standardised in float64 before they become this dtype."""
        return self.x_scale.dtype == torch.float64 and dtype != torch.float64

    def inputs(self, x: Any) -> Any:
        """Standardise inputs.

        Args:
            x: A table (rows, columns), or inputs that are not standardised, such as images or a tuple.

        Returns:
            The inputs of the network.

        Raises:
            DataError: If the table has another number of columns than the training data.
        """
        if isinstance(x, tuple) or self.x_scale.numel() == 0:
            return x
        if x.dim() != 2 or x.shape[1] != len(self.x_center):
            fix = f"the model was fitted to (rows, {len(self.x_center)})"
            raise DataError(("has shape ", Value(tuple(x.shape))), argument="x", fix=fix)
        standardized = (x - self.x_center) / self.x_scale  # units of float64 may be those of a float32 network
        return standardized.to(x.dtype) if x.is_floating_point() else standardized

    def targets(self, y: Tensor) -> Tensor:
        """Standardise targets.

        Args:
            y: Targets; class numbers are returned unchanged.

        Returns:
            The targets in the network's units.
        """
        return (y - self.y.center) / self.y.scale if y.is_floating_point() else y


def no_units(like: Tensor) -> Units:
    """Build units that standardise nothing.

    Args:
        like: Tensor whose dtype and device they get.

    Returns:
        Units with centre 0 and scale 1 for targets and none for inputs.
    """
    empty = like.new_zeros(0)
    return Units(empty, empty, Unit(like.new_zeros(()), like.new_ones(())))


def measure_units(x: Any, y: Tensor, *, inputs: bool, targets: bool) -> Units:
    """Measure means and standard deviations of the training data; constant columns have scale 1.

    Args:
        x: Inputs; only a table of floating numbers is standardised.
        y: Targets.
        inputs: Whether to standardise the inputs.
        targets: Whether to standardise the targets.

    Returns:
        The units.
    """
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
    """Standard deviation of each column, or 1 where a column varies by no more than its rounding error.

    It is computed in float64, where squares of float32 numbers neither overflow nor underflow.
    """
    exact = values.double()
    deviation = exact.std(0, correction=0)
    varies = deviation > 4 * torch.finfo(values.dtype).eps * exact.abs().amax(0)
    return torch.where(varies, deviation, 1.0).to(values.dtype)
