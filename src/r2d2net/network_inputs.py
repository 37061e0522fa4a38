"""Inputs on their way into a network: tensors from whatever the user has, standardised tables.

Conversion of the inputs of a prediction: tensors, arrays, tables, a Dataset or a DataLoader.

    a tuple                  the inputs of a network with several inputs
    a Dataset, a DataLoader  read once, in its order; of items (inputs, ..., targets) the targets are left out

An item that is one tensor, or a tuple of one tensor, is inputs without targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.sampler import RandomSampler

from r2d2net.errors import DataError, ParameterError, Shown, Value
from r2d2net.likelihoods.base import Unit
from r2d2net.model import BayesianModel
from r2d2net.network_calls import in_order, split_labels

ROWS = 1000  # rows of a Dataset that are read at a time
FIX = "give a tensor, an array or table of numbers, a Dataset or a DataLoader"


def as_tensors(x: Any, inputs: Sequence[str] | None = None) -> Any:
    """Convert inputs to a tensor, or a tuple of tensors, of unchanged dtype and device.

    Args:
        x: A tensor, array or table, a tuple or dict of these, a Dataset, or a DataLoader that does not shuffle.
        inputs: Names of inputs by name, in their order; None for that of the dict.

    Returns:
        The inputs of all rows.

    Raises:
        DataError: If ``x`` holds no numbers or no rows, or its batches do not fit together.
        ParameterError: If ``x`` is a DataLoader that shuffles.
    """
    if isinstance(x, DataLoader):
        return _read(x, inputs)
    if isinstance(x, Dataset):
        return _read(DataLoader(x, batch_size=ROWS), inputs)
    if isinstance(x, Mapping):
        x = in_order(x, tuple(split_labels(x)[0]) if inputs is None else inputs)
    return tuple(_tensor(part) for part in x) if isinstance(x, tuple) else _tensor(x)


def for_model(x: Any, model: BayesianModel[Any]) -> Any:
    """Convert inputs to tensors on the model's device, and floating ones to its dtype.

    Args:
        x: Inputs as `as_tensors` takes them.
        model: The model.

    Returns:
        The inputs of all rows.

    Raises:
        DataError: If a number is not finite, or as in `as_tensors`.
        ParameterError: If ``x`` is a DataLoader that shuffles.
    """
    if isinstance(x, Mapping) and model.inputs is None:
        raise DataError("is a dict, and the network was fitted to inputs by position", argument="x", fix="give them so")
    tensors = as_tensors(x, model.inputs)
    if not isinstance(tensors, tuple):
        return _placed(tensors, model)
    if model.inputs is not None and len(tensors) != len(model.inputs):
        fix = f"give {', '.join(model.inputs)}"
        raise DataError(
            (f"has {len(tensors)} inputs, the network takes ", Value(len(model.inputs))), argument="x", fix=fix
        )
    return tuple(_placed(part, model, mask=True) for part in tensors)


def _tensor(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    try:
        # numpy also reads pandas tables, which torch does not; order="C" because sums over columns that are each
        # contiguous would round differently
        return torch.as_tensor(np.array(x, order="C"))
    except (TypeError, ValueError) as error:
        raise DataError(("of type ", Value(type(x)), " is no array of numbers"), argument="x", fix=FIX) from error


def is_mask(tensor: Tensor) -> bool:
    """Whether a tensor is a mask that is added to scores: of zeros and minus infinity."""
    return bool(((tensor == 0) | (tensor == -torch.inf)).all())


def _placed(tensor: Tensor, model: BayesianModel[Any], *, mask: bool = False) -> Tensor:
    tensor = tensor.to(model.device)
    if not tensor.is_floating_point():
        return tensor
    tensor = tensor.to(model.dtype)
    if not bool(torch.isfinite(tensor).all()) and not (mask and is_mask(tensor)):
        raise DataError("holds values that are not finite", argument="x", fix="remove or fill them")
    return tensor


def _read(loader: DataLoader[Any], inputs: Sequence[str] | None) -> Any:
    """Concatenate all batches of a loader and restore the state of torch's global generator, from which it draws."""
    if _shuffles(loader):
        problem = "is a DataLoader that shuffles: predictions need its rows in order"
        raise ParameterError(problem, argument="x", fix="give it shuffle=False")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        batches = [_inputs_of(batch, inputs) for batch in loader]
    if not batches:
        raise DataError("has 0 rows", argument="x", fix="give at least one")
    try:
        columns = [torch.cat(parts) for parts in zip(*batches, strict=True)]
    except (RuntimeError, ValueError) as error:
        shapes = " and ".join(sorted({str([tuple(part.shape) for part in batch]) for batch in batches})[:2])
        fix = "they must agree but for their rows"
        raise DataError(("gives batches of shapes ", Value(Shown(shapes))), argument="x", fix=fix) from error
    return columns[0] if len(columns) == 1 else tuple(columns)


def _inputs_of(batch: Any, names: Sequence[str] | None) -> tuple[Tensor, ...]:
    parts = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    inputs = parts[:-1] if len(parts) > 1 else parts
    if len(inputs) == 1 and isinstance(inputs[0], Mapping) and names is not None:
        inputs = in_order(inputs[0], names)
    for part in inputs:
        if not isinstance(part, Tensor):
            fix = "they must be tensors, or tuples of them"
            raise DataError(("gives items of type ", Value(type(part))), argument="x", fix=fix)
    return inputs


def _shuffles(loader: DataLoader[Any]) -> bool:
    """Whether a loader's order is random; the sampler of rows may stand inside a sampler of batches."""
    samplers = [loader.sampler, loader.batch_sampler]
    samplers += [sampler.sampler for sampler in samplers if isinstance(sampler, BatchSampler)]
    return any(isinstance(s, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)) for s in samplers)


class Units(NamedTuple):
    """Centres and scales by which inputs and targets are standardised.

    Attributes:
        x_center: Mean of each input column; empty where inputs are not standardised; (1, features) where it is that of
            the features of a graph, whose nodes are the rows.
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
        return cls(t["x_center"], t["x_scale"], Unit(t["y/center"], t["y/scale"], t.get("y/most")))

    @property
    def are_of_context(self) -> bool:
        """Whether the inputs' units are those of the features of a graph, and rows are numbers."""
        return self.x_center.dim() == 2

    def are_exact_for(self, dtype: torch.dtype) -> bool:
        """Return whether inputs are standardised in float64 before they become this dtype."""
        return self.x_scale.dtype == torch.float64 and dtype != torch.float64 and not self.are_of_context

    def inputs(self, x: Any) -> Any:
        """Standardise inputs.

        Args:
            x: A table (rows, columns), or inputs that are not standardised, such as images or a tuple.

        Returns:
            The inputs of the network.

        Raises:
            DataError: If the table has another number of columns than the training data.
        """
        if isinstance(x, tuple) or self.x_scale.numel() == 0 or self.are_of_context:
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


def measure_units(x: Any, y: Tensor, *, inputs: bool, targets: bool, weights: Tensor | None = None) -> Units:
    """Measure means and standard deviations of the training data; constant columns have scale 1.

    Args:
        x: Inputs; only a table of floating numbers is standardised.
        y: Targets, NaN where there is none.
        inputs: Whether to standardise the inputs.
        targets: Whether to standardise the targets.
        weights: Weights of the rows; None for none.

    Returns:
        The units.
    """
    reference = y if y.is_floating_point() else torch.zeros((), dtype=torch.get_default_dtype(), device=y.device)
    units = no_units(reference)
    if inputs and isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point():
        units = units._replace(x_center=_center(x, weights), x_scale=_scale(x, weights))
    if targets and bool(y.isnan().any()):
        units = units._replace(y=_of_known(y))
    elif targets:
        units = units._replace(y=Unit(_center(y, weights), _scale(y, weights)))
    return units


def _of_known(y: Tensor) -> Unit:
    """Return the units of targets of which some are NaN, (rows, outputs): of each output by what it has."""
    columns = [column[~column.isnan()] for column in y.unbind(1)]
    return Unit(*(torch.stack([measure(own, None) for own in columns]) for measure in (_center, _scale)))


def _center(values: Tensor, weights: Tensor | None) -> Tensor:
    return _mean(values.double(), weights).to(values.dtype)


def _mean(values: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return values.mean(0)
    shares = weights.double() / weights.double().sum()
    return (shares @ values.reshape(len(values), -1)).reshape(values.shape[1:])


def _scale(values: Tensor, weights: Tensor | None) -> Tensor:
    """Standard deviation of each column, or 1 where a column varies by no more than its rounding error.

    It is computed in float64, where squares of float32 numbers neither overflow nor underflow.
    """
    exact = values.double()
    if weights is None:
        deviation = exact.std(0, correction=0)
    else:
        deviation = _mean((exact - _mean(exact, weights)).square(), weights).sqrt()
    varies = deviation > 4 * torch.finfo(values.dtype).eps * exact.abs().amax(0)
    return torch.where(varies, deviation, 1.0).to(values.dtype)
