"""Are rows left out predicted better than by a constant, which knows no input?

    numbers   log N(y_i; m_-i, s^2_-i (1 + 1 / (n - 1))),      m_-i, s^2_-i: mean and variance of the other rows
    classes   log (n_k - 1 + 1/2) / (n - 1 + K / 2),           n_k the rows of the class k = y_i, of K classes

A posterior that only remembers its training rows, as of a chain in a space of more directions than there are rows, is
below this, however well it fits.

A single row can be far below: the 3,000 nats of one of 80 rows decide nothing by the standard error, which is as large
as the mean. But if y_i has the law p_i of the model, then E[q_i / p_i] = 1 for the constant's density q_i, and so by
Markov's inequality

    P(log p_i < log q_i - t) <= exp(-t),      P(any of n rows) <= n exp(-t) = exp(-7)   at t = log n + 7.

Rows that are further below are counted: one is in a thousand fits chance, of whatever law.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST_ROWS = 20
NATS = 7.0  # of t above log n
BESIDE_CONSTANT = ("elpd_gain", "elpd_gain_error", "elpd_least_gain", "elpd_rows", "elpd_rows_below")


def constant_scores(y: Tensor, classes: int = 0) -> Tensor | None:
    """Compute the log density of each row left out under the best constant of the others.

    Args:
        y: Targets: numbers (rows, outputs), or classes.
        classes: Number of classes, 0 for numbers.

    Returns:
        The logarithms, summed over outputs, (rows,); None for fewer than 20 rows or an output that does not vary.

    Example:
        >>> scores = constant_scores(torch.randn(1000, 1, generator=torch.Generator().manual_seed(0)))
        >>> bool((scores.mean() + 0.5 * math.log(2 * math.pi) + 0.5).abs() < 0.1)
        True
    """
    n = len(y)
    if n < LEAST_ROWS:
        return None
    if classes:
        labels = y.reshape(-1).long()
        others = torch.bincount(labels, minlength=classes).double()[labels] - 1
        return torch.log((others + 0.5) / (n - 1 + classes / 2))
    values = y.double().reshape(n, -1)
    apart = (values - values.mean(0)) * n / (n - 1)  # from the mean of the others
    squares = (values - values.mean(0)).square().sum(0)
    variance = (squares - apart.square() * (n - 1) / n) / (n - 2) * n / (n - 1)
    if not bool((variance > 0).all()):
        return None
    return -(apart.square() / variance + torch.log(2 * math.pi * variance)).sum(1) / 2


def gain_over_constant(scores: Tensor, y: Tensor, classes: int = 0) -> dict[str, float]:
    """Compare log densities of rows left out with those of the best constant.

    Args:
        scores: Log density of each row, (rows,), in the units of ``y``.
        y: Targets: numbers (rows, outputs), or classes.
        classes: Number of classes, 0 for numbers.

    Returns:
        For JSON: "elpd_gain", the mean difference, "elpd_gain_error", its standard error, "elpd_least_gain", the
        smallest one, "elpd_rows", the number of rows, and "elpd_rows_below", how many of them are far below the
        constant; nothing where there is no constant to compare with (see `constant_scores`).
    """
    constant = constant_scores(y, classes)
    if constant is None:
        return {}
    gain = scores.double().cpu() - constant.cpu()
    n = len(gain)
    return {
        "elpd_gain": float(gain.mean()),
        "elpd_gain_error": float(gain.std()) / math.sqrt(n),
        "elpd_least_gain": float(gain.min()),
        "elpd_rows": n,
        "elpd_rows_below": int((gain < -(math.log(n) + NATS)).sum()),
    }
