"""Argument checks that torch.distributions words badly: one line with the argument, the value and the fix."""

from __future__ import annotations

import math

from torch import Tensor

from r2d2net.errors import ParameterError, Value


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
