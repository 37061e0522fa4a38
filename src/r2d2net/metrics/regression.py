"""Measures of predicted numbers: squared errors, Gaussian log density, intervals.

All take the targets first. Where targets have several outputs, errors average over all entries, while a log density is
that of a whole row.
"""

from __future__ import annotations

import math

import numpy as np

from r2d2net.errors import DataError
from r2d2net.metrics.arrays import Array, Numbers, like, numbers


def mse(y: Numbers, mean: Numbers) -> float:
    """Mean squared error.

    >>> mse([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    target = numbers("y", y)
    return float(np.square(like("mean", mean, target) - target).mean())


def rmse(y: Numbers, mean: Numbers) -> float:
    """Root mean squared error."""
    return math.sqrt(mse(y, mean))


def gaussian_nll(y: Numbers, mean: Numbers, std: Numbers) -> float:
    """Mean negative log density of the rows under N(mean, std^2), in nats; outputs of a row are taken together."""
    target = numbers("y", y)
    center, scale = like("mean", mean, target), deviations(std, target)
    terms = 0.5 * np.square((target - center) / scale) + np.log(scale) + 0.5 * math.log(2 * math.pi)
    return float(terms.reshape(len(terms), -1).sum(-1).mean())


def coverage(y: Numbers, low: Numbers, high: Numbers) -> float:
    """Share of the targets that lie in their interval, ends included.

    >>> coverage([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 5.0], [2.0, 1.0, 9.0, 6.0])
    0.5
    """
    target = numbers("y", y)
    bottom, top = _interval(like("low", low, target), like("high", high, target))
    return float(((bottom <= target) & (target <= top)).mean())


def interval_width(low: Numbers, high: Numbers) -> float:
    """Mean width of the intervals.

    >>> interval_width([0.0, 1.0], [1.0, 4.0])
    2.0
    """
    bottom = numbers("low", low)
    top = numbers("high", high)
    if bottom.shape != top.shape:
        raise DataError(f"low has shape {bottom.shape} and high {top.shape}: they must agree")
    bottom, top = _interval(bottom, top)
    return float((top - bottom).mean())


def deviations(std: Numbers, target: Array) -> Array:
    """Positive standard deviations in the shape of the targets."""
    scale = like("std", std, target)
    if scale.min() <= 0:
        raise DataError(f"std holds {scale.min():g}: give positive standard deviations")
    return scale


def _interval(low: Array, high: Array) -> tuple[Array, Array]:
    if (low > high).any():
        raise DataError(f"low exceeds high at entry {int((low > high).argmax())}: exchange them")
    return low, high
