"""The choice by validation: the least score of held-out rows, whatever becomes of other candidates."""

import math

import pytest
import torch

import r2d2net as rn
from r2d2net import nets
from r2d2net.inference import HMC, SVGI
from r2d2net.model import BayesianModel
from r2d2net.paper.experiments import row_fitting
from r2d2net.paper.experiments.row_fitting import fit_best, scaled
from r2d2net.priors import R2D2

ROWS = torch.zeros(4, 2), torch.zeros(4)


class Fitted:
    """A posterior whose held-out rows have a given log density."""

    def __init__(self, density):
        self.density = density

    def predict(self, x, draws):
        return self

    def log_prob(self, y):
        return torch.full((len(y),), self.density)


@pytest.fixture
def fits(monkeypatch):
    """Log densities that the fits in turn will have, None for one that diverges; and the arguments of the fits."""
    densities, calls = [], []

    def fit(model, data, method, **options):
        calls.append((method, options))
        if (density := densities[len(calls) - 1]) is None:
            raise rn.DivergenceError(f"fit {len(calls)} diverged")
        return Fitted(density)

    monkeypatch.setattr(row_fitting, "fit", fit)
    return densities, calls


def best(folder, method, factors, **options):
    model = BayesianModel(nets.mlp(2, [3], 1), R2D2())
    return fit_best(model, ROWS, method, ROWS, folder, factors=factors, steps_per_epoch=5, epochs=2, **options)


def test_the_least_score_is_chosen(fits, tmp_path):
    densities, calls = fits
    densities += [None, -3.0, math.nan, -1.0, -2.0]
    chosen = best(tmp_path, SVGI(), [1.0, 0.3, 0.1, 0.03, 0.01], seed=7)
    assert chosen.posterior.density == -1.0
    assert chosen.tried == [
        {"factor": 1.0, "validation": None, "error": "fit 1 diverged"},
        {"factor": 0.3, "validation": 3.0},
        {"factor": 0.1, "validation": None, "error": "its validation score is nan"},
        {"factor": 0.03, "validation": 1.0},
        {"factor": 0.01, "validation": 2.0},
    ]
    assert [options["resume"].name for _, options in calls][:2] == ["factor-1", "factor-0.3"]
    assert all(options["seed"] == 7 and options["jobs"] == 1 and options["epochs"] == 2 for _, options in calls)


def test_without_a_score_there_is_no_fit(fits, tmp_path):
    densities, _ = fits
    densities += [None, math.inf]
    with pytest.raises(rn.DivergenceError, match=r"^all 2 step sizes diverged; the first: fit 1 diverged$"):
        best(tmp_path, SVGI(), [1.0, 0.3])


def test_an_algorithm_without_a_step_size_is_fitted_once(fits, tmp_path):
    densities, _ = fits
    densities += [-1.0]
    assert best(tmp_path, HMC(), [1.0, 0.3]).tried == [{"factor": 1.0, "validation": 1.0}]


def test_candidates_scale_the_step_sizes_of_their_run():
    model = BayesianModel(nets.mlp(2, [3], 1), R2D2())
    default, shorter = SVGI(), 100
    usual = scaled(default, model, shorter, 1.0)
    assert usual == default
    less = scaled(default, model, shorter, 0.5)
    assert less.lr == pytest.approx(0.5 * default.build(model, n=1, steps=shorter).descent.largest_step)
    assert scaled(default, model, shorter, 0.5, rho_share=0.1).lr_rho == pytest.approx(0.1 * less.lr)
    assert scaled(default, model, shorter, 1.0, temperature=0.01).temperature == 0.01
