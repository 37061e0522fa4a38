"""Choice between two tensors element by element without branches, which a CPU mispredicts in `torch.where`."""

from __future__ import annotations

import torch
from torch import Tensor

INTEGERS = {torch.float32: (torch.int32, 31), torch.float64: (torch.int64, 63)}


def where_negative(sign: Tensor, then: Tensor, otherwise: Tensor) -> Tensor:
    """Select ``then`` where ``sign`` is negative or -0.0, else ``otherwise``; all of one shape and dtype.

    Args:
        sign: Tensor whose sign bit decides.
        then: Values where the bit is set.
        otherwise: Values where it is not.

    Returns:
        The selected values.

    Example:
        >>> where_negative(torch.tensor([-0.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0]))
        tensor([3., 6.])
    """
    if sign.dtype not in INTEGERS:
        return torch.where(torch.signbit(sign), then, otherwise)
    integer, place = INTEGERS[sign.dtype]
    bits = then.view(integer) ^ otherwise.view(integer)
    bits &= sign.view(integer) >> place  # all ones where negative
    bits ^= otherwise.view(integer)
    return bits.view(sign.dtype)
