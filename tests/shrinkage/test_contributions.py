"""Contributions add up for every draw, and are the Shapley values of functions where these are known."""

import sys
from itertools import permutations

import pytest
import torch

import r2d2net as rn
from r2d2net.shrinkage.contributions import contributions

SCALE = torch.tensor([1.0, 3.0], dtype=torch.float64)
GROUPS = [[0], [1, 2], [3]]


def normal(rows: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def threefold(table: torch.Tensor) -> torch.Tensor:
    """A function of all inputs at once."""
    return SCALE[:, None] * torch.exp(table.sum(1) / 2) + table[:, 0]


def pairwise(table: torch.Tensor) -> torch.Tensor:
    return SCALE[:, None] * (table[:, 0] * table[:, 3] + table[:, 1] * table[:, 2] + table[:, 0] * table[:, 1])


def shapley(predict, row: torch.Tensor, background: torch.Tensor) -> torch.Tensor:
    """By all orders and background rows."""
    total = torch.zeros(len(SCALE), len(GROUPS), dtype=torch.float64)
    orders = list(permutations(range(len(GROUPS))))
    for order in orders:
        rows = background.clone()
        before = predict(rows).mean(1)
        for place in order:
            rows[:, GROUPS[place]] = row[GROUPS[place]]
            after = predict(rows).mean(1)
            total[:, place] += (after - before) / len(orders)
            before = after
    return total


@pytest.mark.parametrize("predict", [threefold, pairwise])
def test_contributions_add_up_to_prediction_minus_average_for_every_draw(predict, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[contributions.__module__], "AT_ONCE", 7)
    x, background = normal(3, 0), normal(16, 1)
    found = contributions(predict, x, background, GROUPS)
    torch.testing.assert_close(found.prediction, predict(x))
    torch.testing.assert_close(found.average, predict(background).mean(1))
    torch.testing.assert_close(found.values.sum(2), found.prediction - found.average[:, None])


def test_interactions_of_two_are_exact() -> None:
    x, background = normal(2, 0), normal(8, 1)
    found = contributions(pairwise, x, background, GROUPS)
    for row in range(2):
        torch.testing.assert_close(found.values[:, row], shapley(pairwise, x[row], background))
    assert float(found.sampling_error.max()) < 1e-12


def test_sampling_error_is_that_of_the_orders() -> None:
    """Over 200 seeds the deviation from all orders has the stated standard error: the ratio of their mean squares
    has a standard deviation of about 0.1, so the bounds are four of them (false alarms: less than 1 in 10,000)."""
    x, background = normal(1, 0), normal(16, 1)
    exact = shapley(threefold, x[0], background).mean(0)
    runs = [contributions(threefold, x, background, GROUPS, seed) for seed in range(200)]
    squares = torch.stack([(run.values[:, 0].mean(0) - exact).square() for run in runs]).mean(0)
    stated = torch.stack([run.sampling_error[0].square() for run in runs]).mean(0)
    ratio = squares / stated
    assert bool(((ratio > 0.6) & (ratio < 1.4)).all()), ratio


def test_one_input_has_all() -> None:
    x, background = normal(2, 0), normal(4, 1)
    found = contributions(threefold, x, background, [[0, 1, 2, 3]])
    torch.testing.assert_close(found.values[:, :, 0], found.prediction - found.average[:, None])


def test_groups_must_hold_every_column_once() -> None:
    with pytest.raises(rn.ParameterError, match=r"^groups=.*put each column into one input$"):
        contributions(threefold, normal(1, 0), normal(4, 1), [[0], [1, 2]])
