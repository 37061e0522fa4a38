"""Which inputs moved a prediction away from the average: Shapley values by permutations, for each posterior draw.

Let f_w be the prediction at a draw w, x the row, b_1 ... b_K background rows, and pi an order of the inputs. Inputs are
switched one after the other from b_k to x, and each is given the change it makes, on average over orders:

    c_i(w) = 1/K sum_k mean over pi of  f_w(b_k with x up to i in the order) - f_w(b_k with x before i)

Orders are drawn, two for each background row, and each is used forwards and backwards, which makes c_i exact where
inputs interact in pairs at most. For every draw w the contributions add up whatever the orders, as the sum over i
telescopes:

    sum_i c_i(w) = f_w(x) - 1/K sum_k f_w(b_k)        prediction minus average

Over draws, c_i has a mean and a band. What the drawn orders leave to chance is measured by how far the two orders of a
background row differ, d_k: the standard error of c_i is sqrt(sum_k d_k^2 / 4) / K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import require

AT_ONCE = 20_000  # rows predicted at a time
PAIRS = 2  # orders drawn for each background row, each used forwards and backwards


class Contributions(NamedTuple):
    """Contributions of the inputs to the predictions of rows.

    Attributes:
        values: (draws, rows, inputs).
        prediction: f_w(x), (draws, rows).
        average: Mean prediction of the background rows, (draws,).
        sampling_error: Standard error of the mean contributions by the choice of orders, (rows, inputs).
    """

    values: Tensor
    prediction: Tensor
    average: Tensor
    sampling_error: Tensor


def contributions(
    predict: Callable[[Tensor], Tensor], x: Tensor, background: Tensor, groups: Sequence[Sequence[int]], seed: int = 0
) -> Contributions:
    """Compute what each input contributes to the predictions of rows.

    Args:
        predict: Returns predictions of rows as (draws, rows), with the same draws at every call.
        x: Rows to explain, (rows, columns).
        background: Rows that stand for the average, (background rows, columns).
        groups: For each input the columns that belong to it; together all columns, each once.
        seed: Seed of the orders of the inputs.

    Returns:
        The contributions, which add up to the prediction minus the average for every draw and row.

    Raises:
        ParameterError: If ``groups`` do not hold every column once.
    """
    columns = sorted(i for group in groups for i in group)
    require(columns == list(range(x.shape[1])), "groups", groups, "put each column into one input")
    rng = np.random.default_rng(seed)
    member = torch.zeros(len(groups), x.shape[1], dtype=torch.bool)
    for place, group in enumerate(groups):
        member[place, list(group)] = True
    drawn = [np.stack([rng.permutation(len(groups)) for _ in background]) for _ in range(PAIRS)]
    orders = [order for forwards in drawn for order in (forwards, forwards[:, ::-1].copy())]
    paths = [_switched(member, order) for order in orders]  # each (background rows, steps, columns)
    there = _in_blocks(predict, x)
    start = _in_blocks(predict, background)  # (draws, background rows)
    values, errors = [], []
    for row, end in zip(x, there.T, strict=True):
        changes = [_changes(predict, row, end, background, start, *path) for path in zip(orders, paths, strict=True)]
        pairs = torch.stack([(changes[i] + changes[i + 1]) / 2 for i in range(0, 2 * PAIRS, 2)])
        values.append(pairs.mean(0).mean(1))
        apart = (pairs[0] - pairs[1]).mean(0)  # (background rows, inputs)
        errors.append((apart.square() / 4).sum(0).sqrt() / len(background))
    return Contributions(torch.stack(values, 1), there, start.mean(1), torch.stack(errors))


def _changes(
    predict: Callable[[Tensor], Tensor],
    row: Tensor,
    end: Tensor,
    background: Tensor,
    start: Tensor,
    order: np.ndarray,
    switched: Tensor,
) -> Tensor:
    """Return the change that each input makes on a path, (draws, background rows, inputs)."""
    rows = torch.where(switched, row, background[:, None, :])  # between the ends of the path
    inner = _in_blocks(predict, rows.flatten(0, 1)).unflatten(1, switched.shape[:2])
    ends = end[:, None, None].expand(-1, len(background), 1)
    steps = torch.cat([start[:, :, None], inner, ends], 2).diff(dim=2)
    place = torch.from_numpy(np.argsort(order, axis=1))  # of each input in the order
    return steps.gather(2, place.expand(len(steps), -1, -1))


def _switched(member: Tensor, orders: np.ndarray) -> Tensor:
    """Which columns have been switched to the row's after each step but the last, (orders, steps, columns)."""
    steps = member[torch.from_numpy(orders)]  # (orders, inputs, columns)
    return steps.int().cumsum(1)[:, :-1].bool()


def _in_blocks(predict: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    if len(rows) == 0:  # paths of one input have no row between their ends
        return predict(rows.new_zeros(1, rows.shape[1]))[:, :0]
    return torch.cat([predict(block) for block in rows.split(AT_ONCE)], 1)
