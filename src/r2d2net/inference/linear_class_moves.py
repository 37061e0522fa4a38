"""Moves of linear classes that leave the posterior invariant without Polya-Gamma variables.

    f_ik = b_k + g x_i' u_k,      u_k = w_k / g

Where rows are few, w and g hold each other fast: given K p weights the scale g is known to a factor 1 +- (2 K p)^-1/2.
With u held in place of w the prior of u does not depend on g, and the density of log g is that of `rescale_outputs`;
where rows are many it is u that holds g fast, and `rescale_prior` moves log g at constant w:

    log p(log g | s) + sum_i log P(y_i | f_i)                    (no Jacobian: it is written in u and log g)
    log p(log g | s) + sum_kj log N(w_kj | 0, g^2 v_kj)

The values compared are log g + h (m - j), m = 0, ..., 16, with the current one at a place j drawn uniformly, and a
spacing h that is log-uniform: from each of these points the same set is as likely, so choosing one of them by its
density is reversible and exact.

The likelihood does not change if all classes take the same t_j more: `shift_all` draws

    t_j ~ N(-sum_k a_kj w_kj / sum_k a_kj,  1 / sum_k a_kj),      a_kj = 1 / (g^2 v_kj)

and the same for the intercepts, the conditional law along the orbit of these translations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

POINTS = 17
SPACING = (0.02, 0.5)
PRIOR_SPACING = (0.1, 1.0)  # times (K p)^-1/2

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


def rescale_outputs(
    hits: Tensor, fitted: Tensor, intercept: Tensor, log_tau: Tensor, log_prior: LogPrior, generator: torch.Generator
) -> Tensor:
    """Draw the factor of g and of all weights.

    Args:
        hits: Whether a row is of a class, (1 or chains, logits, n).
        fitted: x_i' w_k, (chains, logits, n).
        intercept: b, (chains, logits).
        log_tau: log tau, (chains,).
        log_prior: Log density of log tau.
        generator: Source of randomness.

    Returns:
        log c of each chain, (chains,).
    """
    points = _points(log_tau, SPACING, generator)
    log_p = log_prior(log_tau.unsqueeze(-1) + points)
    for m in range(POINTS):  # all at once would take 17 times the memory
        values = points[:, m, None, None].exp() * fitted + intercept.unsqueeze(-1)
        total = softplus(values[:, 0]) if fitted.shape[1] == 1 else values.logsumexp(1)
        log_p[:, m] += ((hits * values).sum(1) - total).sum(-1)
    return _choose(points, log_p, generator)


def rescale_prior(
    weights: Tensor, shares: Tensor, log_tau: Tensor, log_prior: LogPrior, generator: torch.Generator
) -> Tensor:
    """Draw the factor of g alone.

    Args:
        weights: w, (chains, logits, p).
        shares: q, the prior variances at tau = 1, (chains, logits, p).
        log_tau: log tau, (chains,).
        log_prior: Log density of log tau.
        generator: Source of randomness.

    Returns:
        log c of each chain, (chains,).
    """
    count = weights[0].numel()
    spacing = tuple(h / math.sqrt(count) for h in PRIOR_SPACING)
    points = _points(log_tau, spacing, generator)
    values = log_tau.unsqueeze(-1) + points
    square = (weights.square() / shares).sum((1, 2)).unsqueeze(-1)
    log_p = log_prior(values) - count * values - square * torch.exp(-2 * values) / 2
    return _choose(points, log_p, generator)


def shift_all(
    weights: Tensor, log_variance: Tensor, intercept: Tensor, intercept_scale: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw what is common to all classes.

    Args:
        weights: w, (chains, logits, p).
        log_variance: log(g^2 v_kj), (chains, logits, p).
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


def _points(log_tau: Tensor, spacings: tuple[float, ...], generator: torch.Generator) -> Tensor:
    """Values of log c that are compared, (chains, POINTS), 0 among them."""
    low, high = (math.log(h) for h in spacings)
    spacing = torch.empty_like(log_tau).uniform_(low, high, generator=generator).exp()
    place = torch.randint(POINTS, log_tau.shape, generator=generator, device=log_tau.device)
    steps = torch.arange(POINTS, device=log_tau.device) - place.unsqueeze(-1)
    return spacing.unsqueeze(-1) * steps


def _choose(points: Tensor, log_p: Tensor, generator: torch.Generator) -> Tensor:
    index = torch.multinomial(torch.softmax(log_p, -1), 1, generator=generator)
    return points.gather(-1, index).squeeze(-1)
