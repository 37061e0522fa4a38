"""The batches of a run whose rows are split among k processes: each gets its share of every step.

    tensors, a Dataset, a DataLoader    rank r takes rows [B r / k, B (r + 1) / k) of a batch of B
    one with a DistributedSampler       is taken as it is: its batches are shares already
    an IterableDataset                  rank r takes items r, r + k, ... of each worker; one that runs out begins anew

A batch of less than two rows for each process is taken whole by all of them: its mean is the same, and BatchNorm finds
a variance. The order of rows is a function of (seed, epoch) as in a run of one process, so that all ranks know it.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from r2d2net.errors import ParameterError, Shown
from r2d2net.inference.base import Batch
from r2d2net.ranks import Ranks
from r2d2net.run.batches import (
    Batches,
    DatasetBatches,
    LoaderBatches,
    TensorBatches,
    joined,
    mix,
    pair,
    take,
)
from r2d2net.run.global_generator import iterate

FEWEST = 2  # rows of a share


def share_of(rows: int, rank: int, size: int) -> slice:
    """Return which rows of a batch a rank takes.

    >>> share_of(7, 0, 2), share_of(7, 1, 2), share_of(3, 1, 2)
    (slice(0, 3, None), slice(3, 7, None), slice(0, 3, None))
    """
    if rows < FEWEST * size:
        return slice(0, rows)
    return slice(rows * rank // size, rows * (rank + 1) // size)


def split_batches(batches: Batches, ranks: Ranks) -> Batches:
    """Return this rank's shares of batches.

    Args:
        batches: The batches, the same on all ranks; those of streams may be shares already.
        ranks: The processes.
    """
    if isinstance(batches, TensorBatches):
        return SplitTensors(batches.x, batches.y, batches.size, batches.seed, ranks)
    if isinstance(batches, DatasetBatches):
        return SplitDataset(batches.dataset, batches.size, batches.seed, batches.prepare, ranks)
    if isinstance(batches, Shares):
        return batches
    assert isinstance(batches, LoaderBatches)
    return SplitLoader(batches, ranks)


def with_shares(batches: Batches, ranks: Ranks) -> Batches:
    """Return batches that know whether they are shares of a rank."""
    if ranks.size > 1 and isinstance(batches, LoaderBatches) and has_shares(batches.loader):
        return Shares(batches, ranks)
    return batches


@dataclass(frozen=True)
class SplitTensors(TensorBatches):
    """This rank's rows of batches of tensors."""

    ranks: Ranks

    def rows(self, order: torch.Tensor, k: int) -> torch.Tensor:
        batch = super().rows(order, k)
        return batch[share_of(len(batch), self.ranks.rank, self.ranks.size)]


@dataclass(frozen=True)
class SplitDataset(DatasetBatches):
    """This rank's rows of batches of a dataset; no rank fetches the items of another."""

    ranks: Ranks

    def rows(self, order: list[int], k: int) -> list[int]:
        batch = super().rows(order, k)
        return batch[share_of(len(batch), self.ranks.rank, self.ranks.size)]


@dataclass(frozen=True)
class SplitLoader:
    """This rank's rows of the batches of a DataLoader, of which every rank has one like the others'."""

    inner: LoaderBatches
    ranks: Ranks

    @property
    def n(self) -> int:
        return self.inner.n

    def per_epoch(self) -> int:
        return self.inner.per_epoch()

    def with_seed(self, seed: int) -> SplitLoader:
        return replace(self, inner=self.inner.with_seed(seed))

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        for x, y in self.inner.epoch(number, skip):
            own = share_of(len(y), self.ranks.rank, self.ranks.size)
            yield take(x, own), y[own]


# --- DataLoaders that bring shares


@dataclass(frozen=True)
class Shares:
    """Batches of a DataLoader that are this rank's shares of the steps already.

    An epoch has as many steps on all ranks: a rank whose part of a stream is shorter begins it again.
    """

    inner: LoaderBatches
    ranks: Ranks

    @property
    def n(self) -> int:
        loader, size = self.inner.loader, self.inner.loader.batch_size
        if isinstance(loader.sampler, DistributedSampler) and loader.drop_last and size:
            return self.ranks.size * size * (len(loader.sampler) // size)
        return self.inner.n

    def per_epoch(self) -> int:
        loader = self.inner.loader
        if isinstance(loader.dataset, Shard) and loader.batch_size is not None:
            return steps_of_stream(self.n, loader.batch_size, self.ranks.size)
        return self.inner.per_epoch()

    def with_seed(self, seed: int) -> Shares:
        return replace(self, inner=self.inner.with_seed(seed))

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        inner, steps = self.inner, self.per_epoch()
        if isinstance(inner.loader.sampler, DistributedSampler):
            inner.loader.sampler.set_epoch(number)
        rows, largest = 0, 1
        for k, (batch, again) in enumerate(islice(self._endless(number), steps)):
            rows, largest = rows + (0 if again else len(batch[1])), max(largest, len(batch[1]))
            if k >= skip:
                yield batch
        if number == 0 and skip == 0 and rows > 0:
            self._compare(rows, largest)

    def _endless(self, number: int) -> Iterator[tuple[Batch, bool]]:
        """Yield batches, and whether they come again in this epoch."""
        inner = self.inner
        for turn in count():
            empty = True
            stream: Iterator[Batch] = (
                inner.prepare(pair(batch)) for batch in iterate(inner.loader, mix(mix(inner.seed, number), turn))
            )
            for batch in joined(stream) if inner.joins else stream:
                empty = False
                yield batch, turn > 0
            if empty:
                return

    def _compare(self, rows: int, largest: int) -> None:
        """Warn if this rank's rows of an epoch were far from n / k."""
        size, whole = self.ranks.size, self.n
        if abs(rows * size - whole) > size * largest:
            fix = "give n=<rows of all processes>; a stream that is split by rank itself needs is_split_by_rank = True"
            seen = f"rank {self.ranks.rank} of {size} had {rows} rows in the first epoch"
            warnings.warn(f"n={whole}, and {seen}: {fix}", stacklevel=2)


def has_shares(loader: DataLoader[Any]) -> bool:
    """Tell whether the batches of a loader are shares of a rank, not to be split again."""
    return isinstance(loader.sampler, DistributedSampler) or isinstance(loader.dataset, Shard)


def for_rank(data: Any, ranks: Ranks) -> Any:
    """Return training data of which a stream is this rank's part of it.

    Args:
        data: Training data in any form that `fit` takes.
        ranks: The processes.

    Returns:
        The data; a DataLoader of an IterableDataset yields this rank's items.

    Raises:
        ParameterError: If a DistributedSampler is for another number of processes.
    """
    if ranks.size == 1 or not isinstance(data, DataLoader):
        return data
    sampler = data.sampler
    if isinstance(sampler, DistributedSampler):
        if (sampler.num_replicas, sampler.rank) != (ranks.size, ranks.rank):
            problem = f"is for rank {sampler.rank} of {sampler.num_replicas}, this is rank {ranks.rank} of {ranks.size}"
            fix = "leave num_replicas and rank out, or leave the sampler out: fit splits the rows"
            raise ParameterError(problem, argument="data", value=Shown("DistributedSampler"), fix=fix)
        return data
    if not isinstance(data.dataset, IterableDataset):
        return data
    if data.batch_size is None:
        fix = "give it one, so that n rows make an epoch"
        raise ParameterError("is a DataLoader with batch_size=None", argument="data", fix=fix)
    own = copy.copy(data)
    own.__dict__["dataset"] = Shard(data.dataset, ranks.rank, ranks.size)  # DataLoader's setter refuses
    own.__dict__["_iterator"] = None
    return own


class Shard(IterableDataset[Any]):
    """Items rank, rank + k, ... of an IterableDataset, in each of a loader's workers.

    Args:
        dataset: The whole stream; or a rank's part of it, which its attribute ``is_split_by_rank = True`` says.
        rank: Number of this process.
        size: Number of processes.
    """

    def __init__(self, dataset: IterableDataset[Any], rank: int, size: int) -> None:
        self.dataset, self.rank, self.size = dataset, rank, size

    def __iter__(self) -> Iterator[Any]:
        if getattr(self.dataset, "is_split_by_rank", False):
            return iter(self.dataset)
        return islice(iter(self.dataset), self.rank, None, self.size)


def steps_of_stream(n: int, batch_size: int, ranks: int) -> int:
    """Return how many steps take n rows, of which each rank takes a batch in a step.

    >>> steps_of_stream(100, 10, 2), steps_of_stream(101, 10, 2)
    (5, 6)
    """
    return max(1, math.ceil(n / (batch_size * ranks)))
