"""Scales and tensors of the same shape, cut into flat blocks that fit in a core's cache.

A sweep over whole tensors would fetch every number from memory for each of its hundred operations, and need room for
all of its intermediate results. On other devices than the CPU there is one piece: there the launch of an operation
costs more than its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

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
    """Flat views of tensors of one shape, ``size`` entries at a time.

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
