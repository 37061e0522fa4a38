"""Adaptive R2D2: a mixture of R2D2 priors, from Gaussian to very sparse, on a floor and a learnt global scale.

    w_j | g, v_j ~ N(0, g^2 v_j),      v_j = 1 + kappa V_j,      g ~ C+(0, 1), one for each group
    V_j = E_j T_j,   E_j ~ Exp(1),   T_j ~ BetaPrime(a, 1/2),      (a, kappa) uniform over rows, one for each group

V is R2D2's psi T / 2 with xi integrated out. The floor 1 lets a group be Gaussian (the row kappa = 0), which R2D2 never
is, and gives the many null weights of a posterior the Gaussian lump they form. Without the floor, v = kappa V, each row
is R2D2 itself with a learnt scale, with its pole at zero.

The prior of g is the half-Cauchy restricted to the grid log g = -10, -9.9, ..., 3: with v summed out by table
(`mixture_tables`), (row, g) has finitely many values, and their posterior is a softmax (`global_scale_grid`). So both
modes are one exact step, whatever the scales were before:

    gibbs:  (r, g) ~ p(r, g | w) ∝ p(r, g) prod_j p_r(w_j / g) / g,     then  v_j ~ p(v | w_j / g, r)
    cavi:   q(r, g) the same with w_j = sqrt(E w_j^2),   E[1/(g^2 v_j)] = sum_rg q(r, g) c_r(w_j / g) / g^2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.distributions import standard_gamma
from r2d2net.errors import is_number, require
from r2d2net.priors.base import ScaleMixturePrior, Shape, finite_square, positive_finite, require_groups
from r2d2net.priors.collapsed_factors import CollapsedFactors
from r2d2net.priors.global_scale_grid import GlobalScaleGrid, global_scale_grid
from r2d2net.priors.mixture_tables import MAX_SCORE, NODES_PER_UNIT, SCORES_PER_UNIT, TAIL, Mixture, Row, quantile_table

_CHUNK = 1 << 16  # weights in flight, so that temporaries stay in cache


class AdaptiveR2D2Scales(NamedTuple):
    """Scale variables of one layer. ``row`` counts the rows of `AdaptiveR2D2.rows` from one, as a float."""

    v: Tensor  # shape of w
    g: Tensor  # shape of groups
    row: Tensor  # shape of groups


class AdaptiveR2D2(ScaleMixturePrior[AdaptiveR2D2Scales]):
    """The prior that learns its own sparsity and scale.

    Args:
        a: Concentrations of the rows: small ones spread V over many orders of magnitude, so that few weights are large.
        kappa: How far V rises above the floor, in units of the floor; by default 1, 10, ..., 10^4, or 1 without
            a floor, where kappa is a second scale beside g.
        floor: Whether v = 1 + kappa V, with a Gaussian row kappa = 0 besides, or v = kappa V.

    ``AdaptiveR2D2(a=0.1, floor=False)`` is R2D2 with a_pi = 0.1 and a learnt scale.

    Example:
        >>> prior = AdaptiveR2D2()
        >>> len(prior.rows), prior.rows[0].kappa
        (21, 0.0)
        >>> scales = prior.init_scales((3, 4), torch.Generator().manual_seed(0))
        >>> scales.v.shape, scales.g.shape
        (torch.Size([3, 4]), torch.Size([]))
    """

    has_exact_factors = True
    draws_scales_jointly = True

    def __init__(
        self,
        a: float | Sequence[float] = (0.01, 0.03, 0.1, 0.3),
        kappa: float | Sequence[float] | None = None,
        floor: bool = True,
    ) -> None:
        require(isinstance(floor, (bool, int)), "floor", floor, "use True or False")
        if kappa is None:
            kappa = (1.0, 10.0, 100.0, 1e3, 1e4) if floor else (1.0,)
        for name, given, low, high in (("a", a, 0.005, 10.0), ("kappa", kappa, 1e-6, 1e12)):
            values = given if isinstance(given, Sequence) else (given,)
            fits = len(values) > 0 and all(is_number(value) and low <= value <= high for value in values)
            require(fits, name, given, f"use one or more numbers between {low:g} and {high:g}")
            require(len(set(values)) == len(values), name, given, "use each number once")
        self.a, self.kappa = (tuple(map(float, x)) if isinstance(x, Sequence) else (float(x),) for x in (a, kappa))
        self.floor = bool(floor)
        rows = tuple(Row(a, kappa) for kappa in self.kappa for a in self.a)
        self._mixture = Mixture((Row(self.a[0], 0.0), *rows) if self.floor else rows, self.floor)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The pairs (a, kappa) of the mixture; kappa = 0 is the Gaussian."""
        return self._mixture.rows

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> AdaptiveR2D2Scales:
        require_groups(shape, groups)
        local, shared = (torch.ones(tuple(s), dtype=dtype, device=device) for s in (shape, groups))
        grid = global_scale_grid(self._mixture, local.device)
        pair = grid.log_prior.repeat_interleave(grid.rows).exp()
        drawn = _categorical(pair.expand(shared.numel(), -1), generator).reshape(shared.shape)
        row, g = drawn % grid.rows, torch.exp(grid.log_g[drawn // grid.rows]).to(local.dtype)
        a, kappa = local.new_tensor(self.rows).T
        spread = standard_gamma(a[row] * local, generator) / standard_gamma(TAIL * local, generator)
        spread = positive_finite(spread * torch.empty_like(local).exponential_(generator=generator))
        v = positive_finite(float(self.floor) + kappa[row] * spread)
        return AdaptiveR2D2Scales(v, g, (row + 1).to(local.dtype))

    def variance(self, scales: AdaptiveR2D2Scales) -> Tensor:
        return positive_finite(scales.g.square() * scales.v)

    def log_prob(self, w: Tensor) -> Tensor:
        log_w = torch.log(w.abs().clamp(min=torch.finfo(w.dtype).tiny)).reshape(-1, 1)
        grid = global_scale_grid(self._mixture, w.device)
        parts = [torch.logsumexp(grid.log_joint(log_w[s]), 1) for s in grid.group_chunks(log_w.shape[0])]
        log_p = torch.cat([*parts, log_w.new_zeros(0)]).reshape(w.shape).to(w.dtype)
        pole = not self.floor and min(self.a) <= 0.5
        return torch.where(w == 0, math.inf, log_p) if pole else log_p

    def gibbs(
        self, w: Tensor, scales: AdaptiveR2D2Scales, generator: torch.Generator | None = None
    ) -> AdaptiveR2D2Scales:
        limits = torch.finfo(w.dtype)
        log_w = torch.log(w.detach().abs().clamp(limits.tiny, limits.max**0.375))
        grid = global_scale_grid(self._mixture, w.device)
        by_group, _ = _grouped(log_w, scales.g.shape)
        drawn = [
            _categorical(torch.softmax(grid.log_joint(by_group[s]), 1), generator)
            for s in grid.group_chunks(by_group.shape[0])
        ]
        pair = torch.cat(drawn).reshape(scales.g.shape)
        row, log_g = pair % grid.rows, grid.log_g[pair // grid.rows].to(w.dtype)
        v = self._draw_variances(log_w, log_g, row, generator)
        return AdaptiveR2D2Scales(v, torch.exp(log_g), (row + 1).to(w.dtype))

    def cavi(self, second_moment: Tensor, scales: AdaptiveR2D2Scales) -> CollapsedFactors[AdaptiveR2D2Scales]:
        square = finite_square(second_moment.detach())
        grid = global_scale_grid(self._mixture, square.device)
        by_group, back = _grouped(torch.log(square) / 2, scales.g.shape)
        parts = [self._posterior(grid, by_group[s]) for s in grid.group_chunks(by_group.shape[0])]
        log_evidence, log_g, row, log_precision = (torch.cat(x) for x in zip(*parts, strict=True))
        log_g = log_g.reshape(scales.g.shape).to(square.dtype)
        # Any g and v whose product is right will do: g at its mean, v what is then left of 1 / E[1/(g^2 v)].
        v = positive_finite(torch.exp(-back(log_precision) - 2 * log_g))
        point = AdaptiveR2D2Scales(v, torch.exp(log_g), (row + 1).reshape(scales.g.shape).to(square.dtype))
        return CollapsedFactors(
            point,
            square,
            1 / self.variance(point),
            lambda: log_evidence.to(square.dtype),
            lambda: back(self._mean_log_variance(grid, by_group)),
        )

    def _posterior(self, grid: GlobalScaleGrid, log_w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each group: log p(w), E[log g] and the likeliest row; of each weight: log E[1 / (g^2 v)]."""
        log_joint = grid.log_joint(log_w)
        q = torch.softmax(log_joint, 1)
        by_g = q.reshape(-1, grid.log_g.numel(), grid.rows)
        weighted = (by_g * torch.exp(-2 * grid.log_g).unsqueeze(1)).flatten(1)
        log_precision = grid.mean(grid.precision, weighted, log_w, log=True)
        return torch.logsumexp(log_joint, 1), by_g.sum(2) @ grid.log_g, by_g.sum(1).argmax(1), log_precision

    def _mean_log_variance(self, grid: GlobalScaleGrid, log_w: Tensor) -> Tensor:
        """E[log (g^2 v)] of each weight, (groups, p)."""
        means = []
        for s in grid.group_chunks(log_w.shape[0]):
            q = torch.softmax(grid.log_joint(log_w[s]), 1)
            log_g = q @ grid.log_g.repeat_interleave(grid.rows)
            local = grid.mean(grid.log_variance, q, log_w[s], log=False)
            means.append(local + 2 * log_g.unsqueeze(1).to(local.dtype))
        return torch.cat(means)

    def _draw_variances(self, log_w: Tensor, log_g: Tensor, row: Tensor, generator: torch.Generator | None) -> Tensor:
        """v_j from p(v | u_j, row), u = w / g: a random quantile at one of the two nearest nodes of log u.

        The nearer node is taken the more often, so that any expectation given u is interpolated linearly.
        """
        first, quantiles = quantile_table(self._mixture, log_w.device)
        _, nodes, scores = quantiles.shape
        flat = quantiles.reshape(-1)
        shape = log_w.shape
        log_g, start = (x.expand(shape).reshape(-1) for x in (log_g, (row * (nodes * scores)).to(torch.int32)))
        parts = []
        chunks = (x.split(_CHUNK) for x in (log_w.reshape(-1), log_g, start))
        for part, log_scale, begin in zip(*chunks, strict=True):
            position = (part - log_scale - first) * NODES_PER_UNIT
            inside = position.clamp(0, nodes - 1)
            # Beyond the table v is proportional to u^2; below a floor it does not depend on u.
            beyond = (position - inside) * (2 / NODES_PER_UNIT)
            beyond = beyond.clamp_(min=0) if self.floor else beyond
            node = (inside + torch.empty_like(part).uniform_(generator=generator)).to(torch.int32).clamp_(max=nodes - 1)
            score = torch.empty_like(part).normal_(generator=generator).clamp_(-MAX_SCORE, MAX_SCORE)
            score = score.add_(MAX_SCORE).mul_(SCORES_PER_UNIT)
            cell = score.to(torch.int32).clamp_(max=scores - 2)
            index = node.mul_(scores).add_(cell).add_(begin)
            lower, upper = flat.index_select(0, index), flat.index_select(0, index + 1)
            parts.append(torch.lerp(lower.to(part.dtype), upper.to(part.dtype), score - cell).add_(beyond).exp_())
        return positive_finite(torch.cat([*parts, log_g.new_zeros(0)]).reshape(shape))


def _categorical(q: Tensor, generator: torch.Generator | None) -> Tensor:
    """One index for each row of probabilities, by inversion; q need not sum to one."""
    cumulative = torch.cumsum(q, 1)
    level = torch.empty_like(q[:, :1]).uniform_(generator=generator) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, level, right=True).squeeze(1).clamp_(max=q.shape[1] - 1)


def _grouped(x: Tensor, groups: Shape) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """x with the weights of each group in one row, (groups, p), and the way back to x's shape."""
    padded = (1,) * (x.dim() - len(groups)) + tuple(groups)
    shared = [i for i, size in enumerate(padded) if size == 1]
    order = [i for i, size in enumerate(padded) if size != 1] + shared
    moved = x.permute(order)
    inverse = sorted(range(x.dim()), key=order.__getitem__)
    together = math.prod(x.shape[i] for i in shared)
    return moved.reshape(math.prod(padded), together), lambda y: y.reshape(moved.shape).permute(inverse)
