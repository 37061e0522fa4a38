"""Split R-hat and effective draws (Gelman et al., 2013): do half-chains agree, and what are they worth together?

    R-hat^2 = (h - 1) / h + B / W,      W the mean variance within half-chains of h draws, B the variance of their means
    S = n / (1 + 2 sum_t rho_t),        rho_t = 1 - (W - mean autocovariance at lag t) / (W (h - 1) / h + B)

R-hat is 1 in the limit. The sum over lags ends where the sum of two neighbours falls below zero (Geyer, 1992).
`r2d2net.diagnostics` has the rank-normalised forms; these are cheap, and need no other library.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def split_r_hat(draws: Tensor) -> Tensor:
    """Compute split R-hat.

    Args:
        draws: Draws of shape (chains, draws, ...), at least 4 of each chain.

    Returns:
        R-hat of each quantity; 1 for one that does not vary at all.

    Example:
        >>> chains = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
        >>> bool(split_r_hat(chains) < 1.01), bool(split_r_hat(chains + torch.arange(4.0)[:, None]) > 1.4)
        (True, True)
    """
    half = draws.shape[1] // 2
    halves = torch.cat([draws[:, :half], draws[:, -half:]])
    within, between = halves.var(1).mean(0), halves.mean(1).var(0)
    ratio = (half - 1) / half + between / within.clamp(min=torch.finfo(draws.dtype).tiny)
    return torch.where((within > 0) | (between > 0), ratio, 1.0).sqrt()


def effective_draws(draws: Tensor) -> Tensor:
    """Compute the number of independent draws whose mean would be as accurate.

    Args:
        draws: Draws of shape (chains, draws, ...), at least 4 of each chain.

    Returns:
        The number for each quantity; that of all draws for one that does not vary at all.

    Example:
        >>> chains = torch.randn(4, 500, generator=torch.Generator().manual_seed(0))
        >>> bool(effective_draws(chains) > 1500), bool(effective_draws(chains.cumsum(1)) < 50)
        (True, True)
    """
    half = draws.shape[1] // 2
    halves = torch.cat([draws[:, :half], draws[:, -half:]])
    centred = halves - halves.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * half, dim=1)
    covariance = torch.fft.irfft(spectrum.abs().square(), n=2 * half, dim=1)[:, :half].mean(0) / (half - 1)
    total = covariance[0] * (half - 1) / half + halves.mean(1).var(0)
    correlation = 1 - (covariance[0] - covariance) / total.clamp(min=torch.finfo(draws.dtype).tiny)
    pairs = correlation[: 2 * (half // 2)].unflatten(0, (-1, 2)).sum(1)
    pairs[0] = pairs[0] + 1 - correlation[0]  # the correlation with itself is 1
    kept = pairs.clamp(min=0).cummin(0).values * (pairs > 0).cumprod(0)
    number = len(halves) * half
    worth = number / (2 * kept.sum(0) - 1).clamp(min=1 / math.log10(max(number, 10)))
    return torch.where(total > 0, worth, float(number))
