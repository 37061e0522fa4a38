"""Distance of an approximate posterior from a reference ("oracle"), such as a long run of Hamiltonian Monte Carlo.

    parameter_error     || E w - E w_oracle ||_2, the paper's: "the L2-normalized difference between the learned
                        parameters and the oracle truth"; with ``relative`` divided by the oracle's norm, since the
                        paper does not say what it divides by (its figures grow with the network)
    function_error      root mean square over reference inputs x of E f(x) - E f_oracle(x)
    function_distance   mean over x of the Wasserstein-1 distance between the draws of f(x) and of f_oracle(x)

Exchanging hidden units changes the parameters and not the function, so two exact samplers may have a large parameter
error. The last two depend on the function alone. The distance has the units of f and depends on spread as well as on
location; between two sets of m draws of one normal distribution it is about 1.8 / sqrt(m) of its standard deviation,
not 0.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from r2d2net.errors import Argument, DataError, Value
from r2d2net.metrics.arrays import Array, Numbers, numbers


@runtime_checkable
class Drawn(Protocol):
    """A prediction whose ``samples`` have the draws as their first dimension, as all of the library's have."""

    @property
    def samples(self) -> Any: ...


def parameter_error(weights: Numbers, oracle: Numbers, *, relative: bool = False) -> float:
    """Compute the L2 distance between the mean weights of a posterior and of the oracle.

    Args:
        weights: Mean weights (weights,), or draws (draws, weights) that are averaged.
        oracle: The oracle's mean weights or draws.
        relative: Divide by the norm of the oracle's mean weights.

    Returns:
        The distance.

    Raises:
        DataError: If the numbers of weights differ, or ``relative`` is set and the oracle's mean weights are zero.

    Example:
        >>> parameter_error([3.0, 0.0], [0.0, 4.0])
        5.0
        >>> parameter_error([3.0, 0.0], [0.0, 4.0], relative=True)
        1.25
    """
    first, second = _mean_weights("weights", weights), _mean_weights("oracle", oracle)
    if first.shape != second.shape:
        problem = ("has ", Value(len(first)), " parameters and ", Argument("oracle"), f" {len(second)}")
        raise DataError(problem, argument="weights", fix="they must be of one network")
    distance = float(np.linalg.norm(first - second))
    if not relative:
        return distance
    norm = float(np.linalg.norm(second))
    if norm == 0:
        fix = ("use ", Argument("relative", False))
        raise DataError("is zero: a relative error needs a norm to divide by", argument="oracle", fix=fix)
    return distance / norm


def function_error(prediction: Numbers | Drawn, oracle: Numbers | Drawn) -> float:
    """Compute the root mean square difference of the predictive means at the same inputs.

    Args:
        prediction: Draws of the function, (draws, rows) or (draws, rows, outputs), or a prediction that holds them.
        oracle: The oracle's draws or prediction; the number of draws may differ.

    Returns:
        The root mean square difference, in the units of the function.

    Example:
        >>> function_error([[0.0, 2.0], [2.0, 4.0]], [[1.0, 1.0]])
        1.4142135623730951
    """
    first, second = _functions(prediction, oracle)
    return math.sqrt(float(np.square(first.mean(0) - second.mean(0)).mean()))


def function_distance(prediction: Numbers | Drawn, oracle: Numbers | Drawn) -> float:
    """Compute the Wasserstein-1 distance between the draws of the function, averaged over the inputs.

    Args:
        prediction: Draws of the function, (draws, rows) or (draws, rows, outputs), or a prediction that holds them.
        oracle: The oracle's draws or prediction; the number of draws may differ.

    Returns:
        The mean distance, in the units of the function.

    Example:
        >>> function_distance([[0.0], [2.0]], [[1.0]])
        1.0
    """
    first, second = _functions(prediction, oracle)
    m, pooled = len(first), np.concatenate([first, second])
    order = pooled.argsort(0)
    step = np.where(order < m, 1 / m, -1 / len(second))
    # int |F - G|: the distribution functions are constant between neighbouring draws
    gap = np.diff(np.take_along_axis(pooled, order, 0), axis=0)
    return float((np.abs(step.cumsum(0)[:-1]) * gap).sum(0).mean())


def _mean_weights(name: str, value: Numbers) -> Array:
    array = numbers(name, value)
    if array.ndim > 2:
        raise DataError(("has shape ", Value(array.shape)), argument=name, fix="give (weights,) or (draws, weights)")
    mean: Array = array if array.ndim == 1 else array.mean(0)
    return mean


def _functions(prediction: Numbers | Drawn, oracle: Numbers | Drawn) -> tuple[Array, Array]:
    pair = []
    for name, value in (("prediction", prediction), ("oracle", oracle)):
        array = numbers(name, value.samples if isinstance(value, Drawn) else value)
        if array.ndim not in (2, 3):
            fix = "give (draws, rows) or (draws, rows, outputs)"
            raise DataError(("has shape ", Value(array.shape)), argument=name, fix=fix)
        pair.append(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)
    if pair[0].shape[1:] != pair[1].shape[1:]:
        first, second = (array.shape[1:] for array in pair)
        problem = ("is of ", Value(first), " values and ", Argument("oracle"), f" of {second}")
        raise DataError(problem, argument="prediction", fix="use the same inputs")
    return pair[0], pair[1]
