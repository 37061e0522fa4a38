"""p-values of inputs by the holdout randomization test (Tansey, Veitch, Zhang, Rabadan and Blei, 2022).

    H_i:  y does not depend on x_i given all other inputs
    T_i = sum over rows left out of log p(y | f(x)),       T_i* the same with x_i drawn given the other inputs
    p_i = (1 + #{T_i* >= T_i}) / (1 + M)

f is the posterior mean of the outputs of a network that has not seen the row, so under H_i all M + 1 sums have the same
law, whatever the network and its prior. With K folds each row is left out once; the networks of different folds share
training rows, which leaves the test approximate, the more so the more the networks overfit them.

f is not evaluated anew for each of the thousands of draws. Of one column of numbers its outputs are computed at a grid
of values and interpolated; of a category at its levels; of several columns of numbers as the sum of what each changes
by itself, starting at the conditional medians m of all: f(m) + sum_k (f(m with x_k) - f(m)). The observed columns are
treated alike, so that the test holds whatever the interpolation loses. Inputs that no network uses have p = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.forward_draws import forward_draws
from r2d2net.posterior import MEMORY, ROWS, Posterior
from r2d2net.shrinkage.conditional_inputs import ConditionalInputs

GRID = 17  # values of a column at which outputs are computed, quantiles of the column
FIRST, CLEAR = 200, 20  # draws after which an input is given up if so many sums are as large
CHUNK = 1 << 22  # numbers that are interpolated at a time


class LeftOut(NamedTuple):
    """A network and the rows that it has not seen.

    Attributes:
        posterior: The network's posterior.
        rows: Numbers of the rows.
        used: Whether the network uses each input enough to be asked about it, (inputs,).
    """

    posterior: Posterior[Any]
    rows: Tensor
    used: Tensor


@torch.no_grad()
def randomization_p_values(
    folds: Sequence[LeftOut],
    x: Tensor,
    y: Any,
    conditional: ConditionalInputs,
    *,
    draws: int,
    resamples: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tensor:
    """Compute the p-value of each input.

    Args:
        folds: Networks and the rows that they have not seen.
        x: The table in the user's units, (rows, columns), float64.
        y: Targets, as `fit` takes them.
        conditional: The law of each input given the others.
        draws: Number of posterior draws that a mean is of.
        resamples: Number M of draws of an input that is not given up before.
        seed: Seed of all draws.
        progress: Called after each input with the number of inputs done and the total.

    Returns:
        The p-values, (inputs,), float64.
    """
    networks = [_Network(fold, x, y, draws, seed) for fold in folds]
    count = len(conditional.inputs)
    p = torch.ones(count, dtype=torch.float64)
    asked = [i for i in range(count) if any(bool(fold.used[i]) for fold in folds)]
    for done, i in enumerate(asked):
        generator = torch.Generator().manual_seed((seed * 1_000_003 + i) & ((1 << 62) - 1))
        scores = [_scores(network, conditional, i) for network in networks if bool(network.fold.used[i])]
        levels, columns = conditional.levels(i), conditional.inputs[i]
        own = levels.codes[None] if levels is not None else conditional.x[:, columns][None]
        observed = torch.stack([score(own) for score in scores]).sum(0)
        at_once = max(1, CHUNK // (len(x) * max(1, networks[0].width) * len(columns)))
        exceeding = total = 0
        while total < resamples and not (total >= FIRST and exceeding >= CLEAR):
            step = min(at_once, resamples - total, FIRST if total < FIRST else resamples)
            draw = conditional.draw_codes if levels is not None else conditional.draw
            new = draw(i, step, generator)
            sums = torch.stack([score(new) for score in scores]).sum(0)
            # sums that differ by rounding alone count as equal
            exceeding += int((sums >= observed - 1e-9 * observed.abs()).sum())
            total += step
        p[i] = (1 + exceeding) / (1 + total)
        progress(done + 1, len(asked))
    return p


class _Network:
    """The mean outputs of one posterior and the log density of its rows."""

    def __init__(self, fold: LeftOut, x: Tensor, y: Any, draws: int, seed: int) -> None:
        self.fold, self.posterior = fold, fold.posterior
        model = self.posterior.model
        available = self.posterior.source.available
        generator = torch.Generator(model.device).manual_seed(seed)
        self.drawn = self.posterior.source.joined(draws if available is None else min(draws, available), generator)
        self.noise = {name: part.mean(0) for name, part in self.drawn.noise.items()}
        self.likelihood = model.likelihood.on_network_scale()
        target = model.likelihood.target(torch.as_tensor(y)[fold.rows].to(model.device))
        scaled = model.likelihood.network_scale(target)
        self.y = self.posterior.units.targets(scaled) if model.likelihood.standardizes else scaled
        self.y = self.y.to(model.dtype) if self.y.is_floating_point() else self.y
        self.x = x[fold.rows]
        self.width = self.outputs(self.x[:1]).shape[1]

    def outputs(self, rows: Tensor) -> Tensor:
        """Return the mean outputs at rows in the user's units, (rows, width)."""
        inputs = self.posterior.network_inputs(rows)
        found = forward_draws(self.posterior.model, self.drawn, inputs, rows=ROWS, memory=MEMORY)
        return found.flatten(2).mean(0)

    def score(self, outputs: Tensor) -> Tensor:
        """Return the sum of log densities of the rows for each set of outputs (sets, rows, width)."""
        sets, rows, width = outputs.shape
        y = self.y.repeat(sets, *[1] * (self.y.dim() - 1))
        shape = outputs.reshape(sets * rows, width).to(self.posterior.model.dtype)
        density = self.likelihood.log_prob(shape, y, self.noise)
        return density.double().reshape(sets, rows, -1).sum((1, 2)).cpu()


def _scores(network: _Network, conditional: ConditionalInputs, i: int) -> Callable[[Tensor], Tensor]:
    """Return the function from values of an input at all rows to the sum of log densities of a network's rows."""
    columns, rows = conditional.inputs[i], network.fold.rows
    levels = conditional.levels(i)
    if levels is not None:
        tables = [_with(network.x, columns, level.expand(len(rows), -1)) for level in levels.rows]
        at_levels = network.outputs(torch.cat(tables)).unflatten(0, (len(tables), len(rows)))
        place = torch.arange(len(rows), device=at_levels.device)
        return lambda codes: network.score(at_levels[codes[:, rows].to(at_levels.device), place])
    base = network.x if len(columns) == 1 else _with(network.x, columns, conditional.center(i)[rows])
    curves = [_Curve(network, base, column, conditional) for column in columns]
    start = 0.0 if len(columns) == 1 else network.outputs(base)

    def score(values: Tensor) -> Tensor:
        parts = [curve.at(values[:, rows, k]) - start for k, curve in enumerate(curves)]
        return network.score(torch.stack(parts).sum(0) + start)

    return score


class _Curve:
    """Outputs of each row as a piecewise linear function of one column."""

    def __init__(self, network: _Network, base: Tensor, column: int, conditional: ConditionalInputs) -> None:
        own = conditional.x[:, column]
        self.grid = torch.quantile(own, torch.linspace(0, 1, GRID, dtype=own.dtype)).unique()
        tables = [_with(base, [column], value.expand(len(base), 1)) for value in self.grid]
        self.values = network.outputs(torch.cat(tables)).unflatten(0, (len(tables), len(base)))  # (grid, rows, width)
        self.place = torch.arange(len(base), device=self.values.device)

    def at(self, values: Tensor) -> Tensor:
        """Return the outputs at values (sets, rows), which lie within the grid; (sets, rows, width)."""
        right = torch.searchsorted(self.grid, values.contiguous()).clamp(1, len(self.grid) - 1)
        low, high = self.grid[right - 1], self.grid[right]
        share = ((values - low) / (high - low)).to(self.values)[..., None]
        right = right.to(self.values.device)
        return torch.lerp(self.values[right - 1, self.place], self.values[right, self.place], share)


def _with(table: Tensor, columns: list[int], values: Tensor) -> Tensor:
    """Return the table with other values in some columns."""
    changed = table.clone()
    changed[:, columns] = values
    return changed
