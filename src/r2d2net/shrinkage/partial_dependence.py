"""How predictions change with one input, on average over the other inputs of given rows.

For a draw w of the posterior, rows x_1 ... x_n and an input i, the partial dependence at the value v is

    p_w(v) = 1/n sum_k f_w(x_k with input i set to v)        (Friedman 2001)

and it is summarised over draws: its mean, and a band between quantiles, which is what the posterior does not know about
the effect. f is the prediction in the user's units: the mean of a number, or the probability of each class. Where the
effect of an input is additive, the curve is that effect plus a constant. Where inputs are correlated, rows are made
that do not occur, and the curve shows what the network says of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require, require_whole
from r2d2net.network_inputs import as_tensors
from r2d2net.posterior import Posterior

AT_ONCE = 20_000  # rows with a value set that are predicted at a time


class PartialDependence(NamedTuple):
    """Average prediction at each value of an input.

    Attributes:
        mean: Posterior mean, (values,), or (values, outputs) for several outputs or classes.
        low, high: Ends of the central interval over posterior draws, of the same shape.
    """

    mean: Tensor
    low: Tensor
    high: Tensor


def partial_dependence(
    posterior: Posterior[Any],
    x: Any,
    columns: Sequence[int],
    values: Any,
    *,
    draws: int = 100,
    level: float = 0.9,
    seed: int = 0,
) -> PartialDependence:
    """Compute the average prediction of rows as an input takes given values.

    Args:
        posterior: The fitted network.
        x: Rows over which to average, such as training inputs, (rows, columns), in the user's units.
        columns: The columns of the input: one, or those of a category.
        values: Values that they take: (values,) for one column, else (values, columns of the input).
        draws: Number of posterior draws.
        level: Probability of the band.
        seed: Seed of the draws.

    Returns:
        Mean and band of the average prediction at each value.

    Raises:
        DataError: If ``x`` or ``values`` are no tables, or ``values`` do not fit the columns.
        ParameterError: If another argument lies outside its range.
    """
    require_whole("draws", draws)
    require(0 < level < 1, "level", level, "use a number between 0 and 1, such as 0.9")
    table = as_tensors(x)
    if isinstance(table, tuple) or table.dim() != 2 or len(table) < 1:
        raise DataError("is no table of rows", argument="x", fix="give one table (rows, columns)")
    known = len(columns) > 0 and all(isinstance(i, int) and 0 <= i < table.shape[1] for i in columns)
    require(known, "columns", columns, f"use numbers of columns from 0 to {table.shape[1] - 1}")
    grid = torch.as_tensor(values, dtype=table.dtype)
    grid = grid[:, None] if grid.dim() == 1 else grid
    if grid.dim() != 2 or grid.shape[1] != len(columns) or len(grid) == 0:
        fix = f"give (values, {len(columns)})"
        raise DataError(("has shape ", Value(tuple(grid.shape))), argument="values", fix=fix)
    curves = average_predictions(
        lambda rows: posterior.predict(rows, draws, seed=seed).samples, table, list(columns), grid
    )
    tail = (1 - level) / 2
    return PartialDependence(curves.mean(0), curves.quantile(tail, dim=0), curves.quantile(1 - tail, dim=0))


def average_predictions(predict: Callable[[Tensor], Tensor], x: Tensor, columns: list[int], values: Tensor) -> Tensor:
    """Average predictions over rows in which some columns take given values.

    Args:
        predict: Returns the predictions of rows, (draws, rows) or (draws, rows, outputs).
        x: The rows, (rows, columns).
        columns: The columns that are set.
        values: What they are set to, (values, columns that are set).

    Returns:
        The averages, (draws, values) or (draws, values, outputs).
    """
    return torch.cat([block.mean(2) for block in _predictions(predict, x, columns, values)], 1)


def sums_by_group(
    predict: Callable[[Tensor], Tensor], x: Tensor, columns: list[int], values: Tensor, member: Tensor
) -> Tensor:
    """Sum predictions over groups of rows in which some columns take given values.

    Args:
        predict: Returns the predictions of rows, (draws, rows, outputs).
        x: The rows, (rows, columns).
        columns: The columns that are set.
        values: What they are set to, (values, columns that are set).
        member: 1 where a row is of a group, else 0, (rows, groups).

    Returns:
        The sums, (draws, values, groups, outputs).
    """
    blocks = _predictions(predict, x, columns, values)
    return torch.cat([torch.einsum("dvro,rg->dvgo", block, member.to(block)) for block in blocks], 1)


def _predictions(
    predict: Callable[[Tensor], Tensor], x: Tensor, columns: list[int], values: Tensor
) -> Iterator[Tensor]:
    """Predict all rows at some values at a time, (draws, values, rows, ...)."""
    for some in values.split(max(1, AT_ONCE // len(x))):
        rows = x.repeat(len(some), 1)
        rows[:, columns] = some.repeat_interleave(len(x), 0)
        yield predict(rows).unflatten(1, (len(some), len(x)))
