"""When sweeps are averaged, and that a few rows of many columns are then not shrunk to a constant."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import SVGI

R2D2 = rn.priors.R2D2


@pytest.mark.parametrize(
    ("method", "prior", "weights", "rows", "expected"),
    [
        (SVGI(), R2D2(), 500, 100, 0.1),
        (SVGI(), R2D2.paper(), 500, 100, 0.1),
        (SVGI(), R2D2(), 499, 100, 1.0),  # fewer than 5 weights a row
        (SVGI(), R2D2(), 6000, 1001, 1.0),  # more than 1,000 rows
        (SVGI(), R2D2.adaptive(), 500, 100, 1.0),
        (SVGI(), rn.priors.Horseshoe(), 500, 100, 1.0),
        (SVGI(variance="scaled"), R2D2(), 500, 100, 1.0),
        (SVGI(averaging=0.3), rn.priors.Horseshoe(), 2, 100, 0.3),
        (SVGI(averaging=1.0), R2D2(), 500, 100, 1.0),
    ],
)
def test_sweeps_are_averaged_where_rows_are_few(method, prior, weights, rows, expected):
    model = rn.BayesianModel(nn.Linear(weights, 1, bias=False), prior)
    assert method.averaging_of(model, rows) == expected
    assert method.build(model, n=rows, steps=10).scales.update.averaging == expected


@pytest.mark.parametrize("value", [0, -0.1, 1.5, float("nan"), "0.1"], ids=repr)
def test_weights_of_a_sweep_lie_between_zero_and_one(value):
    with pytest.raises(rn.errors.ParameterError, match=r"^averaging=.* is out of range: use a"):
        SVGI(averaging=value)


@pytest.mark.parametrize("estimator", ["local", "weights"])
def test_an_averaged_sweep_sees_a_draw_and_moments_of_the_same_q(estimator, monkeypatch):
    """(w - mu) / s of 4,000 weights is standard normal: mean and variance within 5 standard errors of 0 and 1."""
    model = rn.BayesianModel(nn.Linear(4000, 1, bias=False), R2D2(), rn.likelihoods.Gaussian(noise=1.0))
    running = SVGI(sweep_every=2, estimator=estimator).build(model, n=20, steps=10)
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 4000, generator=g), torch.randn(20, 1, generator=g)
    state, seen, refresh = running.init(y, g), [], running.scales.refresh

    def look(scales, precision, known, generator):
        deviation = running.family.deviation(state, running.blocks)
        seen.append((known.weights - state.mean) / deviation)
        torch.testing.assert_close(known.second_moment, state.mean.square() + deviation.square())
        refresh(scales, precision, known, generator)

    monkeypatch.setattr(running.scales, "refresh", look)
    for _ in range(4):
        state, _ = running.step(state, (x, y), g)
    assert len(seen) == 2
    for noise in seen:
        assert abs(float(noise.mean())) < 5 / 4000**0.5
        assert abs(float(noise.var()) - 1) < 5 * (2 / 4000) ** 0.5
