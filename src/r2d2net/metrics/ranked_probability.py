"""Continuous ranked probability score (Gneiting and Raftery, 2007): distance of a distribution F from the outcome y.

    CRPS(F, y) = int (F(x) - 1{x >= y})^2 dx = E|X - y| - 1/2 E|X - X'|,    X, X' ~ F independent

in the units of y, smaller is better; for a point forecast it is the absolute error. Three forms:

    normal      s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)),    z = (y - m) / s
    mixture     mean_i A(y - m_i, s_i^2) - 1/2 mean_ij A(m_i - m_j, s_i^2 + s_j^2)    of normals (Grimit et al., 2006)
                A(m, v) = 2 sqrt(v) phi(m / sqrt(v)) + m (2 Phi(m / sqrt(v)) - 1)
    draws       mean_i |x_i - y| - 1/2 sum_ij |x_i - x_j| / (m (m - 1))

The last is the fair estimator (Ferro, 2014): unbiased for the score of the distribution that was drawn from. Dividing
by m^2 instead scores the draws' empirical distribution.

Of K classes in an order it is the ranked probability score (Epstein, 1969), here from 0 to 1:

    RPS = 1 / (K - 1) sum_(k < K) (P(class <= k) - 1{y <= k})^2
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from r2d2net.errors import Argument, DataError, Value
from r2d2net.metrics.arrays import Array, Numbers, draws_like, labelled_probabilities, like, numbers
from r2d2net.metrics.regression import deviations

PAIRS = 1 << 24  # pairs of mixture components in memory at once


@runtime_checkable
class NormalMixture(Protocol):
    """A prediction of numbers: means and variances of normal distributions, draws as the first dimension."""

    @property
    def samples(self) -> Any: ...

    @property
    def noise_variance(self) -> Any: ...


def crps(y: Numbers, prediction: NormalMixture) -> float:
    """Compute the mean CRPS of a regression's prediction, exactly for its mixture of normals.

    Args:
        y: Targets.
        prediction: A `Regression` of `Posterior.predict`.

    Returns:
        The mean score, in the units of y.

    Raises:
        DataError: If ``prediction`` is not a mixture of normals.
    """
    if not isinstance(prediction, NormalMixture):
        fix = "give a regression's; for draws of y use crps_samples"
        raise DataError(("is a ", Value(type(prediction))), argument="prediction", fix=fix)
    target = numbers("y", y)
    means = draws_like("prediction", prediction.samples, target)
    variance = numbers("prediction", prediction.noise_variance.expand(prediction.samples.shape)).reshape(means.shape)
    m, total = len(means), 0.0
    chunk = max(1, PAIRS * len(target) // (m * means.size))
    for start in range(0, len(target), chunk):
        part = slice(start, start + chunk)
        mu, var = means[:, part], variance[:, part]
        spread = _mean_distance(mu[:, None] - mu[None], var[:, None] + var[None]).mean((0, 1))
        total += float((_mean_distance(target[part] - mu, var).mean(0) - 0.5 * spread).sum())
    return total / target.size


def crps_gaussian(y: Numbers, mean: Numbers, std: Numbers) -> float:
    """Compute the mean CRPS of normal distributions N(mean, std^2).

    Args:
        y: Targets.
        mean: Predicted means, in the shape of y.
        std: Predicted standard deviations, > 0, in the shape of y.

    Returns:
        The mean score, in the units of y.

    Example:
        >>> round(crps_gaussian([0.0], [0.0], [1.0]), 4)
        0.2337
    """
    target = numbers("y", y)
    center, scale = like("mean", mean, target), deviations(std, target)
    scores = _mean_distance(target - center, np.square(scale)) - scale / math.sqrt(math.pi)
    return float(scores.mean())


def crps_samples(y: Numbers, samples: Numbers, *, fair: bool = True) -> float:
    """Estimate the mean CRPS from draws of y.

    Args:
        y: Targets.
        samples: Draws of y, (draws, *shape of y), noise included; draws of its mean alone understate the spread.
        fair: Divide by m (m - 1), which needs at least two draws; False divides by m^2.

    Returns:
        The mean score, in the units of y.

    Raises:
        DataError: If ``fair`` is set and there is one draw only.

    Example:
        >>> crps_samples([0.0], [[-1.0], [1.0]], fair=False)
        0.5
    """
    target = numbers("y", y)
    error = draws_like("samples", samples, target) - target
    m = len(error)
    if fair and m < 2:
        problem = "holds 1 draw: the fair estimator needs two or more"
        raise DataError(problem, argument="samples", fix=("or use ", Argument("fair", False)))
    # sum_{i<j} |x_i - x_j| from the order: the k-th smallest of m stands above k - 1 and below m - k
    rank = (2 * np.arange(1, m + 1) - m - 1).reshape(m, *(1,) * target.ndim)
    pairs = (np.sort(error, 0) * rank).sum(0)
    return float((np.abs(error).mean(0) - pairs / (m * (m - 1) if fair else m * m)).mean())


def rps(y: Numbers, probs: Numbers) -> float:
    """Compute the mean ranked probability score of classes in an order: a near miss costs less than a far one.

    Args:
        y: Class numbers 0, 1, ..., from the lowest class, of shape (rows,).
        probs: Class probabilities, (rows, classes).

    Returns:
        The mean score, from 0 (certain and right) to 1 (certain of one end, and the other one is true).

    Example:
        >>> rps([0, 0], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        0.75
    """
    label, shares = labelled_probabilities(y, probs)
    steps = np.arange(shares.shape[1] - 1)
    reached = shares.cumsum(1)[:, :-1] - (label[:, None] <= steps)
    return float(np.square(reached).mean())


def _mean_distance(mean: Array, variance: Array) -> Array:
    """E|Z| of Z ~ N(mean, variance)."""
    scale = np.sqrt(variance)
    z = mean / scale
    density = np.exp(-0.5 * np.square(z)) / math.sqrt(2 * math.pi)
    erf: Array = torch.special.erf(torch.from_numpy(z / math.sqrt(2))).numpy()
    result: Array = 2 * scale * density + mean * erf
    return result
