"""Moves of linear classes that leave the posterior invariant without Polya-Gamma variables.

    f_ik = b_k + g x_i' u_k,      u_k = w_k / g

Where rows are few, w and g hold each other fast: given K p weights the scale g is known to a factor 1 +- (2 K p)^-1/2.
With u held in place of w the prior of u does not depend on g, and the density of log g is that of `rescale_outputs`;
where rows are many it is u that holds g fast, and `rescale_prior` moves log g at constant w:

    log p(log g | s) + sum_i log P(y_i | f_i)                    (no Jacobian: it is written in u and log g)
    log p(log g | s) + sum_kj log N(w_kj | 0, g^2 v_kj)

The first is made twice, with b held, and with b -> c b, which adds sum_k log N(c b_k | 0, s^2) + K log c: where classes
are nearly separable the logits grow without moving the boundary. For the same reason `stretch_pairs` draws the factor
of the difference of two classes at constant g: with m and d the mean and the difference of their w and b,
m +- d / 2 -> m +- c d / 2, and the density of log c is

    sum_i log P(y_i | f_i) + sum_j log N(w_kj, w_lj | 0, g^2 v) + log N(b_k, b_l | 0, s^2) + (p + 1) log c

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
SMALL = 1 << 17  # numbers of all values that are compared at once
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
    hits: Tensor,
    fitted: Tensor,
    intercept: Tensor,
    log_tau: Tensor,
    log_prior: LogPrior,
    generator: torch.Generator,
    intercept_scale: float = 0.0,
) -> Tensor:
    """Draw the factor of g and of all weights.

    Args:
        hits: Whether a row is of a class, (1 or chains, logits, n).
        fitted: x_i' w_k, (chains, logits, n).
        intercept: b, (chains, logits).
        log_tau: log tau, (chains,).
        log_prior: Log density of log tau.
        generator: Source of randomness.
        intercept_scale: Standard deviation of the intercepts' prior, if they take the factor too; 0 if they are held.

    Returns:
        log c of each chain, (chains,).
    """
    points = _points(log_tau, SPACING, generator)
    log_p = log_prior(log_tau.unsqueeze(-1) + points)
    if intercept_scale > 0:
        square = (intercept / intercept_scale).square().sum(1, keepdim=True)
        log_p = log_p + intercept.shape[1] * points - square * torch.exp(2 * points) / 2
    at_once = max(1, min(POINTS, SMALL // fitted.numel()))  # all of them take 17 times the memory
    for m in (slice(start, start + at_once) for start in range(0, POINTS, at_once)):
        factor = points[:, m, None, None].exp()
        shift = (factor if intercept_scale > 0 else 1) * intercept[:, None, :, None]
        values = factor * fitted.unsqueeze(1) + shift  # (chains, points, logits, n)
        total = softplus(values[:, :, 0]) if fitted.shape[1] == 1 else values.logsumexp(2)
        log_p[:, m] += ((hits.unsqueeze(1) * values).sum(2) - total).sum(-1)
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


def stretch_pairs(
    hits: Tensor,
    layer: tuple[Tensor, Tensor, Tensor],
    log_variance: Tensor,
    intercept_scale: float,
    generator: torch.Generator,
) -> None:
    """Draw the factor of the difference of each two classes that follow each other in a drawn order, in place.

    Args:
        hits: Whether a row is of a class, (1 or chains, logits, n).
        layer: w (chains, logits, p), b (chains, logits) and x_i' w_k (chains, logits, n), which are changed.
        log_variance: log(g^2 v_kj), (chains, logits, p).
        intercept_scale: Standard deviation of the intercepts' prior; 0 without intercepts.
        generator: Source of randomness.
    """
    weights, intercept, fitted = layer
    logits, has_intercept = weights.shape[1], intercept_scale > 0
    order = torch.randperm(logits, generator=generator, device=weights.device).tolist()
    for k, other in zip(order, order[1:] + order[:1], strict=True):
        precision = torch.exp(-log_variance[:, [k, other]])
        mean, half = (weights[:, k] + weights[:, other]) / 2, (weights[:, k] - weights[:, other]) / 2
        square = (half.square() * precision.sum(1)).sum(-1)
        cross = (mean * half * (precision[:, 0] - precision[:, 1])).sum(-1)
        level, step = (intercept[:, k] + intercept[:, other]) / 2, (intercept[:, k] - intercept[:, other]) / 2
        if has_intercept:
            square = square + 2 * (step / intercept_scale).square()
        points = _points(square, SPACING, generator)
        c = points.exp()
        log_p = (half.shape[-1] + has_intercept) * points - square.unsqueeze(-1) * c * c / 2 - cross.unsqueeze(-1) * c
        outputs = fitted + intercept.unsqueeze(-1)
        middle = ((outputs[:, k] + outputs[:, other]) / 2).unsqueeze(1)
        change = c.unsqueeze(-1) * ((outputs[:, k] - outputs[:, other]) / 2).unsqueeze(1)
        outputs[:, [k, other]] = -math.inf
        rest = outputs.logsumexp(1).unsqueeze(1)
        first, second = middle + change, middle - change
        total = torch.logaddexp(torch.logaddexp(first, second), rest)
        own = hits[:, k].unsqueeze(1) * first + hits[:, other].unsqueeze(1) * second
        log_p = log_p + (own - total).sum(-1)
        factor = _choose(points, log_p, generator).exp()
        stretched = factor.unsqueeze(-1) * half
        weights[:, k], weights[:, other] = mean + stretched, mean - stretched
        intercept[:, k], intercept[:, other] = level + factor * step, level - factor * step
        fit_mean, fit_half = (fitted[:, k] + fitted[:, other]) / 2, (fitted[:, k] - fitted[:, other]) / 2
        fit_half = factor.unsqueeze(-1) * fit_half
        fitted[:, k], fitted[:, other] = fit_mean + fit_half, fit_mean - fit_half


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
