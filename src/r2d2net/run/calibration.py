"""The noise variance as rows that were not trained on tell it.

The ELBO's own estimate, E_q (y - f)^2 over the training rows, is exact for linear models. Mean-field posteriors of wide
networks are broader than what the data leave open: their spread is then in that estimate and once more in the
prediction, and intervals are too wide. Small tables err the other way, and a network without a prior to speak of, a
member of an ensemble say, can fit its training rows to the last digit. Held-out rows y tell: the variance becomes m
times what it was, with

    m = argmax  sum_i log p(y_i | x_i; m variance) + log t_3(log m / SPREAD),

so that a few rows move it little where it is about right, and decide where it is far off: the tails of Student's law
with three degrees of freedom do not insist.
"""

from __future__ import annotations

import math
from dataclasses import replace

from torch import Tensor

from r2d2net.prediction import Regression

SPREAD = 0.5  # of log m before any row is seen
LARGEST = 1e12  # m, and 1 / m
STEP = 2.0  # of log m, in a first search: the sum of the two terms may have two maxima


def noise_factor(predicted: Regression, y: Tensor) -> float:
    """Return the factor m by which the noise variance of a prediction should be multiplied."""
    from scipy.optimize import minimize_scalar  # its import takes long, and predictions need none

    def loss(log_m: float) -> float:
        scaled = replace(predicted, noise_variance=predicted.noise_variance * math.exp(log_m))
        return -float(scaled.log_prob(y).double().sum()) + 2 * math.log1p((log_m / SPREAD) ** 2 / 3)

    steps = math.ceil(math.log(LARGEST) / STEP)
    near = min((STEP * i for i in range(-steps, steps + 1)), key=loss)
    return math.exp(
        minimize_scalar(loss, bounds=(near - STEP, near + STEP), method="bounded", options={"xatol": 1e-3}).x
    )
