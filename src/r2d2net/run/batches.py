"""Training data in whatever form the user has it, as batches whose order is a function of (seed, epoch) alone.

    tensors or numpy arrays (x, y)      kept whole on the model's device, indexed by a permutation
    a torch Dataset                     items fetched by that permutation and collated
    a torch DataLoader                  iterated as it is, torch's global generator being seeded for it

A DataLoader's last batch may be of one row, by which BatchNorm layers cannot be trained: then it joins the one before.

x may be a tensor or, for networks of several inputs, a tuple of tensors.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, default_collate

from r2d2net import devices
from r2d2net.errors import Argument, DataError, ParameterError, Shown, Value, require_whole
from r2d2net.inference.base import Batch
from r2d2net.network_calls import in_order, split_labels
from r2d2net.network_inputs import is_mask
from r2d2net.run.global_generator import iterate, lent_generator

CPU = torch.device("cpu")
PAIR = ("(", Argument("x"), ", ", Argument("y"), ")")  # each face has its own names for inputs and targets
Prepare = Callable[[Batch], Batch]


class Batches(Protocol):
    """Training data as an iterator of batches for every epoch."""

    @property
    def n(self) -> int: ...

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch except for the first ``skip``."""

    def per_epoch(self) -> int: ...

    def with_seed(self, seed: int) -> Batches:
        """Return the same data in the order of another seed."""


@dataclass(frozen=True)
class TensorBatches:
    """Tensors, shuffled anew every epoch; a last partial batch is dropped unless it is the only batch."""

    x: Any
    y: Tensor
    size: int
    seed: int

    @property
    def n(self) -> int:
        return len(self.y)

    def per_epoch(self) -> int:
        return max(1, self.n // self.size)

    def with_seed(self, seed: int) -> TensorBatches:
        return replace(self, seed=seed)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        order = devices.moved(permutation(self.n, self.seed, number), self.y.device)
        for k in range(skip, self.per_epoch()):
            rows = self.rows(order, k)
            if isinstance(self.x, Tensor):  # index_select has less to look at than an index in brackets
                yield self.x.index_select(0, rows), self.y.index_select(0, rows)
            else:
                yield take(self.x, rows), self.y[rows]

    def rows(self, order: Tensor, k: int) -> Tensor:
        """Return the rows of batch k."""
        return order[k * self.size : (k + 1) * self.size]


@dataclass(frozen=True)
class DatasetBatches:
    """A map-style dataset, read item by item in an order that depends on seed and epoch."""

    dataset: Dataset[Any]
    size: int
    seed: int
    prepare: Prepare

    @property
    def n(self) -> int:
        return len(cast(Sized, self.dataset))

    def per_epoch(self) -> int:
        return max(1, self.n // self.size)

    def all_rows(self) -> Iterator[Batch]:
        """Yield every row once, in the order of the dataset."""
        for k, rows in enumerate(torch.arange(self.n).split(self.size)):
            with lent_generator(mix(mix(self.seed, -1), k), CPU):
                items = [self.dataset[i] for i in rows.tolist()]
            yield self.prepare(pair(default_collate(items)))

    def with_seed(self, seed: int) -> DatasetBatches:
        return replace(self, seed=seed)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        order = permutation(self.n, self.seed, number).tolist()
        for k in range(skip, self.per_epoch()):
            with lent_generator(mix(mix(self.seed, number), k), CPU):  # random transforms follow the seed too
                items = [self.dataset[i] for i in self.rows(order, k)]
            yield self.prepare(pair(default_collate(items)))

    def rows(self, order: list[int], k: int) -> list[int]:
        """Return the rows of batch k."""
        return order[k * self.size : (k + 1) * self.size]


@dataclass(frozen=True)
class LoaderBatches:
    """A DataLoader, iterated as it is; one that shuffles by a generator of its own keeps its own order.

    With ``joins`` batches of one row join the batch before.
    """

    loader: DataLoader[Any]
    n: int
    seed: int
    prepare: Prepare
    joins: bool = False

    def per_epoch(self) -> int:
        cut = _cut(self.loader)
        if isinstance(self.loader.dataset, IterableDataset):
            if self.loader.batch_size is None:
                fix = "give it one, so that n rows make an epoch"
                raise ParameterError("is a DataLoader with batch_size=None", argument="data", fix=fix)
            count, rows = max(1, math.ceil(self.n / self.loader.batch_size)), self.n
        else:
            count, rows = len(self.loader), 0 if cut is None else len(cast(Sized, cut.sampler))
        ends_alone = cut is not None and not cut.drop_last and cut.batch_size > 1 and rows % cut.batch_size == 1
        return count - 1 if self.joins and ends_alone and count > 1 else count

    def all_rows(self) -> Iterator[Batch]:
        """Yield the rows of one pass, as an epoch has them."""
        return self.epoch(-1)

    def with_seed(self, seed: int) -> LoaderBatches:
        return replace(self, seed=seed)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        stream: Iterator[Any] = iterate(self.loader, mix(self.seed, number))
        if self.joins:
            stream = joined(self.prepare(pair(batch)) for batch in stream)
        rows, largest = 0, 1
        for k, batch in enumerate(islice(stream, self.per_epoch())):
            if k >= skip:
                prepared = batch if self.joins else self.prepare(pair(batch))
                rows, largest = rows + len(prepared[1]), max(largest, len(prepared[1]))
                yield prepared
        if number == 0 and skip == 0 and rows > 0:  # a stream of no rows is an error of its own
            self._compare(rows, largest)

    def _compare(self, rows: int, largest: int) -> None:
        """Warn if the number of rows of an epoch was not n, except for an endless stream, which ends with a batch."""
        cut = _cut(self.loader)
        dropped = largest - 1 if cut is None or cut.drop_last else 0
        if not self.n - dropped <= rows < self.n + largest:
            fix = "give n=<number of training rows>, which weighs the prior against the data"
            warnings.warn(f"n={self.n}, and the first epoch had {rows} rows: {fix}", stacklevel=2)


def _cut(loader: DataLoader[Any]) -> BatchSampler | None:
    """Return torch's batch sampler of a loader, or None where the dataset yields whole batches."""
    samplers = (loader.batch_sampler, loader.sampler)
    return next((sampler for sampler in samplers if isinstance(sampler, BatchSampler)), None)


class Arrays(NamedTuple):
    """Checked training tensors."""

    x: Any
    y: Tensor


def permutation(n: int, seed: int, epoch: int) -> Tensor:
    """Return the order of the rows in an epoch, a function of (seed, epoch)."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(mix(seed, epoch)))


def mix(seed: int, number: int) -> int:
    """Derive the seed of one part of a run, unrelated to the seeds of its neighbours (SplitMix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0x7FFFFFFFFFFFFFFF


def as_arrays(
    data: Any,
    device: torch.device,
    dtype: torch.dtype,
    name: str = "data",
    inputs: Sequence[str] | None = None,
    *,
    missing: bool = False,
) -> Arrays:
    """Convert (x, y) to finite tensors of equal length on the model's device, floating inputs in its dtype.

    Errors call the argument that holds x and y by ``name``. Inputs by name are in the order of ``inputs``. With
    ``missing`` targets may be NaN.
    """
    x, y = pair(data, name)
    if isinstance(x, Mapping):
        x = in_order(x, tuple(x) if inputs is None else inputs)
    several = isinstance(x, tuple) or (isinstance(x, list) and all(isinstance(p, (Tensor, np.ndarray)) for p in x))
    if several and inputs is not None and len(x) != len(inputs):
        fix = f"give {', '.join(inputs)}"
        raise DataError((f"has {len(x)} inputs, the network takes ", Value(len(inputs))), argument="x", fix=fix)
    x = tuple(_tensor(part, "x", device, dtype, mask=True) for part in x) if several else _tensor(x, "x", device, dtype)
    y = _tensor(y, "y", device, dtype, missing=missing)
    parts = x if isinstance(x, tuple) else (x,)
    rows = {len(part) for part in parts if part.dim() > 0}
    if any(part.dim() == 0 for part in (*parts, y)):
        raise DataError("holds a scalar", argument=name, fix="x and y need a first dimension of rows")
    if rows != {len(y)}:
        count = rows.pop() if len(rows) == 1 else sorted(rows)
        problem = ("has ", Value(count), " rows and ", Argument("y"), f" has {len(y)}")
        raise DataError(problem, argument="x", fix="they must agree")
    if len(y) == 0:
        raise DataError("has 0 rows", argument=name, fix="give at least one")
    if all(part.numel() == 0 for part in parts):
        raise DataError(("has shape ", Value(tuple(parts[0].shape))), argument="x", fix="give at least one input")
    return Arrays(x, y)


def pair(batch: Any, name: str = "data") -> tuple[Any, Any]:
    """Split a batch into x and y; errors call it by ``name``. A dict has its targets under "labels" or "label"."""
    if isinstance(batch, Mapping):
        inputs, labels = split_labels(batch)
        if labels is None:
            held = Shown(", ".join(map(str, batch)))
            fix = "give targets under that name, or a pair (dict, targets)"
            raise DataError(("has entries ", Value(held), " and no 'labels'"), argument=name, fix=fix)
        return inputs, labels
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        problem = ("of type ", Value(type(batch)), " is not a pair ", *PAIR)
        raise DataError(problem, argument=name, fix="give inputs and targets")
    *x, y = batch
    return (x[0] if len(x) == 1 else tuple(x)), y


def take(x: Any, rows: Tensor | slice) -> Any:
    """Select the same rows of every input."""
    return tuple(part[rows] for part in x) if isinstance(x, tuple) else x[rows]


def joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches; a batch of one row joins the batch before it."""
    last: Batch | None = None
    for batch in batches:
        if last is not None and len(batch[1]) == 1:
            last = _end_to_end(last[0], batch[0]), torch.cat([last[1], batch[1]])
            continue
        if last is not None:
            yield last
        last = batch
    if last is not None:
        yield last


def _end_to_end(x: Any, more: Any) -> Any:
    return tuple(map(torch.cat, zip(x, more, strict=True))) if isinstance(x, tuple) else torch.cat([x, more])


def rows_of(data: Any, given: int | None) -> int:
    """Return the number of training rows of a Dataset or DataLoader, which must be known or given."""
    if given is not None:
        require_whole("n", given)
    if not isinstance(data, DataLoader) and isinstance(data, IterableDataset):
        fix = ("wrap it in a DataLoader and give ", Argument("n", Shown("<number of training rows>")))
        raise ParameterError("is an IterableDataset", argument="data", fix=fix)
    if given is not None and isinstance(data, DataLoader):
        return given
    source = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(source, IterableDataset) or not hasattr(source, "__len__"):
        fix = ("give ", Argument("n", Shown("<number of training rows>")))
        raise ParameterError(": a stream has no length", argument="n", value=None, fix=fix)
    count = len(source)
    if isinstance(data, DataLoader) and data.drop_last and data.batch_size:
        count = data.batch_size * (count // data.batch_size)
    if count == 0:
        raise DataError("has 0 rows", argument="data", fix="give at least one")
    if given is not None and given != count:
        raise ParameterError(
            f", the data have {count} rows", argument="n", value=given, fix=("leave ", Argument("n"), " out")
        )
    return count


def default_batch_size(n: int) -> int:
    """Return all rows up to 128, then a size of about sqrt(n) steps in an epoch, at most 1024."""
    return n if n <= 128 else min(1024, max(128, 2 ** round(math.log2(n / 32))))


def _require_digits(tensor: Tensor, name: str, dtype: torch.dtype) -> None:
    """Refuse columns whose variation would vanish in the network's dtype, such as Unix times in float32."""
    if tensor.dim() not in (1, 2) or len(tensor) < 2 or torch.finfo(tensor.dtype).eps >= torch.finfo(dtype).eps:
        return
    columns = tensor.reshape(len(tensor), -1)
    largest = columns.abs().amax(0)
    small = (largest > 0) & (largest < torch.finfo(dtype).smallest_normal)
    if bool(small.any()):
        j = int(torch.nonzero(small)[0])
        problem = (
            f"[:, {j}] has values of size ",
            Value(float(largest[j]), ".3g"),
            f", which {dtype} cannot tell from 0",
        )
        raise DataError(problem, argument=name, fix="rescale it, or use a float64 network (net.double())")
    deviation, center = columns.std(0), columns.mean(0)
    lost = (deviation > 0) & (deviation < 100 * torch.finfo(dtype).eps * center.abs())
    if bool(lost.any()):
        j = int(torch.nonzero(lost)[0])
        raise DataError(
            (
                *(f"[:, {j}] varies by ", Value(float(deviation[j]), ".3g")),
                f" about {float(center[j]):.6g}, which {dtype} cannot tell",
            ),
            argument=name,
            fix="subtract its mean, or use a float64 network (net.double())",
        )


def _tensor(
    value: Any, name: str, device: torch.device, dtype: torch.dtype, *, mask: bool = False, missing: bool = False
) -> Tensor:
    if isinstance(value, Tensor):
        tensor = value.detach()
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise DataError(f"is no array of numbers: {error}", argument=name) from error
        if array.dtype.kind not in "biuf":
            fix = "numbers are needed (classes as 0, ..., K - 1)"
            raise DataError(("has dtype ", Value(array.dtype)), argument=name, fix=fix)
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if tensor.is_floating_point():
        _require_digits(tensor, name, dtype)
        tensor = tensor.to(dtype)
        bad = torch.isinf(tensor) if missing else ~torch.isfinite(tensor)
        if bool(bad.any()) and not (mask and is_mask(tensor)):
            where = tuple(int(i) for i in torch.nonzero(bad)[0])
            problem = ("holds ", Value(tensor[where].item()), f" at {where}")
            raise DataError(problem, argument=name, fix="remove or fill values that are not finite")
    return devices.moved(tensor, device)
