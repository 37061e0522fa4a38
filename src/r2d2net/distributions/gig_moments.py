"""E X and E 1/X of giG(chi, rho, lam) for millions of elements and one scalar order.

Both moments need only D(x) = K_{|lam|-1}(x) / K_{|lam|}(x) at x = sqrt(chi rho), since the other ratio is
D + 2 |lam| / x. log D is tabulated once on an even grid of log x and interpolated by cubic Hermite
polynomials with exact slopes: relative error below 1e-12. Outside the table the exact functions take over.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from r2d2net.distributions.bessel import bessel_k_ratio, bessel_k_ratio_dx
from r2d2net.distributions.gig_sampler import check_parameters
from r2d2net.errors import require

CELLS_PER_UNIT = 256  # of log x: the interpolation error is below (1/256)^4 / 384 times a fourth derivative of about 1
LOWEST = 1e-40


def gig_moments(chi: Tensor, rho: Tensor | float, lam: float) -> tuple[Tensor, Tensor]:
    """(E X, E 1/X) of giG(chi, rho, lam) by table; chi > 0 and rho > 0.

    >>> mean, mean_inverse = gig_moments(torch.tensor([4.0], dtype=torch.float64), 1.0, 0.5)
    >>> mean, mean_inverse
    (tensor([3.], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """
    require(math.isfinite(lam), "lam", lam, "use a finite number")
    rho_t = torch.as_tensor(rho, dtype=chi.dtype, device=chi.device)
    check_parameters(chi, rho_t, torch.zeros((), dtype=chi.dtype, device=chi.device))  # order 0 admits no limit
    chi64, rho64 = chi.to(torch.float64), rho_t.to(torch.float64)
    root_chi, root_rho = torch.sqrt(chi64), torch.sqrt(rho64)
    x = root_chi * root_rho
    down = bessel_down_ratio(abs(lam), x)
    up = down + 2 * abs(lam) / x
    if lam < 0:
        up, down = down, up
    scale = root_chi / root_rho
    return (scale * up).to(chi.dtype), (down / scale).to(chi.dtype)


def bessel_down_ratio(order: float, x: Tensor) -> Tensor:
    """K_{order-1}(x) / K_order(x) by table, float64, order >= 0."""
    table = _table(order, x.device)
    low, highest = math.log(LOWEST), math.log(_highest(order))
    outside = (x < LOWEST) | (x > _highest(order))
    position = (torch.log(x).clamp(low, highest) - low) * CELLS_PER_UNIT
    cell = position.detach().to(torch.int64).clamp_(max=table.shape[1] - 1)
    f = position - cell
    c0, c1, c2, c3 = (row[cell] for row in table)
    value = torch.exp(c0 + f * (c1 + f * (c2 + f * c3)))
    if bool(outside.any()):
        exact = bessel_k_ratio(-order, x[outside])
        value = value.masked_scatter(outside, exact)
    return value


def _highest(order: float) -> float:
    return 1e6 * (1 + order)


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def _table(order: float, device: torch.device) -> Tensor:
    """Power coefficients of log D on each cell, (4, cells)."""
    low = math.log(LOWEST)
    cells = math.ceil((math.log(_highest(order)) - low) * CELLS_PER_UNIT)
    x = torch.exp(low + torch.arange(cells + 1, dtype=torch.float64) / CELLS_PER_UNIT)
    ratio = bessel_k_ratio(-order, x)
    y = torch.log(ratio)
    slope = x * bessel_k_ratio_dx(-order, x) / ratio / CELLS_PER_UNIT
    rise = y[1:] - y[:-1]
    d0, d1 = slope[:-1], slope[1:]
    return torch.stack([y[:-1], d0, 3 * rise - 2 * d0 - d1, d0 + d1 - 2 * rise]).to(device)
