"""Vectors and tensors cut into blocks that a core's cache holds while an update passes over them.

Over whole tensors each of an update's many elementwise operations would fetch every number from memory again, and need
room for all intermediate results. On other devices than the CPU there is one block: there the launch of an operation
costs more than its memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Value

PIECE = 1 << 17  # entries: a dozen vectors of them stay in a cache. Not by threads, on which no draw may depend


def piece_size(like: Tensor) -> int:
    """Return the number of entries of the largest block of a tensor."""
    most = max(1, like.numel())
    if like.device.type != "cpu":
        return most
    return min(most, PIECE)


def pieces(size: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield flat views of tensors of one shape, ``size`` entries at a time.

    Tensors without dimensions are given whole with every piece. Others that broadcast to the shape of the first are
    written out.
    """
    shape, count = tensors[0].shape, -(-tensors[0].numel() // size)

    def cut(tensor: Tensor) -> tuple[Tensor, ...]:
        if tensor.dim() == 0 and len(shape):
            return (tensor,) * count
        return (tensor if tensor.shape == shape else tensor.expand(shape)).reshape(-1).split(size)[:count]

    return zip(*map(cut, tensors), strict=True)


def require_flat(**tensors: Tensor) -> None:
    """Raise a `ParameterError` unless the tensors to be overwritten have a flat view."""
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            fix = "to be overwritten it must be contiguous"
            raise ParameterError(("has strides ", Value(tensor.stride())), argument=name, fix=fix)


def write(targets: tuple[Tensor, ...], values: tuple[Tensor, ...]) -> None:
    """Copy each value to its target."""
    for target, value in zip(targets, values, strict=True):
        target.copy_(value)


@cache
def fused(step: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function by torch, once for all sizes; where that fails, calling it raises an error of one line."""
    compiled = torch.compile(step, dynamic=True)

    @wraps(step)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return compiled(*arguments, **options)
        except torch._dynamo.exc.BackendCompilerFailed as error:
            reason = str(error).splitlines()[0]
            problem = f"does not work here ({reason})"
            raise ParameterError(problem, argument="compile", value=True, fix="leave it out") from error

    return call


class Blocks:
    """The cuts of a flat vector of parameters into blocks.

    Args:
        spans: First entry of each parameter in the vector, and the entry after its last.
        unit: A number for each entry, which is constant within a slot, and so within a block.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], unit: Tensor) -> None:
        small = piece_size(unit)
        constants = [float(unit[start]) if stop > start else 1.0 for start, stop in spans]
        self.cuts = _cut([stop - start for start, stop in spans], constants, small)
        self.sizes = [cut.size for cut in self.cuts]
        self.units: list[float] | list[Tensor] = [constants[cut.first] for cut in self.cuts]

    def of(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Return views of the vector's blocks."""
        return tuple(vector.split_with_sizes(self.sizes)) if self.sizes else ()

    def gathered(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return the blocks of the vector that the slots' tensors make up, without writing it out."""
        flat = [part.reshape(-1).contiguous() for part in parts]  # fused kernels do not look at strides
        return [
            torch.cat(flat[cut.first : cut.last])
            if cut.last - cut.first > 1
            else flat[cut.first][cut.start : cut.start + cut.size]
            for cut in self.cuts
        ]


class Whole(Blocks):
    """One block, for compiled code, which passes over it once: as views of many forms it would be compiled for each."""

    def __init__(self, unit: Tensor) -> None:
        self.units = [unit]

    def of(self, vector: Tensor) -> tuple[Tensor, ...]:
        return (vector,)

    def gathered(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return [torch.cat([part.reshape(-1) for part in parts])]


class Cut(NamedTuple):
    """One block: some whole slots, or ``size`` entries of a single one from ``start`` on."""

    first: int
    last: int  # the slot after the last one
    start: int
    size: int


def _cut(lengths: Sequence[int], units: Sequence[float], small: int) -> list[Cut]:
    """Cut parameters into blocks: small neighbours of the same unit share a block, large ones are cut further.

    >>> [cut.size for cut in _cut([3, 4, 0, 25, 0, 2, 2], [1, 1, 1, 1, 1, 1, 2], 10)]
    [7, 10, 10, 5, 2, 2]
    """
    cuts: list[Cut] = []
    room, unit = 0, math.nan
    for k, length in enumerate(lengths):
        if length == 0:
            continue
        if length <= room and units[k] == unit:
            cuts[-1] = cuts[-1]._replace(last=k + 1, size=cuts[-1].size + length)
            room -= length
            continue
        cuts += [Cut(k, k + 1, start, min(small, length - start)) for start in range(0, length, small)]
        room, unit = max(0, small - length), units[k]
    return cuts
