"""Weights of a mixture of predictive distributions, by stacking (Yao et al., 2018).

    maximise  (1/n) sum_i log sum_k w_k p_k(y_i | x_i)      over w_k >= 0, sum_k w_k = 1,

where p_k(y_i | x_i) is candidate k's density of a row that it has not seen. The problem is concave; the steps

    w_k <- w_k (1/n) sum_i p_k(i) / sum_l w_l p_l(i)

of expectation maximisation never lower the objective and stay on the simplex. Weights below `LEAST` are set to zero and
the others found anew: a poor candidate with a weight of a few percent spoils the mean more than it helps the density.
"""

from __future__ import annotations

import torch
from torch import Tensor

from r2d2net.errors import require

LEAST = 0.05
STEPS, TOLERANCE = 2000, 1e-9


def stacking_weights(log_densities: Tensor, *, least: float = LEAST, rows: Tensor | None = None) -> Tensor:
    """Find the weights of the mixture with the highest density of unseen rows.

    Args:
        log_densities: Log density of each row by each candidate, (rows, candidates); finite, or -inf.
        least: Smallest weight that is not zero.
        rows: Weights of the rows; None for none.

    Returns:
        The weights, (candidates,), float64, with sum 1.

    Raises:
        ParameterError: If there are no rows or no candidates, or a density is NaN.

    Example:
        >>> stacking_weights(torch.tensor([[0.0, -9.0], [0.0, -9.0]])).tolist()
        [1.0, 0.0]
    """
    fits = log_densities.dim() == 2 and log_densities.numel() > 0 and not bool(log_densities.isnan().any())
    require(fits, "log_densities", tuple(log_densities.shape), "give (rows, candidates), without NaN")
    density = log_densities.double()
    density = torch.exp(density - density.max(1, keepdim=True).values.clamp(min=torch.finfo(torch.float64).min))
    shares = None if rows is None else rows.to(density) / rows.sum()
    active = torch.ones(density.shape[1], dtype=torch.bool, device=density.device)
    while True:
        weights = torch.zeros_like(density[0])
        weights[active] = _maximum(density[:, active], shares)
        small = active & (weights < least)
        if not bool(small.any()) or int(active.sum()) == 1:
            return weights
        active[weights.where(active, torch.inf).argmin()] = False  # one at a time: the others may gain by it


def _maximum(density: Tensor, shares: Tensor | None) -> Tensor:
    """Return the weights of the maximum by expectation maximisation."""
    weights = torch.full_like(density[0], 1 / density.shape[1])
    for _ in range(STEPS):
        mixture = density @ weights
        ratios = density / mixture.clamp(min=torch.finfo(density.dtype).tiny).unsqueeze(1)
        renewed = weights * (ratios.mean(0) if shares is None else shares @ ratios)
        renewed = renewed / renewed.sum()
        done = bool((renewed - weights).abs().max() < TOLERANCE)
        weights = renewed
        if done:
            break
    return weights
