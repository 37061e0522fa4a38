"""Gamma variates with an explicit generator, and the expected log that torch's Gamma does not offer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Gamma


def standard_gamma(shape: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw from Gamma(shape, 1) for each element of ``shape``.

    Args:
        shape: Shape parameters, > 0.
        generator: Source of randomness, on the device of ``shape``; None for torch's global generator.

    Returns:
        Draws in the shape and dtype of ``shape``, at least the smallest normal number of the dtype.

    Example:
        >>> standard_gamma(torch.tensor([0.1, 5.0]), torch.Generator().manual_seed(0)).shape
        torch.Size([2])
    """
    draws = torch._standard_gamma(shape, generator=generator)
    return draws.clamp_(min=torch.finfo(draws.dtype).tiny)


def gamma_mean_log(q: Gamma) -> Tensor:
    """Compute E[log X] = digamma(shape) - log(rate) for X ~ Gamma(shape, rate).

    Args:
        q: The gamma distribution of X.

    Returns:
        The expectation in the batch shape of ``q``.

    Example:
        >>> gamma_mean_log(Gamma(torch.tensor(2.0), torch.tensor(1.0)))
        tensor(0.4228)
    """
    return torch.digamma(q.concentration) - torch.log(q.rate)
