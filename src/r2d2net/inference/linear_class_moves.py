"""Moves of linear classes that leave the posterior invariant without Polya-Gamma variables.

    f_ik = b_k + g_k x_i' u_k,      u_k = w_k / g_k

Where rows are few, w_k and g_k hold each other fast: given w_k the scale g_k is known to a factor 1 +- 1 / sqrt(2 p).
With u_k held in place of w_k the prior of u_k does not depend on g_k, and the density of log g_k is

    log p(log g_k | s_k) + sum_i log P(y_i | f_i)                       (no Jacobian: it is written in u_k and log g_k)

`rescale_each` draws log c_k in g_k -> c_k g_k, w_k -> c_k w_k for one class after the other, `rescale_all` a common c
for all. The values compared are h (m - j), m = 0, ..., 16, with the current one at a place j drawn uniformly, and a
spacing h that is log-uniform on (0.02, 0.5): from each of these points the same set is as likely, so choosing one of
them by its density is reversible and exact.

The likelihood does not change if all classes take the same t_j more: `shift_all` draws

    t_j ~ N(-sum_k a_kj w_kj / sum_k a_kj,  1 / sum_k a_kj),      a_kj = 1 / (g_k^2 v_kj)

and the same for the intercepts, the conditional law along the orbit of these translations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

POINTS = 17
SPACING = (0.02, 0.5)

LogPrior = Callable[[Tensor], Tensor]  # log density of log tau


def log_others(outputs: Tensor, k: int) -> Tensor:
    """Compute log sum_{l != k} e^(f_l).

    Args:
        outputs: f, (chains, logits, n).
        k: The class left out.

    Returns:
        The logarithm, (chains, n); 0 where there is one logit.
    """
    if outputs.shape[1] == 1:
        return torch.zeros_like(outputs[:, 0])
    return torch.cat([outputs[:, :k], outputs[:, k + 1 :]], 1).logsumexp(1)


def rescale_each(
    hits: Tensor, fitted: Tensor, intercept: Tensor, log_tau: Tensor, log_prior: LogPrior, generator: torch.Generator
) -> Tensor:
    """Draw the factor of each class in turn.

    Args:
        hits: Whether a row is of a class, (1 or chains, logits, n).
        fitted: x_i' w_k, (chains, logits, n).
        intercept: b, (chains, logits).
        log_tau: log tau, (chains, logits).
        log_prior: Log density of log tau.
        generator: Source of randomness.

    Returns:
        log c of each class, (chains, logits).
    """
    log_c = torch.zeros_like(log_tau)
    outputs = fitted + intercept.unsqueeze(-1)
    for k in range(fitted.shape[1]):
        others = log_others(outputs, k).unsqueeze(1)
        points = _points(log_tau[:, k], generator)
        values = points.exp().unsqueeze(-1) * fitted[:, k].unsqueeze(1) + intercept[:, k, None, None]
        log_p = (hits[:, k].unsqueeze(1) * values - torch.logaddexp(values, others)).sum(-1)
        log_c[:, k] = _choose(points, log_p + log_prior(log_tau[:, k].unsqueeze(-1) + points), generator)
        outputs[:, k] = log_c[:, k].exp().unsqueeze(-1) * fitted[:, k] + intercept[:, k].unsqueeze(-1)
    return log_c


def rescale_all(
    hits: Tensor, fitted: Tensor, intercept: Tensor, log_tau: Tensor, log_prior: LogPrior, generator: torch.Generator
) -> Tensor:
    """Draw one factor for all classes; the arguments are those of `rescale_each`.

    Returns:
        log c, (chains, 1); zeros where there is one logit.
    """
    if fitted.shape[1] == 1:
        return torch.zeros_like(log_tau)
    points = _points(log_tau[:, 0], generator)
    log_p = log_prior(log_tau.unsqueeze(1) + points.unsqueeze(-1)).sum(-1)
    for m in range(POINTS):  # all at once would take 17 times the memory
        values = points[:, m, None, None].exp() * fitted + intercept.unsqueeze(-1)
        log_p[:, m] += ((hits * values).sum(1) - values.logsumexp(1)).sum(-1)
    return _choose(points, log_p, generator).unsqueeze(-1)


def shift_all(
    weights: Tensor, log_variance: Tensor, intercept: Tensor, intercept_scale: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw what is common to all classes.

    Args:
        weights: w, (chains, logits, p).
        log_variance: log(g_k^2 v_kj), (chains, logits, p).
        intercept: b, (chains, logits).
        intercept_scale: Standard deviation of their prior; 0 without intercepts.
        generator: Source of randomness.

    Returns:
        The new weights and intercepts.
    """
    share = torch.softmax(-log_variance, 1)
    deviation = torch.exp(-torch.logsumexp(-log_variance, 1, keepdim=True) / 2)
    shift = deviation * torch.empty_like(deviation).normal_(generator=generator)
    center, level = intercept.mean(1, keepdim=True), intercept_scale / math.sqrt(intercept.shape[1])
    moved = intercept - center + level * torch.empty_like(center).normal_(generator=generator)
    return weights + shift - (share * weights).sum(1, keepdim=True), moved


def _points(log_tau: Tensor, generator: torch.Generator) -> Tensor:
    """Values of log c that are compared, (chains, POINTS), 0 among them."""
    low, high = (math.log(h) for h in SPACING)
    spacing = torch.empty_like(log_tau).uniform_(low, high, generator=generator).exp()
    place = torch.randint(POINTS, log_tau.shape, generator=generator, device=log_tau.device)
    steps = torch.arange(POINTS, device=log_tau.device) - place.unsqueeze(-1)
    return spacing.unsqueeze(-1) * steps


def _choose(points: Tensor, log_p: Tensor, generator: torch.Generator) -> Tensor:
    index = torch.multinomial(torch.softmax(log_p, -1), 1, generator=generator)
    return points.gather(-1, index).squeeze(-1)
