"""Measured rates agree with theory for every prior, and the measurement can tell a wrong theory."""

import pytest
import torch

from r2d2net.priors import R2D2, Gaussian, Horseshoe, HorseshoePlus
from r2d2net.priors.rates import Rate, measure_tail, measure_zero, median_magnitude, rate_table
from r2d2net.report.prior_comparison import draw, formula, verdict


@pytest.fixture(scope="module")
def rows() -> list:
    return rate_table()


def test_every_exponent_is_measured(rows: list) -> None:
    """Corrections to the leading behaviour are of order 1 / log^2 |w| for log rates, far smaller for powers."""
    for row in rows:
        for theory, measured in ((row.zero, row.measured_zero), (row.tail, row.measured_tail)):
            assert measured == pytest.approx(theory, abs=1e-3), row.label


def test_measurement_does_not_echo_theory() -> None:
    assert measure_zero(R2D2(0.3), Rate(-0.9)).power == pytest.approx(-0.4, abs=1e-9)
    assert measure_tail(R2D2(0.3, 0.2), Rate(-9)).power == pytest.approx(-1.4, abs=1e-9)
    wrong = Rate(0, log_power=5)
    assert measure_zero(HorseshoePlus(global_scale=None), wrong).log_power == pytest.approx(2, abs=1e-3)
    assert measure_zero(Horseshoe(global_scale=None), wrong).log_power == pytest.approx(1, abs=1e-3)


def test_verdict_follows_from_the_measurement(rows: list) -> None:
    assert "neither the pole at zero nor a tail heavier" in verdict(rows)
    spiky = [
        row._replace(measured_zero=Rate(-0.5), measured_tail=Rate(-1.5)) if "paper" in row.label else row
        for row in rows
    ]
    assert "has the pole at zero and a tail heavier" in verdict(spiky)


def test_median_magnitude() -> None:
    assert median_magnitude(Gaussian(2.0)) == pytest.approx(2 * 0.6744897501960817, rel=1e-3)


def test_figure_shows_every_prior(rows: list) -> None:
    near, tail = draw(rows).axes
    assert len(near.lines) == len(tail.lines) == len(rows)
    assert all(torch.isfinite(torch.tensor(line.get_ydata())).all() for line in near.lines)


def test_formula() -> None:
    assert formula(Rate(-0.5, coefficient=1.5, stretch=0.5)) == "|w|^-0.5 exp(-1.5 |w|^0.5)"
