"""Negative log likelihood of the targets under class probabilities or under a prediction with a log density."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from r2d2net.metrics.arrays import Numbers, labelled_probabilities, numbers


@runtime_checkable
class Predictive(Protocol):
    """A prediction that can evaluate the log density, or log probability, of each row's target."""

    def log_prob(self, y: Tensor) -> Tensor: ...


def nll(y: Numbers, prediction: Numbers | Predictive) -> float:
    """Compute the mean negative log likelihood of the rows, in nats and in the units of y.

    A probability of zero counts as the smallest positive normal number of its precision (87 nats for float32), as in
    `Classification.log_prob`, so that a single impossible row does not make the mean infinite.

    Args:
        y: Class numbers for probabilities and `Classification`; targets for `Regression` and `Counts`.
        prediction: Class probabilities (rows, classes), or a prediction of `Posterior.predict`. For a normal
            distribution given by mean and standard deviation see `gaussian_nll`.

    Returns:
        The mean negative log likelihood; smaller is better.

    Example:
        >>> round(nll([0, 1], [[0.5, 0.5], [0.75, 0.25]]), 4)
        1.0397
    """
    if isinstance(prediction, Predictive):
        target = torch.from_numpy(numbers("y", y))
        return -float(prediction.log_prob(target).double().mean())
    label, probs = labelled_probabilities(y, prediction)
    chosen = probs[np.arange(len(label)), label]
    return -float(np.log(np.maximum(chosen, _least(prediction))).mean())


def _least(value: Any) -> float:
    if isinstance(value, Tensor) and value.is_floating_point():
        return torch.finfo(value.dtype).tiny
    array = np.asarray(value)
    return float(np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).tiny)
