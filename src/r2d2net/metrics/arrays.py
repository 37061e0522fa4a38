"""Conversion of the metrics' arguments, which may be numpy arrays, torch tensors or lists, to checked float64 arrays.

A failed check raises a `DataError` of one line that names the argument, what is wrong with it and the fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2d2net.errors import Argument, DataError, Value

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Numbers = NDArray[Any] | Tensor | Sequence[Any]
SUM_TOLERANCE = 1e-3  # rounding error of a half-precision softmax's sum


def numbers(name: str, value: Numbers) -> Array:
    """Convert an array of finite real numbers to float64.

    Args:
        name: Name of the argument in messages.
        value: Array, tensor or nested list with at least one row.

    Returns:
        The array.

    Raises:
        DataError: If ``value`` is not an array of finite real numbers or is empty.
    """
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()  # numpy has no bfloat16
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(f"is no array of numbers: {error}", argument=name) from error
    if array.dtype.kind not in "biuf":
        raise DataError(("has dtype ", Value(array.dtype)), argument=name, fix="give real numbers")
    if array.ndim == 0 or array.size == 0:
        raise DataError(("has shape ", Value(array.shape)), argument=name, fix="give at least one row")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        problem = ("holds ", Value(float(array[where])), f" at {where}")
        raise DataError(problem, argument=name, fix="remove or fill values that are not finite")
    return array


def like(name: str, value: Numbers, target: Array) -> Array:
    """Convert numbers to an array in the shape of ``target``; (rows,) and (rows, 1) count as equal shapes."""
    array = numbers(name, value)
    if array.shape != target.shape and _flat(array.shape) == _flat(target.shape):
        return array.reshape(target.shape)
    if array.shape != target.shape:
        problem = ("has shape ", Value(array.shape), " and ", Argument("y"), f" {target.shape}")
        raise DataError(problem, argument=name, fix="they must agree")
    return array


def draws_like(name: str, value: Numbers, target: Array) -> Array:
    """Convert draws to an array of shape (draws, *shape of ``target``)."""
    array = numbers(name, value)
    if array.ndim > 1 and _flat(array.shape[1:]) == _flat(target.shape):
        return array.reshape(len(array), *target.shape)
    problem = ("has shape ", Value(array.shape), ", ", Argument("y"), f" {target.shape}")
    raise DataError(problem, argument=name, fix="give (draws, *shape of y)")


def class_labels(name: str, value: Numbers) -> Labels:
    """Convert class numbers 0, 1, ... to integers of shape (rows,)."""
    array = numbers(name, value)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(("has shape ", Value(array.shape)), argument=name, fix="give class numbers of shape (rows,)")
    wrong = (array < 0) | (array != np.floor(array)) | (array >= 2**31)  # no int64 beyond 2^63
    if wrong.any():
        problem = ("holds ", Value(float(array[wrong][0]), "g"))
        raise DataError(problem, argument=name, fix="give class numbers 0, 1, 2, ...")
    return array.astype(np.int64)


def probabilities(name: str, value: Numbers) -> Array:
    """Convert class probabilities of shape (..., rows, classes), which must lie in [0, 1] and sum to one."""
    array = numbers(name, value)
    if array.ndim < 2 or array.shape[-1] < 2:
        raise DataError(
            ("has shape ", Value(array.shape)), argument=name, fix="give (rows, classes) with at least two classes"
        )
    if array.min() < 0 or array.max() > 1 + SUM_TOLERANCE:
        worst = array.min() if array.min() < 0 else array.max()
        fix = "probabilities lie in [0, 1]; of logits take the softmax first"
        raise DataError(("holds ", Value(float(worst), "g")), argument=name, fix=fix)
    total = array.sum(-1)
    if np.abs(total - 1).max() > SUM_TOLERANCE:
        row = tuple(int(i) for i in np.unravel_index(np.abs(total - 1).argmax(), total.shape))
        problem = ("sums to ", Value(float(total[row]), ".4g"), f" at row {row}")
        raise DataError(problem, argument=name, fix="probabilities must sum to one over the classes")
    return np.minimum(array, 1.0)  # p / p.sum() in float32 may be 1.0000001


def labelled_probabilities(y: Numbers, probs: Numbers) -> tuple[Labels, Array]:
    """Convert labels (rows,) and their probabilities (rows, classes), and check that they fit together."""
    label, array = class_labels("y", y), probabilities("probs", probs)
    if array.ndim != 2:
        raise DataError(
            ("has shape ", Value(array.shape)),
            argument="probs",
            fix="give (rows, classes); of draws take the mean first",
        )
    require_rows(label, array, "probs")
    if label.max() >= array.shape[1]:
        problem = ("holds class ", Value(int(label.max())), ", ", Argument("probs"), f" has {array.shape[1]} columns")
        raise DataError(problem, argument="y", fix="give one column a class")
    return label, array


def probability_draws(name: str, value: Numbers) -> Array:
    """Convert class probabilities of each draw of the weights, of shape (draws, rows, classes)."""
    array = probabilities(name, value)
    if array.ndim != 3:
        raise DataError(("has shape ", Value(array.shape)), argument=name, fix="give (draws, rows, classes)")
    return array


def require_rows(y: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Raise a `DataError` unless both have the same number of rows."""
    if len(y) != len(other):
        problem = ("has ", Value(len(y)), " rows and ", Argument(name), f" has {len(other)}")
        raise DataError(problem, argument="y", fix="they must agree")


def _flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:-1] if len(shape) == 2 and shape[1] == 1 else shape
