"""The noise variance as rows that were not trained on tell it.

The ELBO's own estimate, E_q (y - f)^2 over the training rows, is exact for linear models. Mean-field posteriors of wide
networks are broader than what the data leave open: their spread is then in that estimate and once more in the
prediction, and intervals are too wide. Small tables err the other way. Held-out rows y tell: the variance becomes m
times what it was, with

    m = argmax  sum_i log p(y_i | x_i; m variance) - (log m)^2 / (2 SPREAD^2),

so that a few rows move it little and many decide.
"""

from __future__ import annotations

import math
from dataclasses import replace

from scipy.optimize import minimize_scalar
from torch import Tensor

from r2d2net.prediction import Regression

SPREAD = 0.5  # of log m before any row is seen
LARGEST = 10.0  # m, and 1 / m


def noise_factor(predicted: Regression, y: Tensor) -> float:
    """By what the noise variance of a prediction is to be multiplied."""

    def loss(log_m: float) -> float:
        scaled = replace(predicted, noise_variance=predicted.noise_variance * math.exp(log_m))
        return -float(scaled.log_prob(y).double().sum()) + 0.5 * (log_m / SPREAD) ** 2

    reach = math.log(LARGEST)
    return math.exp(minimize_scalar(loss, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-3}).x)
