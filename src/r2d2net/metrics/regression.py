"""Metrics of predicted numbers: squared errors, Gaussian log density, intervals.

All take the targets first. Where targets have several outputs, errors are averaged over all entries, while a log
density is that of a whole row.
"""

from __future__ import annotations

import math

import numpy as np

from r2d2net.errors import Argument, DataError, Value
from r2d2net.metrics.arrays import Array, Numbers, like, numbers


def mse(y: Numbers, mean: Numbers) -> float:
    """Compute the mean squared error.

    Args:
        y: Targets.
        mean: Predicted means, in the shape of y.

    Returns:
        The mean over all entries.

    Example:
        >>> mse([1.0, 2.0], [1.0, 4.0])
        2.0
    """
    target = numbers("y", y)
    return float(np.square(like("mean", mean, target) - target).mean())


def rmse(y: Numbers, mean: Numbers) -> float:
    """Compute the root mean squared error.

    Args:
        y: Targets.
        mean: Predicted means, in the shape of y.

    Returns:
        The square root of `mse`, in the units of y.
    """
    return math.sqrt(mse(y, mean))


def gaussian_nll(y: Numbers, mean: Numbers, std: Numbers) -> float:
    """Compute the mean negative log density of the rows under N(mean, std^2), in nats.

    Args:
        y: Targets.
        mean: Predicted means, in the shape of y.
        std: Predicted standard deviations, > 0, in the shape of y.

    Returns:
        The mean over rows of the negative log density, summed over the outputs of a row.

    Example:
        >>> round(gaussian_nll([0.0], [0.0], [1.0]), 4)
        0.9189
    """
    target = numbers("y", y)
    center, scale = like("mean", mean, target), deviations(std, target)
    terms = 0.5 * np.square((target - center) / scale) + np.log(scale) + 0.5 * math.log(2 * math.pi)
    return float(terms.reshape(len(terms), -1).sum(-1).mean())


def coverage(y: Numbers, low: Numbers, high: Numbers) -> float:
    """Compute the share of targets that lie in their interval, ends included.

    Args:
        y: Targets.
        low: Lower ends, in the shape of y.
        high: Upper ends, in the shape of y.

    Returns:
        The share, in [0, 1].

    Example:
        >>> coverage([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 5.0], [2.0, 1.0, 9.0, 6.0])
        0.5
    """
    target = numbers("y", y)
    bottom, top = _interval(like("low", low, target), like("high", high, target))
    return float(((bottom <= target) & (target <= top)).mean())


def interval_width(low: Numbers, high: Numbers) -> float:
    """Compute the mean width of intervals.

    Args:
        low: Lower ends.
        high: Upper ends, in the shape of ``low``.

    Returns:
        The mean of high - low.

    Example:
        >>> interval_width([0.0, 1.0], [1.0, 4.0])
        2.0
    """
    bottom = numbers("low", low)
    top = numbers("high", high)
    if bottom.shape != top.shape:
        problem = ("has shape ", Value(bottom.shape), " and ", Argument("high"), f" {top.shape}")
        raise DataError(problem, argument="low", fix="they must agree")
    bottom, top = _interval(bottom, top)
    return float((top - bottom).mean())


def deviations(std: Numbers, target: Array) -> Array:
    """Convert positive standard deviations to an array in the shape of ``target``."""
    scale = like("std", std, target)
    if scale.min() <= 0:
        problem = ("holds ", Value(float(scale.min()), "g"))
        raise DataError(problem, argument="std", fix="give positive standard deviations")
    return scale


def _interval(low: Array, high: Array) -> tuple[Array, Array]:
    if (low > high).any():
        problem = ("exceeds ", Argument("high"), " at entry ", Value(int((low > high).argmax())))
        raise DataError(problem, argument="low", fix="exchange them")
    return low, high
