"""What travels beside the rows of a data set: a graph whose nodes are the rows, or a set of graphs that are the rows.

A row is then a number, and the network's output at some rows is what the context makes of one pass. Everything else
(batches, validation rows, draws, samplers) sees rows of numbers alone.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value

Pass = Callable[..., Any]  # the network, as a function of its arguments


class Context(ABC):
    """What a network reads beside the numbers of the rows.

    Attributes:
        whole_pass: Whether a pass costs the same for one row as for all.
        center, scale: Means and standard deviations by which features were standardised, (1, features); None where
            they were not.
    """

    whole_pass: bool = False
    center: Tensor | None = None  # of features that were standardised, (1, features)
    scale: Tensor | None = None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows there are."""

    @abstractmethod
    def outputs(self, run: Pass, rows: Tensor) -> Any:
        """Compute the network's outputs at rows.

        Args:
            run: The network, as a function of its arguments.
            rows: Numbers of the rows, (rows,).

        Returns:
            The outputs, (rows, ...).
        """

    @abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """Copy the context to a device, and its floating tensors to a dtype.

        Args:
            device: The device.
            dtype: The dtype.

        Returns:
            The copy, or the context itself if nothing changes.
        """

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """List all tensors, by which contexts are compared.

        Returns:
            The tensors.
        """

    @property
    @abstractmethod
    def features(self) -> Tensor:
        """The features of all nodes, (nodes, features)."""

    @abstractmethod
    def with_features(self, x: Tensor) -> Self:
        """Copy the context with other features of its nodes.

        Args:
            x: The features, (nodes, features).

        Returns:
            The copy.
        """

    def standardized(self) -> Self:
        """Copy the context with features of mean 0 and variance 1 over its nodes; constant ones become 0.

        Returns:
            The copy, which knows centres and scales.
        """
        x = self.features.double()
        center, deviation = x.mean(0), x.std(0, correction=0)
        varies = deviation > 4 * torch.finfo(self.features.dtype).eps * x.abs().amax(0)
        scale = torch.where(varies, deviation, 1)
        return self.scaled(center[None].to(self.features.dtype), scale[None].to(self.features.dtype))

    def scaled(self, center: Tensor, scale: Tensor) -> Self:
        """Copy the context with features in given units.

        Args:
            center: What is subtracted from each feature, (1, features).
            scale: By what it is then divided, (1, features).

        Returns:
            The copy.

        Raises:
            DataError: If the features are of another number.
        """
        x = self.features
        if x.shape[1] != center.shape[1]:
            fix = f"the model was fitted to {center.shape[1]} features"
            raise DataError(("has ", Value(x.shape[1]), " features of each node"), argument="x", fix=fix)
        copied = self.with_features((x - center.to(x)) / scale.to(x))
        copied.center, copied.scale = center, scale
        return copied

    def digest(self) -> str:
        """Return a digest of all tensors.

        Returns:
            The digest, 64 hexadecimal digits.
        """
        digest = hashlib.sha256()
        for tensor in self.tensors():
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def is_same(self, other: Context) -> bool:
        """Tell whether another context holds the same numbers.

        Args:
            other: The other context.

        Returns:
            Whether it does.
        """
        mine, theirs = self.tensors(), other.tensors()
        return type(self) is type(other) and len(mine) == len(theirs) and all(map(torch.equal, mine, theirs))

    def rows(self, given: Any = None) -> Tensor:
        """Convert what says which rows are meant to their numbers.

        Args:
            given: Numbers of rows, a mask of all rows, or None for all.

        Returns:
            The numbers, (rows,).

        Raises:
            DataError: If they are no such numbers or mask.
        """
        if given is None:
            return torch.arange(len(self))
        try:
            rows = torch.as_tensor(given).detach()
        except (TypeError, ValueError, RuntimeError) as error:
            fix = "give numbers of rows or a mask of all rows"
            raise DataError(("names rows by ", Value(type(given))), argument="x", fix=fix) from error
        if rows.dtype == torch.bool:
            if rows.shape != (len(self),):
                fix = f"a mask has one entry for each of {len(self)} rows"
                raise DataError(("has a mask of shape ", Value(tuple(rows.shape))), argument="x", fix=fix)
            return rows.nonzero().squeeze(1)
        if rows.dim() != 1 or rows.is_floating_point() or rows.is_complex():
            form = (f"names rows by {rows.dtype} of shape ", Value(tuple(rows.shape)))
            raise DataError(form, argument="x", fix="give whole numbers of rows, (rows,), or a mask")
        wrong = (rows < 0) | (rows >= len(self))
        if bool(wrong.any()):
            problem = ("names row ", Value(int(rows[wrong][0])))
            raise DataError(problem, argument="x", fix=f"use numbers from 0 to {len(self) - 1}")
        return rows.long()


def rows_in_context(x: Any) -> tuple[Context, Tensor] | None:
    """Split inputs that name rows of a context.

    Args:
        x: (context, rows), a context alone for all its rows, or anything else.

    Returns:
        The context and the numbers of the rows; None for anything else.

    Raises:
        DataError: If the rows are not rows of the context.
    """
    if isinstance(x, Context):
        return x, x.rows()
    if isinstance(x, (tuple, list)) and len(x) == 2 and isinstance(x[0], Context):
        return x[0], x[0].rows(x[1])
    return None


def whole_numbers(tensor: Any, name: str) -> Tensor:
    """Convert to int64, refusing anything but whole numbers; errors call it by ``name``."""
    try:
        numbers = torch.as_tensor(tensor).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(("is a ", Value(type(tensor))), argument=name, fix="give a tensor of whole numbers") from error
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise DataError(("has dtype ", Value(numbers.dtype)), argument=name, fix="give whole numbers")
    return numbers.long()


def finite_numbers(tensor: Any, name: str) -> Tensor:
    """Convert to a floating tensor of finite numbers; errors call it by ``name``."""
    try:
        numbers = torch.as_tensor(tensor).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(("is a ", Value(type(tensor))), argument=name, fix="give a tensor of numbers") from error
    numbers = numbers.to_dense() if numbers.layout != torch.strided else numbers
    numbers = numbers if numbers.is_floating_point() else numbers.to(torch.get_default_dtype())
    if not bool(torch.isfinite(numbers).all()):
        raise DataError("holds values that are not finite", argument=name, fix="remove or fill them")
    return numbers
