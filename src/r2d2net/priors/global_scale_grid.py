"""A global scale on a grid of its logarithm, summed out exactly, together with the choice of a row of priors.

    w_j | r, g ~ p_r(w_j / g) / g,     p(r, g) = p(g) / rows,     p(log g) ∝ g / (1 + g^2):  g ~ C+(0, 1)
    log p(w, r, g) = sum_j [log p_r(w_j / g) - log g] + log p(r, g)

One step of log g is 5 steps of the tables' grid of log u. Dividing by g is then a shift: what a weight at one node of
log |w| says of all (g, r) is one contiguous stretch of a table, here called a window. Between nodes functions are
cubic Hermite polynomials, linear in their node values and slopes, so the sum over weights is a weighted sum of
windows. A few weights name their own; many are first gathered into histograms of the weights on nodes, and give the
same number. Beyond the last nodes functions go on as straight lines, which they are (power laws) to about 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from r2d2net.priors.mixture_tables import NODES_PER_UNIT, Mixture, moment_tables

HIGHEST, LOWEST, PER_UNIT = 3, -10, 10  # of log g
COUNT = (HIGHEST - LOWEST) * PER_UNIT + 1
STRIDE = NODES_PER_UNIT // PER_UNIT

_CHUNK = 1 << 16  # weights in flight, so that temporaries stay in cache
_CELLS = 1 << 18  # (group, g, row) probabilities in flight


class GlobalScaleGrid:
    """The tables of one mixture with their windows. Everything is float64; (g, row) pairs are flat, row fastest."""

    def __init__(self, mixture: Mixture, device: torch.device) -> None:
        low, high = mixture.log_u_range()
        self.rows = len(mixture.rows)
        self.first = low + LOWEST  # the first node of log |w|: even the smallest g leaves u at the end of its table
        self.blocks = math.ceil((high + HIGHEST - self.first) * PER_UNIT) + COUNT
        self.nodes = STRIDE * (self.blocks - COUNT + 1)
        log_u = self.first - HIGHEST + torch.arange(STRIDE * self.blocks, dtype=torch.float64) / NODES_PER_UNIT
        tables = moment_tables(mixture, log_u)
        self.log_g = (HIGHEST - torch.arange(COUNT, dtype=torch.float64) / PER_UNIT).to(device)  # descending
        log_prior = self.log_g - torch.log1p(torch.exp(2 * self.log_g))
        self.log_prior = log_prior - torch.logsumexp(log_prior, 0)
        self.precision = tables.precision.to(device)  # (nodes of log u, rows)
        self.log_variance = tables.log_variance.to(device)
        slope = tables.slope / NODES_PER_UNIT  # per node
        self._log_density = self._windows(tables.log_density.to(device), slope.to(device))

    def log_joint(self, log_w: Tensor) -> Tensor:
        """log p(w, r, g) for groups of weights given as log |w|, (groups, p) -> (groups, g and row)."""
        groups, p = log_w.shape
        if p == 0:
            total = log_w.new_zeros(groups, COUNT * self.rows, dtype=torch.float64)
        elif 2 * p < self.nodes:
            cell, weights = self._hermite(log_w)
            node = torch.cat([cell, cell + 1], 1)
            index = self._row(torch.cat([node, node + STRIDE * self.blocks], 1))
            total = embedding_bag(
                index, self._log_density, mode="sum", per_sample_weights=torch.cat(weights, 1).double()
            )
        else:
            histogram = log_w.new_zeros(groups, 2 * self.nodes, dtype=torch.float64)
            for part in log_w.split(max(1, _CHUNK // groups), 1):
                cell, (value, next_value, slope, next_slope) = self._hermite(part)
                for offset, weight in enumerate((value, next_value)):
                    histogram.scatter_add_(1, cell + offset, weight.double())
                for offset, weight in enumerate((slope, next_slope)):
                    histogram.scatter_add_(1, cell + (self.nodes + offset), weight.double())
            node = torch.arange(self.nodes, device=log_w.device)
            index = self._row(torch.cat([node, node + STRIDE * self.blocks])).expand(groups, -1)
            total = embedding_bag(index, self._log_density, mode="sum", per_sample_weights=histogram)
        each = self.log_prior - p * self.log_g - math.log(self.rows)
        return total + each.repeat_interleave(self.rows)

    def mean(self, table: Tensor, q: Tensor, log_w: Tensor, *, log: bool) -> Tensor:
        """Expectations over (g, r) ~ q of ``table`` at log(|w| / g), (groups, p); interpolated, in the log if asked.

        Args:
            table: A function of log u for every row, on this grid's nodes.
            q: Weights of the (g, row) pairs, (groups, pairs).
            log_w: log |w|, (groups, p).
            log: Interpolate, and return, the logarithm of the mean.
        """
        size = max(1, _CELLS // table.numel())
        value = torch.cat([self._at_nodes(table, part) for part in q.split(size)])
        value = torch.log(value) if log else value
        slope = pad((value[:, 2:] - value[:, :-2]) / 2, (1, 1))
        slope[:, 0], slope[:, -1] = value[:, 1] - value[:, 0], value[:, -1] - value[:, -2]
        value, slope = value.to(log_w.dtype), slope.to(log_w.dtype)
        chunks = log_w.split(max(1, _CHUNK // max(1, log_w.shape[0])), 1)
        return torch.cat([self._interpolate(value, slope, part) for part in chunks], 1)

    def group_chunks(self, groups: int) -> Iterator[slice]:
        """Slices of groups whose probabilities fit in cache; one that is empty if there are no groups."""
        size = max(1, _CELLS // (COUNT * self.rows))
        return (slice(start, min(groups, start + size)) for start in range(0, max(1, groups), size))

    def _at_nodes(self, table: Tensor, q: Tensor) -> Tensor:
        """Means at every node of log w, (groups, nodes): the product with q, summed where log u + log g = log w."""
        by_row = q.reshape(-1, self.rows).T  # (rows, groups x g)
        shifted = table @ by_row  # (nodes of log u, groups x g)
        width = shifted.shape[1]
        diagonal = shifted.as_strided((q.shape[0], self.nodes, COUNT), (COUNT, width, STRIDE * width + 1))
        return diagonal.sum(-1)

    def _interpolate(self, value: Tensor, slope: Tensor, log_w: Tensor) -> Tensor:
        cell, (w0, w1, s0, s1) = self._hermite(log_w)
        after = cell + 1
        inner = w0 * value.gather(1, cell) + w1 * value.gather(1, after)
        return inner + s0 * slope.gather(1, cell) + s1 * slope.gather(1, after)

    def _hermite(self, log_w: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The cell of each weight and what its two nodes' values, then slopes, contribute to it."""
        position = (log_w - self.first) * NODES_PER_UNIT
        cell = position.detach().to(torch.int64).clamp_(0, self.nodes - 2)
        inside = position - cell
        f = inside.clamp(0, 1)
        beyond = inside - f
        product = f * (1 - f)
        second = f * f * (3 - 2 * f)
        return cell, (1 - second, second, product * (1 - f) + beyond.clamp(max=0), beyond.clamp(min=0) - product * f)

    def _row(self, node: Tensor) -> Tensor:
        """Where the window of a node starts: nodes that are one step of log g apart stand side by side."""
        table, within = node // (STRIDE * self.blocks), node % (STRIDE * self.blocks)
        return (table * STRIDE + within % STRIDE) * self.blocks + within // STRIDE

    def _windows(self, *tables: Tensor) -> Tensor:
        """Overlapping views, one row a node: values at log w - log g for all (g, row); no memory of their own."""
        flat = torch.cat([t.reshape(self.blocks, STRIDE, self.rows).transpose(0, 1).reshape(-1) for t in tables])
        starts = flat.numel() // self.rows - COUNT + 1
        return flat.as_strided((starts, COUNT * self.rows), (self.rows, 1))


@lru_cache(maxsize=8)
@torch.inference_mode(False)
def global_scale_grid(mixture: Mixture, device: torch.device) -> GlobalScaleGrid:
    """Built once for each mixture and device, when first asked for."""
    return GlobalScaleGrid(mixture, device)
