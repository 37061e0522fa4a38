"""Measured rates agree with theory for every prior, and the measurement can tell a wrong theory."""

import json

import pytest

from r2d2net.paper.prior_rates import (
    Rate,
    RateRow,
    curve,
    labels,
    measure_tail,
    measure_zero,
    median_magnitude,
    rate_row,
    rate_table,
)
from r2d2net.priors import R2D2, Gaussian, Horseshoe, HorseshoePlus


def test_every_exponent_is_measured() -> None:
    """Corrections to the leading behaviour are of order 1 / log^2 |w| for log rates, far smaller for powers."""
    rows = rate_table()
    assert [row.label for row in rows] == labels()
    for row in rows:
        for theory, measured in ((row.zero, row.measured_zero), (row.tail, row.measured_tail)):
            assert measured == pytest.approx(theory, abs=1e-3), row.label


def test_measurement_does_not_echo_theory() -> None:
    assert measure_zero(R2D2(0.3), Rate(-0.9)).power == pytest.approx(-0.4, abs=1e-9)
    assert measure_tail(R2D2(0.3, 0.2), Rate(-9)).power == pytest.approx(-1.4, abs=1e-9)
    wrong = Rate(0, log_power=5)
    assert measure_zero(HorseshoePlus(global_scale=None), wrong).log_power == pytest.approx(2, abs=1e-3)
    assert measure_zero(Horseshoe(global_scale=None), wrong).log_power == pytest.approx(1, abs=1e-3)


def test_median_magnitude() -> None:
    assert median_magnitude(Gaussian(2.0)) == pytest.approx(2 * 0.6744897501960817, rel=1e-3)


def test_curves_do_not_know_the_scale() -> None:
    """In units of its median |w| a Gaussian has density 0.6745 / sqrt(2 pi) at zero, whatever its scale."""
    for scale in (0.1, 30.0):
        drawn = curve(Gaussian(scale), 1e-4, 1.0, 5)
        assert drawn.w == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
        assert drawn.density[0] == pytest.approx(0.6744897501960817 * 0.3989422804014327, rel=2e-3)


def test_a_row_survives_json() -> None:
    row = rate_row("Gaussian", 5)
    assert RateRow.of(json.loads(json.dumps(row._asdict()))) == row
