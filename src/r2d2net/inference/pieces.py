"""Flat vectors in pieces that stay in a core's cache while a step's thirty elementwise operations pass over them.

Over whole vectors each operation would fetch every number from memory again. On other devices than the CPU there is one
piece: there the launch of an operation costs more than its memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from r2d2net.model import Slot

PIECE = 1 << 15  # entries for each thread; torch does not share out fewer


class Pieces:
    """How a flat vector of the slots' parameters is cut.

    Args:
        slots: The parameters.
        unit: A number for each entry, which is constant within a slot.
    """

    def __init__(self, slots: Sequence[Slot], unit: Tensor) -> None:
        most = PIECE * torch.get_num_threads() if unit.device.type == "cpu" else max(1, unit.numel())
        self.sizes = _cut([slot.stop - slot.start for slot in slots], most)
        self.units = [_constant(piece) for piece in self.of(unit)]

    def of(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Views of the pieces."""
        return (vector,) if len(self.sizes) == 1 else vector.split(self.sizes)


def _cut(lengths: Sequence[int], most: int) -> list[int]:
    """Sizes of pieces: small neighbours share one, large slots are cut by themselves.

    >>> _cut([3, 4, 25, 2], 10)
    [7, 10, 10, 5, 2]
    """
    sizes: list[int] = []
    room = 0
    for length in lengths:
        if length <= room:
            sizes[-1] += length
            room -= length
            continue
        whole, rest = divmod(length, most)
        sizes += [most] * whole + [rest] * (rest > 0)
        room = most - length if length < most else 0
    return sizes


def _constant(unit: Tensor) -> Tensor | float:
    """The number that a vector repeats, or the vector."""
    first = float(unit[0])
    return first if bool((unit == first).all()) else unit.clone()
