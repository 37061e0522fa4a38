"""Gamma variates with an explicit generator, and the expected log that torch's Gamma does not offer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Gamma


def standard_gamma(shape: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw Gamma(shape, 1) for each element of ``shape``; never zero.

    >>> standard_gamma(torch.tensor([0.1, 5.0]), torch.Generator().manual_seed(0)).shape
    torch.Size([2])
    """
    draws = torch._standard_gamma(shape, generator=generator)
    return draws.clamp_(min=torch.finfo(draws.dtype).tiny)


def gamma_mean_log(q: Gamma) -> Tensor:
    """E[log X] for X ~ Gamma(shape, rate)."""
    return torch.digamma(q.concentration) - torch.log(q.rate)
