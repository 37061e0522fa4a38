"""P-values of combined scores: equal to their definition, never below their level, where Fisher's own are."""

import math

import pytest
import torch
from scipy import stats

from r2d2net.errors import ParameterError
from r2d2net.novelty.conformal import Calibration, require_level

SIDES, ONE_SIDED = torch.tensor([True, False, True]), torch.tensor([False, False, False])


def by_definition(held: torch.Tensor, row: torch.Tensor) -> tuple[float, float]:
    """The p-value and T of one row, by counting among all n rows."""
    every = torch.cat([held, row[None]]).tolist()
    n, sums = len(every), []
    for own in every:
        parts = []
        for k, two_sided in enumerate(SIDES.tolist()):
            above = sum(other[k] >= own[k] for other in every)
            below = sum(other[k] <= own[k] for other in every)
            parts.append(min(1, 2 * min(above, below) / n) if two_sided else above / n)
        sums.append(-sum(map(math.log, parts)))
    return sum(t >= sums[-1] - 1e-9 for t in sums) / n, sums[-1]


def test_p_values_are_those_of_the_definition_also_with_ties() -> None:
    g = torch.Generator().manual_seed(0)
    held = torch.randint(0, 6, (23, 3), generator=g).double()
    rows = torch.randint(-1, 8, (60, 3), generator=g).double()
    found = Calibration(held, SIDES).combine(rows)
    expected = torch.tensor([by_definition(held, row) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(torch.stack([found.p_values, found.scores], 1), expected)


def test_false_alarms_of_correlated_scores_keep_their_level() -> None:
    """600 new rows, each with 99 held-back rows of its own; the three scores are nearly one.

    The number of alarms is binomial with a rate of alpha or less; right p-values exceed the bound with probability
    1e-4. Fisher's chi-squared distribution, which takes the scores for independent, exceeds it.
    """
    g, found = torch.Generator().manual_seed(1), []
    for _ in range(600):
        scores = torch.randn(100, 1, generator=g) + 0.1 * torch.randn(100, 3, generator=g)
        combined = Calibration(scores[:99].double(), ONE_SIDED).combine(scores[99:].double())
        found.append([float(combined.p_values), stats.chi2.sf(2 * float(combined.scores), 6)])
    for alpha in (0.01, 0.05, 0.1):
        ours, fishers = (torch.tensor(found) <= alpha + 1e-9).sum(0).tolist()
        assert ours <= stats.binom.isf(1e-4, 600, alpha) < fishers


def test_small_values_are_unusual_where_both_sides_count() -> None:
    held = torch.arange(199.0, dtype=torch.float64)[:, None]
    row = torch.tensor([[-1.0]], dtype=torch.float64)
    assert float(Calibration(held, torch.tensor([True])).combine(row).p_values) == 2 / 200
    assert float(Calibration(held, torch.tensor([False])).combine(row).p_values) == 1


def test_levels_that_the_rows_cannot_show_are_refused() -> None:
    assert require_level(0.01, 99) == 0.01
    with pytest.raises(ParameterError, match=r"1 / 99: hold back 99 rows or more, or use alpha=0.011"):
        require_level(0.01, 98)
    for wrong in (0, 1, "x", True):
        with pytest.raises(ParameterError, match="alpha="):
            require_level(wrong, 1000)
