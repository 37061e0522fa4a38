"""Rows of standard normal numbers, a few at a time, with the numbers that one call of torch for all rows would give.

On a CPU torch fills a tensor of 16 numbers or more in groups of 16 (Box and Muller), and where the length is no
multiple of 16 the last 16 numbers anew. A long tensor therefore equals shorter ones, one after the other, if the length
of each but the last is a multiple of 16. Rows that a cache holds are quicker to scale and to multiply than hundreds of
megabytes of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

GROUP = 16
ENOUGH = 1 << 18  # numbers of a block, unless a row has more


def normal_rows(
    rows: int, size: int, generator: torch.Generator | None, *, dtype: torch.dtype, device: torch.device
) -> Iterator[Tensor]:
    """Draw standard normal numbers.

    Args:
        rows: Number of rows.
        size: Numbers of a row.
        generator: Source of randomness, which nobody else may use until the last row is drawn.
        dtype: Type of the numbers.
        device: Device of the numbers.

    Yields:
        Blocks of rows, (rows of the block, size), ``rows`` of them in total, equal to those of
        ``torch.empty(rows, size).normal_()``.
    """
    count = max(1, ENOUGH // max(1, size))
    if device.type != "cpu" or count >= rows or size < 2 * GROUP:
        yield torch.empty(rows, size, dtype=dtype, device=device).normal_(generator=generator)
        return
    left = torch.empty(0, dtype=dtype)  # numbers that were drawn and belong to the next block
    for start in range(0, rows, count):
        taken = min(count, rows - start)
        missing = taken * size - len(left)
        drawn = missing if start + taken == rows else -(-missing // GROUP) * GROUP
        numbers = torch.empty(GROUP + drawn, dtype=dtype)
        numbers[GROUP:].normal_(generator=generator)
        first = GROUP - len(left)
        numbers[first:GROUP] = left
        left = numbers[first + taken * size :].clone()
        yield numbers[first : first + taken * size].view(taken, size)
