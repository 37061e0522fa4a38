"""Flat vectors in blocks that stay in a core's cache while a step's thirty elementwise operations pass over them.

Over whole vectors each operation would fetch every number from memory again. On other devices than the CPU there is one
block: there the launch of an operation costs more than its memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.model import Slot
from r2d2net.priors.cache_blocks import piece_size


class Blocks:
    """How a flat vector of the slots' parameters is cut.

    Args:
        slots: The parameters.
        unit: A number for each entry, which is constant within a slot, and so within a block.
    """

    def __init__(self, slots: Sequence[Slot], unit: Tensor) -> None:
        small = piece_size(unit)
        constants = [float(unit[slot.start]) if slot.stop > slot.start else 1.0 for slot in slots]
        self.cuts = _cut([slot.stop - slot.start for slot in slots], constants, small)
        self.sizes = [cut.size for cut in self.cuts]
        self.units: list[float] | list[Tensor] = [constants[cut.first] for cut in self.cuts]

    def of(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Return views of the vector's blocks."""
        return vector.split(self.sizes) if self.sizes else ()

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
    """Small neighbours of the same unit share a block, large slots are cut by themselves.

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
