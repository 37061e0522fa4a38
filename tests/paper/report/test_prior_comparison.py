"""The comparison of priors says what was measured and draws every prior."""

import numpy as np
import pytest

from r2d2net.paper.prior_rates import Rate, RateRow, rate_table
from r2d2net.paper.report.prior_comparison import draw, formula, verdict


@pytest.fixture(scope="module")
def rows() -> list[RateRow]:
    return rate_table()


def test_verdict_follows_from_the_measurement(rows: list[RateRow]) -> None:
    assert "neither the pole at zero nor a tail heavier" in verdict(rows)
    spiky = [
        row._replace(measured_zero=Rate(-0.5), measured_tail=Rate(-1.5)) if "paper" in row.label else row
        for row in rows
    ]
    assert "has the pole at zero and a tail heavier" in verdict(spiky)


def test_figure_shows_every_prior(rows: list[RateRow]) -> None:
    near, tail = draw(rows).axes
    assert len(near.lines) == len(tail.lines) == len(rows)
    assert all(np.isfinite(line.get_ydata()).all() for line in near.lines)
    assert len({(line.get_color(), line.get_linestyle()) for line in near.lines}) == len(rows), "no two look alike"


def test_formula() -> None:
    assert formula(Rate(-0.5, coefficient=1.5, stretch=0.5)) == "|w|^-0.5 exp(-1.5 |w|^0.5)"
