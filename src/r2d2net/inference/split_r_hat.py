"""Split R-hat (Gelman et al., 2013): do chains, and the halves of each, agree?

    R-hat^2 = (h - 1) / h + B / W,      W the mean variance within half-chains of h draws, B the variance of their means

1 in the limit. `r2d2net.diagnostics` has the rank-normalised form and effective sample sizes; this one is cheap enough
to be looked at while chains run.
"""

from __future__ import annotations

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
