"""Pareto-smoothed importance weights (A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, JMLR 25, 2024).

    w_d  proportional to e^(r_d);      the largest m = min(S / 5, 3 sqrt(S)) of S weights are replaced by quantiles
    u + (sigma / k) ((1 - (z - 1/2) / m)^(-k) - 1),   z = 1, ..., m,   of a generalised Pareto law fitted to the excess

over the largest of the other weights, u. Its shape k says how far they can be relied on: below 0.7 the weighted mean
has a usable error, above it no number of draws helps. k and sigma are the posterior means of J. Zhang and M. Stephens
(Technometrics 51, 2009) with k drawn towards 1/2 by ten observations' worth.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST_TAIL = 5  # weights to which a tail is fitted
RELIABLE = 0.7  # largest shape at which the weighted mean is relied on


def pareto_weights(log_ratios: Tensor) -> tuple[Tensor, Tensor]:
    """Smooth importance weights, those of many problems side by side.

    Args:
        log_ratios: Logarithms of the importance ratios up to a constant, (draws, ...).

    Returns:
        Weights of the same shape with sum 1 over the draws, and the shapes k, (...); k is infinite where there are too
        few draws for a tail, and -infinite where all ratios are equal.
    """
    draws, shape = log_ratios.shape[0], log_ratios.shape[1:]
    flat = log_ratios.reshape(draws, -1).double()
    weights = torch.exp(flat - flat.max(0).values)
    size = math.ceil(min(draws / 5, 3 * math.sqrt(draws)))
    k = torch.full(flat.shape[1:], math.inf, dtype=flat.dtype, device=flat.device)
    if size >= LEAST_TAIL:
        ordered, order = weights.sort(0)
        cut = ordered[-size - 1]
        tail = ordered[-size:] - cut
        varies = tail[-1] > 1e-12 * weights.max(0).values
        fitted, scale = _fit(tail.clamp(min=1e-300))
        k = torch.where(varies, fitted, -math.inf)
        place = (torch.arange(1, size + 1, dtype=flat.dtype, device=flat.device) - 0.5).unsqueeze(-1) / size
        smooth = cut + scale * torch.expm1(-fitted * torch.log1p(-place)) / fitted
        smooth = smooth.clamp(max=1.0)  # no weight above the largest raw one
        ordered[-size:] = torch.where(varies, smooth, ordered[-size:])
        weights = torch.empty_like(weights).scatter_(0, order, ordered)
    weights = weights / weights.sum(0)
    return weights.reshape(log_ratios.shape), k.reshape(shape)


def _fit(excess: Tensor) -> tuple[Tensor, Tensor]:
    """Fit generalised Pareto laws to sorted excesses, (m, problems): shape and scale."""
    m = len(excess)
    grid = 30 + int(math.sqrt(m))
    steps = torch.arange(1, grid + 1, dtype=excess.dtype, device=excess.device).unsqueeze(-1) - 0.5
    quartile = excess[int(m / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - torch.sqrt(grid / steps)) / (3 * quartile)  # (grid, problems)
    shapes = torch.log1p(-theta.unsqueeze(1) * excess).mean(1)
    log_likelihood = m * (torch.log(-theta / shapes) - shapes - 1)
    weights = torch.softmax(log_likelihood, 0)
    chosen = (weights * theta).sum(0)
    k = torch.log1p(-chosen * excess).mean(0)
    return (m * k + 10 * 0.5) / (m + 10), -k / chosen
