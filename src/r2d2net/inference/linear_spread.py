"""How widely a classifier's draws should spread around their mean, chosen by leave-one-out log loss.

    P_c(y) = mean over draws of softmax(m + c (f - m)),      m = mean of f,      c in {0, 0.1, ..., 1}

c = 1 is Bayes' rule. With far more inputs than rows the posterior of a new row's logits f is about as wide as its prior
in all directions that no training row has, although real columns are so correlated that these matter little: averaging
over them gives probabilities near 1/K where a point estimate is confident and right. c is calibration, and no part of
the model. It is chosen by the log loss of training rows, each left out exactly by weights of the draws (`linear_loo`);
c stays 1 unless the gain is more than one standard error of it, and wherever there are more rows than inputs: there it
does not help (wine: log loss 0.08 at c = 1, 0.23 at the c that left-out rows prefer, whose weights are unreliable).

With psi = f_y - log sum_{l != y} e^(f_l), the margin of a row's own class, P(y) = sigmoid(psi), and left-out margins
are normal given a draw. For c < 1 they are narrowed in place of the logits; for two classes that is the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from r2d2net.inference.pareto_smoothing import pareto_weights

SPREADS = tuple(k / 10 for k in range(11))
NODES, REACH = 97, 7.0  # of the trapezoidal rule over a standard normal variable
MOST_NUMBERS = 1 << 22  # of draws times rows at a time


def choose_spread(mean: Tensor, variance: Tensor) -> float:
    """Choose c.

    Args:
        mean: Means of left-out margins, (draws, n).
        variance: Variances of them, (draws, n).

    Returns:
        The spread c, from 0 to 1.
    """
    losses = []
    for rows in torch.arange(mean.shape[1]).split(max(1, MOST_NUMBERS // len(mean))):
        mu, var = mean[:, rows].double(), variance[:, rows].double()
        weights = pareto_weights(-log_mean_sigmoid(mu, var))[0]
        center = (weights * mu).sum(0)
        scores = []
        for c in SPREADS:
            narrowed = log_mean_sigmoid_fast(center + c * (mu - center), c * c * var)
            scores.append(-torch.logsumexp(narrowed + weights.log(), 0))
        losses.append(torch.stack(scores))
    loss = torch.cat(losses, 1)
    best = int(loss.mean(1).argmin())
    gain = loss[-1] - loss[best]
    error = float(gain.std(correction=0)) / math.sqrt(loss.shape[1])
    return SPREADS[best] if float(gain.mean()) > error else 1.0


def log_mean_sigmoid(mean: Tensor, variance: Tensor) -> Tensor:
    """Compute log E sigmoid(psi) for normal psi by the trapezoidal rule.

    Args:
        mean: Means.
        variance: Variances.

    Returns:
        The logarithms; relative errors of the expectations are below 1e-6 for standard deviations up to 8.
    """
    nodes = torch.linspace(-REACH, REACH, NODES, dtype=mean.dtype, device=mean.device)
    log_weights = -nodes.square() / 2 - math.log(math.sqrt(2 * math.pi) * (NODES - 1) / (2 * REACH))
    deviation, total = variance.sqrt(), torch.full_like(mean, -math.inf)
    for node, log_weight in zip(nodes.tolist(), log_weights.tolist(), strict=True):  # all at once take much memory
        total = torch.logaddexp(total, logsigmoid(mean + node * deviation) + log_weight)
    return total


def log_mean_sigmoid_fast(mean: Tensor, variance: Tensor) -> Tensor:
    """Approximate log E sigmoid(psi) for normal psi by sigmoid(mean / sqrt(1 + pi variance / 8)) (MacKay 1992).

    Args:
        mean: Means.
        variance: Variances.

    Returns:
        The logarithms.
    """
    return logsigmoid(mean / torch.sqrt(1 + math.pi / 8 * variance))
