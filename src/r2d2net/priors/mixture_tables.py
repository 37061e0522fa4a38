"""Tables of a weight's distribution given its global scale, for the rows of the adaptive R2D2 prior.

    u | v ~ N(0, v),   v = floor + kappa V,   V = E T,   E ~ Exp(1),   T ~ BetaPrime(a, 1/2),   row = (a, kappa)

What inference needs of a row are four functions of log |u|:

    log p(u),    c(u) = E[1/v | u] = -(log p)'(u) / u,    E[log v | u],    the quantiles of log v | u

All are integrals over y = log V of a function analytic in |Im y| < pi/2, so the trapezoid rule with step 1/4 has an
error of about exp(-4 pi^2) (see `scale_quadrature`). The floor is 1, or 0 for R2D2 itself. A floored row with
kappa = 0 is the Gaussian. Where kappa V is lost beside the floor, all mass is one atom at v = 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.priors.scale_quadrature import LAPLACE, log_scale_mixture

TAIL = 0.5  # b: the shape that gives V, and with it u, the tail of the horseshoe
MAX_SCORE = 5.5  # quantiles reach this normal score: 4e-8 of a draw's law lies beyond
SCORES_PER_UNIT = 24
NODES_PER_UNIT = 50  # of log u, for both tables

_STEP = 1 / 4  # in y
_FINE_STEP = 1 / 8  # in y, for distribution functions


class Row(NamedTuple):
    """One prior of the mixture; ``kappa=0`` is the Gaussian row."""

    a: float
    kappa: float


class Mixture(NamedTuple):
    """Rows that share a floor; the key under which their tables are kept. Equal kappas stand side by side."""

    rows: tuple[Row, ...]
    floor: bool

    def log_u_range(self) -> tuple[float, float]:
        """Where p(u) is neither constant nor a power of u, to about 1e-9."""
        largest = max(1.0, *(row.kappa for row in self.rows))
        smallest = 1.0 if self.floor else min(1.0, *(row.kappa for row in self.rows))
        return (-8.0 if self.floor else -45.0) + math.log(smallest) / 2, math.log(largest) / 2 + 10.5


class MomentTables(NamedTuple):
    """Functions of log u at the given nodes, each of shape (nodes, rows), float64."""

    log_density: Tensor
    slope: Tensor  # d log p / d log u = -c u^2
    precision: Tensor  # c(u)
    log_variance: Tensor  # E[log v | u]


def moment_tables(mixture: Mixture, log_u: Tensor) -> MomentTables:
    """log p(u), its slope, E[1/v | u] and E[log v | u] of every row.

    >>> gaussian = moment_tables(Mixture((Row(0.1, 0.0),), floor=True), torch.zeros(1, dtype=torch.float64))
    >>> [float(f) for f in gaussian]
    [-1.4189385332046727, -1.0, 1.0, 0.0]
    """
    low, high = float(log_u[0]), float(log_u[-1])
    square = torch.exp(2 * log_u).unsqueeze(1)
    parts = []
    for kappa, concentrations in _by_kappa(mixture.rows):
        v, weights = _atoms(concentrations, kappa, mixture.floor, low, high)
        kernel = torch.exp(-0.5 * square / v - 0.5 * torch.log(2 * math.pi * v))
        p = kernel @ weights  # (nodes, rows of this kappa)
        log_p = torch.log(p)
        if kappa == 0:
            log_p = (-0.5 * square - 0.5 * math.log(2 * math.pi)).expand_as(p)  # p itself underflows
            p = kernel = torch.ones_like(p)
        c = kernel @ (weights / v.unsqueeze(1)) / p
        mean_log = kernel @ (weights * torch.log(v).unsqueeze(1)) / p
        parts.append((log_p, -c * square, c, mean_log))
    return MomentTables(*(torch.cat(columns, 1) for columns in zip(*parts, strict=True)))


def log_variance_quantiles(mixture: Mixture, log_u: Tensor) -> Tensor:
    """Quantiles of log v | u, (rows, nodes, scores), float32; the scores are even on [-MAX_SCORE, MAX_SCORE]."""
    count = int(2 * MAX_SCORE * SCORES_PER_UNIT) + 1
    targets = torch.special.ndtr(torch.linspace(-MAX_SCORE, MAX_SCORE, count, dtype=torch.float64))
    square = torch.exp(2 * log_u).unsqueeze(1)
    rows = []
    for row in mixture.rows:
        if row.kappa == 0:
            rows.append(torch.zeros(log_u.numel(), count))
            continue
        # Below: kappa V < 1e-7 beside the floor, or a factor exp(-u^2/2v) that leaves nothing. Above: p(y | u) ~ e^-y.
        low = (0.0 if mixture.floor else 2 * float(log_u[0]) + 7) - 16
        y = torch.arange(low, 2 * max(0.0, float(log_u[-1])) + 24, _FINE_STEP, dtype=torch.float64) - math.log(
            row.kappa
        )
        v = mixture.floor + row.kappa * torch.exp(y)
        log_mixing = _log_mixing(row.a, y)
        density = torch.exp(-0.5 * square / v - 0.5 * torch.log(v) + log_mixing)  # (nodes, y)
        below = float(torch.exp(log_mixing[0])) / row.a if mixture.floor else 0.0  # the tail e^(a y), at v = 1
        atom = below * torch.exp(-0.5 * square)
        inner = 13 * (density[:, 1:-2] + density[:, 2:-1]) - density[:, :-3] - density[:, 3:]
        mass = torch.cumsum((inner * (_FINE_STEP / 24)).clamp_(min=0), 1)
        first = _FINE_STEP / 2 * (density[:, :1] + density[:, 1:2])
        cdf = torch.cat([atom, atom + first, atom + first + mass], 1)  # at y[0], y[1], ...
        cdf /= cdf[:, -1:].clone()
        y_at = _invert(cdf, y[: cdf.shape[1]], density[:, : cdf.shape[1]], targets)
        rows.append(torch.log(mixture.floor + row.kappa * torch.exp(y_at)).float())
    return torch.stack(rows)


@lru_cache(maxsize=8)
@torch.inference_mode(False)
def quantile_table(mixture: Mixture, device: torch.device) -> tuple[float, Tensor]:
    """(the first log u, quantiles on an even grid of log u): below the grid v or v/u^2 is constant, above v/u^2."""
    low, high = mixture.log_u_range()
    low, high = (low + 3, high - 4) if mixture.floor else (low + 20, high - 4)
    log_u = low + torch.arange(math.ceil((high - low) * NODES_PER_UNIT), dtype=torch.float64) / NODES_PER_UNIT
    return low, log_variance_quantiles(mixture, log_u).to(device)


def _by_kappa(rows: Sequence[Row]) -> Iterator[tuple[float, list[float]]]:
    for kappa, group in groupby(rows, key=lambda row: row.kappa):
        yield kappa, [row.a for row in group]


def _atoms(concentrations: list[float], kappa: float, floor: bool, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Quadrature nodes v and the weight of each under every a, (nodes, rows), for log u between low and high."""
    if kappa == 0:
        return torch.ones(1, dtype=torch.float64), torch.ones(1, len(concentrations), dtype=torch.float64)
    lowest = -40.0 if floor else 2 * low - 10
    y = torch.arange(lowest, 2 * max(0.0, high) + 40, _STEP, dtype=torch.float64) - math.log(kappa)
    weights = _STEP * torch.exp(torch.stack([_log_mixing(a, y) for a in concentrations], 1))
    v = floor + kappa * torch.exp(y)
    if not floor:
        return v, weights
    below = weights[0] / torch.expm1(_STEP * v.new_tensor(concentrations))  # nodes go on as e^(a y)
    return torch.cat([v, v.new_ones(1)]), torch.cat([weights, below.unsqueeze(0)])


def _log_mixing(a: float, y: Tensor) -> Tensor:
    """Log density of y = log V: the exponential kernel is twice the Laplace one."""
    log_beta = math.lgamma(a) + math.lgamma(TAIL) - math.lgamma(a + TAIL)

    def log_beta_prime(log_t: Tensor) -> Tensor:
        return a * log_t - (a + TAIL) * softplus(log_t, threshold=60) - log_beta

    return log_scale_mixture(torch.exp(y), LAPLACE, log_beta_prime, tail_rate=TAIL) + math.log(2) + y


def _invert(cdf: Tensor, y: Tensor, density: Tensor, targets: Tensor) -> Tensor:
    """Where each row of ``cdf``, given on an even grid of y, reaches the targets; log-linear density in between."""
    upper = torch.searchsorted(cdf, targets.expand(cdf.shape[0], -1).contiguous()).clamp_(1, y.numel() - 1)
    left, right = cdf.gather(1, upper - 1), cdf.gather(1, upper)
    fraction = ((targets - left) / (right - left).clamp(min=1e-300)).clamp_(0, 1)
    tilt = torch.log(density.gather(1, upper) / density.gather(1, upper - 1).clamp(min=1e-300)).clamp_(-5, 5)
    tilt = torch.where(tilt.abs() < 1e-6, 1e-6, tilt)
    return y[upper - 1] + _FINE_STEP * torch.log1p(fraction * torch.expm1(tilt)) / tilt
