"""Left-out predictions of linear chains from their leave-one-out moments: a weighted mixture over the draws.

    log p(y_i | y_-i)  =  log sum_d w_di p(y_i | y_-i, theta_d),      w_di proportional to 1 / p(y_i | y_-i, theta_d)

theta_d are a draw's scale, noise and scales of the prior, given which a row is left out in closed form (`linear_loo`);
the weights are Pareto-smoothed (`pareto_smoothing`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.linear_loo import Moments
from r2d2net.inference.linear_spread import log_mean_sigmoid
from r2d2net.inference.pareto_smoothing import pareto_weights

MOST_NUMBERS = 1 << 22  # of draws times rows at a time


class LeftOut(NamedTuple):
    """Left-out predictions of rows in the order of the moments, in the network's units.

    Attributes:
        score: log p(y_i | y_-i), (n,).
        mean: Mean of y_i given the other rows, (outputs, n); for classes that of the margin.
        variance: Variance of it.
        pareto_k: Shape of the tail of each row's weights, (n,), the largest of the outputs.
    """

    score: Tensor
    mean: Tensor
    variance: Tensor
    pareto_k: Tensor


def left_out(moments: Moments, targets: Tensor | None) -> LeftOut:
    """Mix the draws' left-out predictions.

    Args:
        moments: Leave-one-out moments, (chains, draws, outputs, n).
        targets: Real targets in the order of the moments, (n, outputs); None for classes, whose moments are margins.

    Returns:
        The left-out predictions.
    """
    mean, variance = (values.flatten(0, 1).double().cpu() for values in moments)  # (draws, outputs, n)
    draws, _, n = mean.shape
    parts = []
    for rows in torch.arange(n).split(max(1, MOST_NUMBERS // draws)):
        mu, var = mean[..., rows], variance[..., rows]
        if targets is None:
            log_p = log_mean_sigmoid(mu, var)
        else:
            log_p = -(targets[rows].T - mu).square() / var / 2 - (2 * math.pi * var).log() / 2
        weights, k = pareto_weights(-log_p)
        center = (weights * mu).sum(0)
        spread = (weights * (var + (mu - center).square())).sum(0)
        parts.append((torch.logsumexp(weights.log() + log_p, 0).sum(0), center, spread, k.max(0).values))
    return LeftOut(*(torch.cat(values, -1) for values in zip(*parts, strict=True)))
