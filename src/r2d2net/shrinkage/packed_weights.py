"""Matrices of weights on a grid, as few bytes: whole numbers of b bits side by side, and a bit for each zero.

    w_j = step q_j,      q_j - min q in b bits,      b = bits of max q - min q

Weights that are zero for good have no number; which they are is a bit for each weight. Both sequences of bits are
compressed (zlib), which makes little of the second where most weights are gone.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import CheckpointError

MOST_BITS = 32


class Packed(NamedTuple):
    """The weights of one matrix on a grid, as bytes.

    Attributes:
        shape: Shape of the matrix.
        step: Distance of the values of the grid.
        least: The smallest whole number.
        bits: Bits of a weight.
        left: Number of weights that are left.
        codes: Compressed whole numbers of the weights that are left.
        mask: Compressed bits that tell which those are; empty where all are.
    """

    shape: tuple[int, ...]
    step: float
    least: int
    bits: int
    left: int
    codes: bytes
    mask: bytes


def pack(values: Tensor, keep: Tensor, step: float) -> Packed:
    """Write the weights of a matrix, which lie on a grid, as bytes.

    Args:
        values: The weights.
        keep: Which of them are not zero for good.
        step: Distance of the values of the grid.

    Returns:
        The bytes, and what is needed to read them.

    Example:
        >>> w = torch.tensor([[0.5, -0.25], [0.0, 0.75]])
        >>> packed = pack(w, w != 0, 0.25)
        >>> packed.bits, torch.equal(unpack(packed), w)
        (3, True)
    """
    numbers = torch.round(values.double()[keep] / step).to(torch.int64).cpu().numpy()
    least = int(numbers.min()) if len(numbers) else 0
    bits = bits_of(int(numbers.max()) - least if len(numbers) else 0)
    places = np.arange(bits, dtype=np.uint64)
    digits = ((numbers - least).astype(np.uint64)[:, None] >> places) & np.uint64(1)
    codes = zlib.compress(np.packbits(digits.astype(np.uint8)).tobytes(), 9)
    whole = bool(keep.all())
    mask = b"" if whole else zlib.compress(np.packbits(keep.cpu().numpy().reshape(-1)).tobytes(), 9)
    return Packed(tuple(values.shape), step, least, bits, len(numbers), codes, mask)


def unpack(packed: Packed) -> Tensor:
    """Read the weights of a matrix.

    Args:
        packed: What `pack` returned.

    Returns:
        The weights, float32.

    Raises:
        CheckpointError: If the bytes are not those of such a matrix.
    """
    count = int(np.prod(packed.shape, dtype=np.int64))
    sane = 1 <= packed.bits <= MOST_BITS and 0 <= packed.left <= count
    if not sane or (not packed.mask and packed.left != count):
        raise CheckpointError("holds a matrix of impossible size", fix="save the network again")
    digits = _bits(packed.codes, packed.left * packed.bits).reshape(packed.left, packed.bits).astype(np.int64)
    numbers = digits @ (1 << np.arange(packed.bits, dtype=np.int64)) + packed.least
    values = np.zeros(count)
    keep = _bits(packed.mask, count).astype(bool) if packed.mask else np.ones(count, dtype=bool)
    if int(keep.sum()) != packed.left:
        raise CheckpointError("holds a matrix of impossible size", fix="save the network again")
    values[keep] = numbers * packed.step
    return torch.from_numpy(values).to(torch.float32).view(packed.shape)


def bits_of(largest: int) -> int:
    """Return how many bits whole numbers from 0 to the largest one need, at least one.

    >>> [bits_of(n) for n in (0, 1, 2, 255, 256)]
    [1, 1, 2, 8, 9]
    """
    return max(1, largest.bit_length())


def _bits(content: bytes, count: int) -> np.ndarray:
    """Read so many bits; never more bytes than they are."""
    size = (count + 7) // 8
    try:
        raw = zlib.decompressobj().decompress(content, size + 1)
    except zlib.error as error:
        raise CheckpointError(f"is damaged: {error}", fix="save the network again") from error
    if len(raw) != size:
        raise CheckpointError("holds a matrix of impossible size", fix="save the network again")
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=count)
