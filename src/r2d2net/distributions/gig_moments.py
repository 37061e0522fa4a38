"""E X and E 1/X of giG(chi, rho, lam) for millions of elements and one scalar order.

Both moments need only D(x) = K_{|lam|-1}(x) / K_{|lam|}(x) at x = sqrt(chi rho), since the other ratio is
D + 2 |lam| / x. In float64 log D is tabulated once on an even grid of log x and interpolated by cubic Hermite
polynomials with exact slopes: relative error below 1e-12. Outside the table the exact functions take over.

In float32 the table holds D itself, on 16 cells an octave over the whole range of the dtype: the leading bits of x are
then the number of the cell and the other bits the position in it, without a logarithm. The relative error of the cubics
is at most 1.2e-7 (order 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import torch
from torch import Tensor

from r2d2net.distributions.bessel import bessel_k_ratio, bessel_k_ratio_dx
from r2d2net.distributions.gig_sampler import check_parameters
from r2d2net.errors import require

# Cells per unit of log x: the interpolation error is below (1/256)^4 / 384 times a fourth derivative of about 1.
CELLS_PER_UNIT = 256
LOWEST = 1e-40
PLACE_BITS = 19  # bits of a float32's mantissa of 23 that give the position in a cell; the other 4 number the cell


def gig_moments(chi: Tensor, rho: Tensor | float, lam: float) -> tuple[Tensor, Tensor]:
    """Compute E X and E 1/X of X ~ giG(chi, rho, lam) by an interpolated table.

    Args:
        chi: Coefficient of 1/x, finite and > 0.
        rho: Coefficient of x, finite and > 0.
        lam: Order, one finite number for all elements.

    Returns:
        (E X, E 1/X) in the broadcast shape of ``chi`` and ``rho`` and the dtype of ``chi``.

    Raises:
        ParameterError: If ``lam`` is not finite, or ``chi`` or ``rho`` not finite and > 0.

    Example:
        >>> mean, mean_inverse = gig_moments(torch.tensor([4.0], dtype=torch.float64), 1.0, 0.5)
        >>> mean, mean_inverse
        (tensor([3.], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """
    require(math.isfinite(lam), "lam", lam, "use a finite number")
    rho_t = torch.as_tensor(rho, dtype=chi.dtype, device=chi.device)
    check_parameters(chi, rho_t, torch.zeros((), dtype=chi.dtype, device=chi.device))  # order 0 admits no limit
    return moments(chi, rho_t, lam)


def moments(chi: Tensor, rho: Tensor, lam: float, table: tuple[Tensor, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Compute the moments of `gig_moments` without checking that ``chi`` and ``rho`` are positive and finite.

    ``table`` is the result of `narrow_table`, which compiled code cannot compute and must be given.
    """
    if chi.dtype == torch.float32 and not (chi.requires_grad or rho.requires_grad):
        coefficients = narrow_table(abs(lam), chi.device) if table is None else table
        return _from_ratio(chi, rho, lam, partial(_narrow_down_ratio, coefficients))
    wide = partial(bessel_down_ratio, abs(lam))
    mean, inverse = _from_ratio(chi.to(torch.float64), rho.to(torch.float64), lam, wide)
    return mean.to(chi.dtype), inverse.to(chi.dtype)


def _from_ratio(chi: Tensor, rho: Tensor, lam: float, down_ratio: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    root_chi, root_rho = torch.sqrt(chi), torch.sqrt(rho)
    x = root_chi * root_rho
    down = down_ratio(x)
    up = down + 2 * abs(lam) / x
    if lam < 0:
        up, down = down, up
    scale = root_chi / root_rho
    return scale * up, down / scale


def _narrow_down_ratio(table: tuple[Tensor, ...], x: Tensor) -> Tensor:
    """Interpolate K_{order-1}(x) / K_order(x) for float32 x by ``table``."""
    bits = x.view(torch.int32)
    cell = bits >> PLACE_BITS
    f = (bits & ((1 << PLACE_BITS) - 1)).to(torch.float32) * 2.0**-PLACE_BITS
    c0, c1, c2, c3 = (row.index_select(0, cell.view(-1)).view(x.shape) for row in table)
    return c3.mul_(f).add_(c2).mul_(f).add_(c1).mul_(f).add_(c0)


def bessel_down_ratio(order: float, x: Tensor) -> Tensor:
    """Interpolate K_{order-1}(x) / K_order(x) for float64 x and order >= 0."""
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
    """Tabulate the power coefficients of log D on each cell, of shape (4, cells)."""
    low = math.log(LOWEST)
    cells = math.ceil((math.log(_highest(order)) - low) * CELLS_PER_UNIT)
    x = torch.exp(low + torch.arange(cells + 1, dtype=torch.float64) / CELLS_PER_UNIT)
    ratio = bessel_k_ratio(-order, x)
    slope = x * bessel_k_ratio_dx(-order, x) / ratio / CELLS_PER_UNIT
    y, d0, d1 = torch.log(ratio), slope[:-1], slope[1:]
    rise = y[1:] - y[:-1]
    return torch.stack([y[:-1], d0, 3 * rise - 2 * d0 - d1, d0 + d1 - 2 * rise]).to(device)


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def narrow_table(order: float, device: torch.device) -> tuple[Tensor, ...]:
    """Tabulate the power coefficients of D as four rows; a column is a cell, numbered by a float32's leading bits."""
    bits = torch.arange((255 << (23 - PLACE_BITS)) + 1, dtype=torch.int32) << PLACE_BITS
    ends = bits.view(torch.float32).to(torch.float64).clamp(min=torch.finfo(torch.float32).tiny, max=2.0**128)
    nodes = (1 + torch.cos((2 * torch.arange(4, dtype=torch.float64) + 1) * math.pi / 8)) / 2  # Chebyshev's
    at_nodes = bessel_k_ratio(-order, ends[:-1] + nodes[:, None] * ends.diff())
    coefficients = torch.linalg.solve(torch.linalg.vander(nodes, N=4), at_nodes)
    return tuple(coefficients.to(device, torch.float32).unbind())
