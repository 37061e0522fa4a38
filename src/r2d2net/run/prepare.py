"""From the user's data to batches the network can train on: checked, split, standardised, tried once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from r2d2net.errors import Argument, DataError, ParameterError, R2D2NetError, Value, require
from r2d2net.inference.base import Batch
from r2d2net.likelihoods.masked import Masked, has_missing, masked_for, require_some
from r2d2net.likelihoods.weighted import Weighted
from r2d2net.model import BayesianModel, refusing_inputs
from r2d2net.network_inputs import Units, measure_units, no_units
from r2d2net.ranks import ALONE, Ranks
from r2d2net.run.batches import (
    PAIR,
    Batches,
    DatasetBatches,
    LoaderBatches,
    Prepare,
    TensorBatches,
    as_arrays,
    default_batch_size,
    mix,
    pair,
    rows_of,
    take,
)
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.row_weights import in_proportion, row_weights
from r2d2net.run.split_batches import has_shares
from r2d2net.run.stream_units import is_table, stream_units


@dataclass(frozen=True)
class Prepared:
    """Training data, ready for the network."""

    batches: Batches
    y: Tensor  # training targets as the network sees them
    units: Units
    validation: tuple[Any, Tensor] | None  # in the user's units
    flat_target: bool
    digest: str  # of all rows; of a Dataset or DataLoader, of the validation rows, and how its units were measured
    is_whole: bool = True  # whether the batches, each row once, are all that the posterior is of
    weights: Tensor | None = None  # of the rows, whose targets then have them as a column (`likelihoods.weighted`)
    plain_y: Tensor | None = None  # the targets without that column
    masked: bool = False  # whether some targets are NaN
    model: BayesianModel[Any] | None = None  # with the names of its inputs, where the data have them

    @property
    def own_y(self) -> Tensor:
        """The training targets as the network sees them, without weights."""
        return self.y if self.weights is None or self.plain_y is None else self.plain_y

    def plain(self) -> Prepared:
        """Return rows that stand for those with weights: each so often as its weight says, as many in all."""
        if self.weights is None:
            return self
        assert isinstance(self.batches, TensorBatches)
        rows = in_proportion(self.weights, len(self.weights))
        y = self.own_y[rows]
        batches = replace(self.batches, x=take(self.batches.x, rows), y=y)
        return replace(self, batches=batches, y=y, weights=None, plain_y=None, is_whole=False)


def prepare(
    model: BayesianModel[Any],
    data: Any,
    batch_size: int | None,
    seed: int,
    validation: float | tuple[Any, Any] | None,
    n: int | None,
    standardize: bool,
    weights: Tensor | None = None,
    ranks: Ranks = ALONE,
) -> Prepared:
    model.warn_of_moving_statistics()
    if isinstance(data, (DataLoader, Dataset)):
        if weights is not None:
            stream = ("is for tensors and arrays, and ", Argument("data"), " is a Dataset or DataLoader")
            raise ParameterError(stream, argument="weights", fix="leave it out")
        return _prepare_stream(model, data, batch_size, seed, validation, n, standardize, ranks)
    model = named_inputs(model, pair(data)[0])
    missing = model.likelihood.takes_missing
    x, y = as_arrays(data, model.device, model.dtype, inputs=model.inputs, missing=missing)
    if n is not None and n != len(y):
        raise ParameterError(
            f", the data have {len(y)} rows", argument="n", value=n, fix=("leave ", Argument("n"), " out")
        )
    weights = None if weights is None else row_weights(weights, len(y), y.device)
    held: tuple[Any, Tensor] | None = None
    if isinstance(validation, (tuple, list, Mapping)):
        given = as_arrays(validation, model.device, model.dtype, "validation", model.inputs, missing=missing)
        held = _own_copy(given)
    elif validation is not None:
        share = isinstance(validation, (int, float)) and 0 < validation < 1
        require(share, "validation", validation, ("use a share between 0 and 1, or ", *PAIR))
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(mix(seed, -2))).to(y.device)
        count = max(1, round(validation * len(y)))
        if count >= len(y):
            problem = f"leaves no training rows of {len(y)}"
            raise DataError(problem, argument="validation", value=validation, fix="use a smaller share")
        held = take(x, order[:count]), y[order[:count]]
        x, y = take(x, order[count:]), y[order[count:]]
        weights = None if weights is None else weights[order[count:]]
    flat_target = y.dim() == 1
    named, masked = model, has_missing(y)
    if masked:
        model = model.with_likelihood(Masked(model.likelihood))
    target = _target(model, y)
    if masked:
        require_some((~target.isnan()).sum(0), len(target))
        if weights is not None:
            cells = "is for targets that are all there, and y holds NaN"
            raise ParameterError(cells, argument="weights", fix="leave one of them out")
    scaled = model.likelihood.network_scale(target)
    units = (
        measure_units(x, scaled, inputs=True, targets=model.likelihood.standardizes, weights=weights)
        if standardize
        else no_units(torch.zeros((), dtype=model.dtype, device=model.device))
    )
    if model.context is not None and model.context.center is not None and model.context.scale is not None:
        units = units._replace(x_center=model.context.center, x_scale=model.context.scale)
    if model.likelihood.bounds_mean:
        units = units._replace(y=units.y._replace(most=scaled.nan_to_num(nan=-torch.inf).amax(0)))
    seen = units.targets(scaled)
    of_graph = model.context is not None and model.context.whole_pass
    default = (
        len(y) if of_graph else rows_of_step(model, len(y))
    )  # a pass over a graph costs the same for any of its nodes
    rows = min(len(y), default if batch_size is None else batch_size)
    batches = TensorBatches(units.inputs(x), seen, rows, seed)
    digest = data_digest(x, y, held, weights)
    _try_forward(model, next(batches.epoch(0)), seen, target, warns=True)
    if rows == 1 and needs_rows(model, take(batches.x, slice(0, 1))):
        raise _too_few(batch_size, len(y))
    if held is not None:
        own = _target(model, held[1])
        target = units.targets(model.likelihood.network_scale(own))
        _try_forward(model, (units.inputs(held[0]), target), target, own)
    if weights is None:
        whole = not masked
        return Prepared(batches, seen, units, held, flat_target, digest, whole, model=named, masked=masked)
    weighted = Weighted.of(model.likelihood, weights)
    assert isinstance(weighted, Weighted)
    joined = weighted.joined(seen, weights)
    batches = replace(batches, y=joined)
    plain = Prepared(batches, joined, units, held, flat_target, digest, model=model)
    return replace(plain, weights=weights, plain_y=seen)


def _prepare_stream(
    model: BayesianModel[Any],
    data: Any,
    batch_size: int | None,
    seed: int,
    validation: float | tuple[Any, Any] | None,
    n: int | None,
    standardize: bool,
    ranks: Ranks,
) -> Prepared:
    """Prepare a Dataset or DataLoader, whose units are those of one pass over it; augmented rows count as they come."""
    if isinstance(validation, (int, float)):
        problem = ": a Dataset or DataLoader cannot be split"
        raise ParameterError(problem, argument="validation", value=validation, fix=("give ", *PAIR))
    count = rows_of(data, n)
    if isinstance(data, DataLoader) and batch_size is not None:
        problem = ": a DataLoader brings its own"
        raise ParameterError(problem, argument="batch_size", value=batch_size, fix="leave it out")

    def batches(prepare: Prepare, joins: bool = False) -> LoaderBatches | DatasetBatches:
        if isinstance(data, DataLoader):
            return LoaderBatches(data, count, seed, prepare, joins)
        return DatasetBatches(data, min(count, batch_size or rows_of_step(model, count)), seed, prepare)

    unnamed = next(batches(lambda batch: batch).epoch(0), None)
    if unnamed is None:
        raise DataError("gives no batch", argument="data", fix="give at least one row")
    model = named_inputs(model, unnamed[0])

    masked = model.likelihood.takes_missing  # until a pass over all rows has shown that no target is missing

    def raw(batch: Any, name: str = "data") -> Batch:
        return as_arrays(batch, model.device, model.dtype, name, model.inputs, missing=masked)

    first = raw(unnamed)
    scale = model.likelihood.network_scale
    own = _target(model, first[1])
    y = scale(own)
    width = _try_forward(model, (first[0], y), y, own, warns=True)
    joins = needs_rows(model, take(first[0], slice(0, 1)))
    if joins and len(y) == 1:
        raise _too_few(data.batch_size if isinstance(data, DataLoader) else batch_size, count)
    held: tuple[Any, Tensor] | None = None
    if validation is not None:
        held = _own_copy(raw(validation, "validation"))
        own = _target(model, held[1])
        _try_forward(model, (held[0], scale(own)), scale(own), own)

    def checked(batch: Any) -> Batch:
        x, target = raw(batch)
        target = _target(model, target)
        model.likelihood.require_width(width, target)
        return x, scale(target)

    like = torch.zeros((), dtype=model.dtype, device=model.device)
    units, digest = no_units(like), data_digest(held)
    targets = model.likelihood.standardizes
    if standardize and (targets or is_table(first[0])):
        sharing = ranks if isinstance(data, DataLoader) and has_shares(data) else ALONE
        found = stream_units(batches(checked).all_rows(), targets=targets, like=like, ranks=sharing)
        units, masked = found.units, found.missing
        if not model.likelihood.bounds_mean:
            units = units._replace(y=units.y._replace(most=None))
        if next(batches(raw).epoch(0), None) is None:
            fix = ("give ", Argument("standardize", False), ", or data that can be read again")
            raise DataError("was read once, for its mean and variance, and gives no more", argument="data", fix=fix)
        digest += f" in units of {found.rows} rows"
    else:
        masked = False
        raw(unnamed)

    def standardized(batch: Any) -> Batch:
        x, target = checked(batch)
        return units.inputs(x), units.targets(target)

    y = units.targets(y)
    flat = first[1].dim() == 1
    return Prepared(batches(standardized, joins), y, units, held, flat, digest, model=model, masked=masked)


def named_inputs(model: BayesianModel[Any], x: Any) -> BayesianModel[Any]:
    """Return the model with the names of its inputs, where data have them and the user did not say."""
    return model.with_inputs(tuple(x)) if isinstance(x, Mapping) and model.inputs is None else model


def rows_of_step(model: BayesianModel[Any], n: int) -> int:
    """Return the rows of a step where the user names none; networks with attention take small steps, and more of them.

    Args:
        model: The model.
        n: Number of training rows.

    Returns:
        `default_batch_size`, but at least 32 rows in place of 128 for networks with attention.
    """
    rows = default_batch_size(n)
    return max(32, 2 ** round(math.log2(n / 32))) if rows == 128 < n and model.has_attention else rows


def needs_rows(model: BayesianModel[Any], x: Any) -> bool:
    """Return whether training fails on ``x``, a single row, in which BatchNorm finds no variance."""
    if not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.net.modules()):
        return False
    weights, fixed = model.own_weights()
    with torch.no_grad(), lent_generator(0, model.device):
        try:
            model.forward(weights, fixed, model.buffers(), x, training=True)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            return True
    return False


def _too_few(batch_size: int | None, rows: int) -> R2D2NetError:
    norm = "BatchNorm layers are trained by two rows or more in a batch"
    if rows > 1 and batch_size == 1:
        fix = "use a larger one, or other layers, such as LayerNorm"
        return ParameterError(f": {norm}", argument="batch_size", value=1, fix=fix)
    fix = "give more rows, or use other layers, such as LayerNorm"
    return DataError(f"the first batch has 1 row: {norm}", fix=fix)


def _own_copy(held: Batch) -> Batch:
    """Copy validation rows: the rounding of matrix products depends on the alignment of memory."""
    x, y = held
    return (tuple(part.clone() for part in x) if isinstance(x, tuple) else x.clone()), y.clone()


def _target(model: BayesianModel[Any], y: Tensor) -> Tensor:
    """Convert targets to the likelihood's form, floating ones to the model's dtype."""
    target = masked_for(model.likelihood, y).target(y)
    if model.likelihood.standardizes and len(target):
        low, high = math.sqrt(torch.finfo(model.dtype).tiny) * 1e3, math.sqrt(torch.finfo(model.dtype).max) / 1e3
        largest = float(target.abs().nan_to_num().max())
        if not (largest == 0 or low < largest < high):  # its square, a variance, must be a number too
            fix = f"rescale it to between {low:.0e} and {high:.0e}"
            raise DataError(("has values of size ", Value(largest, ".3g")), argument="y", fix=fix)
    return target.to(model.dtype) if target.is_floating_point() else target


def _try_forward(model: BayesianModel[Any], batch: Batch, y: Tensor, own: Tensor, *, warns: bool = False) -> int:
    """Make a forward pass before training, so that wrong shapes are refused at once; return the width of the output.

    ``y`` are the targets as the network sees them, ``own`` in the user's units. With ``warns`` the likelihood says what
    the output leaves open.
    """
    weights, fixed = model.own_weights()
    x, target = batch
    with torch.no_grad(), refusing_inputs(x):
        output = model.forward(weights, fixed, model.buffers(), take(x, slice(0, 2)))
    width = output[:1].numel()
    model.likelihood.require_width(width, own)
    model.likelihood.log_prob(output, target[:2], model.likelihood.init(y))
    if warns:
        model.likelihood.warn_of_output(output, target[:2])
    return width


def data_digest(*parts: Any) -> str:
    """Return a digest of tensors and tuples of tensors; None is left out."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            digest.update(f"{part.dtype} {tuple(part.shape)}".encode())
            flat = part.detach().cpu().contiguous().reshape(-1)
            if flat.stride() != (1,):  # of a single number: contiguous whatever its stride
                flat = flat.clone(memory_format=torch.contiguous_format)
            digest.update(flat.view(torch.uint8).numpy().data)
        elif part is not None:
            digest.update(data_digest(*part).encode())
    return digest.hexdigest()
