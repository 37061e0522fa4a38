"""One draw from a distribution on a grid of values, given its unnormalised log probabilities."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_from_grid(values: Tensor, log_weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw a value for each column by Gumbel's maximum: argmax_k (log p_k + G_k) has the probabilities p.

    Args:
        values: The grid, (points,).
        log_weights: Unnormalised log probabilities, (points, columns).
        generator: Source of randomness; None for torch's global generator.

    Returns:
        The draws, (columns,).
    """
    exponential = torch.empty_like(log_weights).exponential_(generator=generator)
    return values[(log_weights - exponential.log()).argmax(0)]
