"""Building blocks of samplers: argument checks, selection by bits, uniform and gamma numbers from a generator."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gamma

from r2d2net.errors import ParameterError, Value

# integer type and place of the sign bit; integer type, places of the mantissa and the bits of 1.0
SIGN_BITS = {torch.float32: (torch.int32, 31), torch.float64: (torch.int64, 63)}
MANTISSA_BITS = {torch.float32: (torch.int32, 23, 0x3F800000), torch.float64: (torch.int64, 52, 0x3FF0000000000000)}


def require_positive(**arguments: Tensor) -> None:
    """Raise unless every element of every argument is finite and > 0.

    Args:
        **arguments: Tensors by the names that a message is to call them.

    Raises:
        ParameterError: With the name and the first offending value.

    Example:
        >>> import torch
        >>> require_positive(rate=torch.tensor([1.0, -2.0]))
        Traceback (most recent call last):
        ...
        r2d2net.errors.ParameterError: rate holds -2.0: it must be finite and > 0
    """
    _require(arguments, closed=False)


def require_nonnegative(**arguments: Tensor) -> None:
    """Raise unless every element of every argument is finite and >= 0.

    Args:
        **arguments: Tensors by the names that a message is to call them.

    Raises:
        ParameterError: With the name and the first offending value.
    """
    _require(arguments, closed=True)


def _require(arguments: dict[str, Tensor], *, closed: bool) -> None:
    for name, value in arguments.items():
        inside = (value >= 0 if closed else value > 0) & (value < math.inf)
        if not bool(inside.all()):
            bad = value.detach()[~inside].flatten()[0].item()
            fix = f"it must be finite and {'>=' if closed else '>'} 0"
            raise ParameterError(("holds ", Value(bad)), argument=name, fix=fix)


def where_negative(sign: Tensor, then: Tensor, otherwise: Tensor) -> Tensor:
    """Select ``then`` where ``sign`` is negative or -0.0, else ``otherwise``; all of one shape and dtype.

    It has no branches, which a CPU mispredicts in `torch.where`.

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
    if sign.dtype not in SIGN_BITS:
        return torch.where(torch.signbit(sign), then, otherwise)
    integer, place = SIGN_BITS[sign.dtype]
    bits = then.view(integer) ^ otherwise.view(integer)
    bits &= sign.view(integer) >> place  # all ones where negative
    bits ^= otherwise.view(integer)
    return bits.view(sign.dtype)


def fill_uniform(out: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Fill ``out`` with independent numbers, uniform on the multiples in [0, 1) of a dtype's epsilon.

    The bits become the mantissa of a number in [1, 2), from which 1 is subtracted: on a CPU that takes half of the time
    of `Tensor.uniform_`. One draw of 64 bits makes two float32 numbers; where ``out`` cannot be viewed as 64-bit
    integers, `Tensor.uniform_` fills it.

    Args:
        out: Tensor to overwrite.
        generator: Source of randomness, on the device of ``out``; None for torch's global generator.

    Returns:
        ``out``.

    Example:
        >>> fill_uniform(torch.empty(4), torch.Generator().manual_seed(0)).lt(1).all()
        tensor(True)
    """
    pairs = out.is_contiguous() and out.storage_offset() % 2 == 0 and out.numel() % 2 == 0 and out.dim() > 0
    if out.dtype not in MANTISSA_BITS or not pairs:
        return out.uniform_(generator=generator)
    integer, places, bits_of_one = MANTISSA_BITS[out.dtype]
    out.view(-1).view(torch.int64).random_(-(2**63), None, generator=generator)
    out.view(integer).bitwise_and_((1 << places) - 1).bitwise_or_(bits_of_one)
    return out.sub_(1)


def standard_gamma(shape: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw from Gamma(shape, 1) for each element of ``shape``.

    Args:
        shape: Shape parameters, > 0.
        generator: Source of randomness, on the device of ``shape``; None for torch's global generator.

    Returns:
        Draws in the shape and dtype of ``shape``, at least the smallest normal number of the dtype.

    Example:
        >>> standard_gamma(torch.tensor([0.1, 5.0]), torch.Generator().manual_seed(0)).shape
        torch.Size([2])
    """
    draws = torch._standard_gamma(shape, generator=generator)
    return draws.clamp_(min=torch.finfo(draws.dtype).tiny)


def gamma_mean_log(q: Gamma) -> Tensor:
    """Compute E[log X] = digamma(shape) - log(rate) for X ~ Gamma(shape, rate).

    Args:
        q: The gamma distribution of X.

    Returns:
        The expectation in the batch shape of ``q``.

    Example:
        >>> gamma_mean_log(Gamma(torch.tensor(2.0), torch.tensor(1.0)))
        tensor(0.4228)
    """
    return torch.digamma(q.concentration) - torch.log(q.rate)
