"""How far an approximate posterior is from an oracle's, such as a long run of Hamiltonian Monte Carlo.

    parameter_error     || E w - E w_oracle ||_2, the paper's: "the L2-normalized difference between the learned
                        parameters and the oracle truth"; divided by the oracle's norm where ``relative``, since the
                        paper does not say what it divides by (its figures grow with the network)
    function_error      root mean square over reference inputs x of E f(x) - E f_oracle(x)
    function_distance   mean over x of the Wasserstein-1 distance between the draws of f(x) and of f_oracle(x)

Exchanging hidden units changes the parameters and not the function, so two exact samplers may have a large parameter
error. The last two see the function alone. The distance has the units of f and sees spread as well as centre; between
two sets of m draws of one normal distribution it is about 1.8 / sqrt(m) of its deviation, not 0.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from r2d2net.errors import DataError
from r2d2net.metrics.arrays import Array, Numbers, numbers


@runtime_checkable
class Drawn(Protocol):
    """A prediction that holds its draws first: every prediction of the library."""

    @property
    def samples(self) -> Any: ...


def parameter_error(weights: Numbers, oracle: Numbers, *, relative: bool = False) -> float:
    """L2 distance of the mean weights; both are (weights,) or (draws, weights), of which the mean is taken.

    >>> parameter_error([3.0, 0.0], [0.0, 4.0])
    5.0
    >>> parameter_error([3.0, 0.0], [0.0, 4.0], relative=True)
    1.25
    """
    first, second = _mean_weights("weights", weights), _mean_weights("oracle", oracle)
    if first.shape != second.shape:
        raise DataError(f"weights has {len(first)} parameters and oracle {len(second)}: they must be of one network")
    distance = float(np.linalg.norm(first - second))
    if not relative:
        return distance
    norm = float(np.linalg.norm(second))
    if norm == 0:
        raise DataError("oracle is zero: a relative error needs a norm to divide by; use relative=False")
    return distance / norm


def function_error(prediction: Numbers | Drawn, oracle: Numbers | Drawn) -> float:
    """Root mean square difference of the predictive means at the same inputs.

    Args:
        prediction: Draws of the function, (draws, rows) or (draws, rows, outputs), or a prediction that holds them.
        oracle: The same of the oracle; the number of draws may differ.
    """
    first, second = _functions(prediction, oracle)
    return math.sqrt(float(np.square(first.mean(0) - second.mean(0)).mean()))


def function_distance(prediction: Numbers | Drawn, oracle: Numbers | Drawn) -> float:
    """Mean Wasserstein-1 distance of the draws of the function; the arguments are those of `function_error`."""
    first, second = _functions(prediction, oracle)
    m, both = len(first), np.concatenate([first, second])
    order = both.argsort(0)
    step = np.where(order < m, 1 / m, -1 / len(second))
    # int |F - G|: the distribution functions are constant between neighbouring draws
    gap = np.diff(np.take_along_axis(both, order, 0), axis=0)
    return float((np.abs(step.cumsum(0)[:-1]) * gap).sum(0).mean())


def _mean_weights(name: str, value: Numbers) -> Array:
    array = numbers(name, value)
    if array.ndim > 2:
        raise DataError(f"{name} has shape {array.shape}: give (weights,) or (draws, weights)")
    mean: Array = array if array.ndim == 1 else array.mean(0)
    return mean


def _functions(prediction: Numbers | Drawn, oracle: Numbers | Drawn) -> tuple[Array, Array]:
    pair = []
    for name, value in (("prediction", prediction), ("oracle", oracle)):
        array = numbers(name, value.samples if isinstance(value, Drawn) else value)
        if array.ndim not in (2, 3):
            raise DataError(f"{name} has shape {array.shape}: give (draws, rows) or (draws, rows, outputs)")
        pair.append(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)
    if pair[0].shape[1:] != pair[1].shape[1:]:
        raise DataError(
            f"prediction is of {pair[0].shape[1:]} values and oracle of {pair[1].shape[1:]}: use the same inputs"
        )
    return pair[0], pair[1]
