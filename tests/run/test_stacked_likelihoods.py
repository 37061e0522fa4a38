"""Stacking under every likelihood of numbers: candidates, units of scores, calibration, saving."""

import math

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net.inference import MCLMC, LinearGibbs
from r2d2net.priors import Gaussian
from r2d2net.registry import NUMBERS
from r2d2net.run import stacking
from r2d2net.run.likelihood_choice import likelihood_named
from r2d2net.run.stack_candidates import Candidate, Shape, candidates_for
from r2d2net.run.stacking import fit_stacked


@pytest.fixture
def quick(monkeypatch):
    """One linear candidate with short runs."""

    def candidates(shape, likelihood):
        exact = type(likelihood) is rn.likelihoods.Gaussian
        method = LinearGibbs(chains=2, loo_draws=0) if exact else MCLMC(chains=2, sweep_steps=10, start_steps=100)
        return [Candidate("linear, Gaussian", "linear", Gaussian(), method, 60 if exact else 16)]

    monkeypatch.setattr(stacking, "candidates_for", candidates)


def rows_of(n=120):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=g)
    return x, torch.poisson(torch.exp(2 + 0.6 * x[:, 0]), generator=g) + 1


@pytest.mark.parametrize("name", NUMBERS)
def test_every_likelihood_is_stacked_saved_and_calibrated(quick, name, tmp_path):
    x, y = rows_of()
    likelihood = likelihood_named(name)
    outputs = likelihood.outputs(y[:, None])
    posterior = fit_stacked((x, y), likelihood, hidden=(4,), outputs=outputs, jobs=1, verbose=False)
    assert type(posterior.model.likelihood) is type(likelihood)
    predicted = posterior.predict(x, 50)
    assert rn.metrics.rmse(y, predicted.mean) < 0.8 * float(y.std())
    # the score of rows left out is near the density of training rows, in the user's units
    assert posterior.candidates[0]["score"] == pytest.approx(float(predicted.log_prob(y).mean()), abs=0.15)
    posterior.save(tmp_path)
    again = rn.load(tmp_path, rn.nets.mlp(**posterior.settings["stack"]["network"]))
    torch.testing.assert_close(again.predict(x, 50).samples, predicted.samples, rtol=0, atol=0)
    assert torch.equal(again.calibration.levels, posterior.calibration.levels)
    assert posterior.calibration.levels.shape == (120, 1)
    low, high = posterior.calibration.interval(predicted, 0.8)
    assert 0.7 < float(((y >= low) & (y <= high)).double().mean()) <= 0.95
    if name in ("log-normal", "gamma", "poisson", "negative-binomial"):
        assert bool((low >= 0).all())


def test_ordinal_classes_are_stacked_and_saved(quick, tmp_path):
    x, counts = rows_of()
    y = (counts > 6).long() + (counts > 10)
    posterior = fit_stacked((x, y), rn.likelihoods.Ordinal(3), hidden=(4,), outputs=1, jobs=1, verbose=False)
    assert posterior.calibration is None
    predicted = posterior.predict(x, 50)
    constant = y.bincount().double() / len(y)
    assert float(predicted.log_prob(y).mean()) > float(constant[y].log().mean()) + 0.1
    assert posterior.candidates[0]["score"] == pytest.approx(float(predicted.log_prob(y).mean()), abs=0.15)
    posterior.save(tmp_path)
    again = rn.load(tmp_path, rn.nets.mlp(**posterior.settings["stack"]["network"]))
    torch.testing.assert_close(again.predict(x, 50).samples, predicted.samples, rtol=0, atol=0)


def test_log_normal_models_are_those_of_the_logarithms(quick):
    x, y = rows_of(60)
    positive = fit_stacked((x, y), rn.likelihoods.LogNormal(), hidden=(4,), jobs=1, verbose=False)
    log = fit_stacked((x, y.log()), rn.likelihoods.Gaussian(), hidden=(4,), jobs=1, verbose=False)
    assert torch.equal(positive.state.weights, log.state.weights)
    shift = float(y.log().mean())
    assert positive.candidates[0]["score"] == pytest.approx(log.candidates[0]["score"] - shift, abs=1e-4)
    assert positive.health["elpd"] == pytest.approx(log.health["elpd"] - shift, abs=1e-4)
    assert positive.calibration is None  # 60 rows are too few


def test_linear_candidates_without_an_exact_sampler():
    def methods(rows, inputs):
        found = candidates_for(Shape(rows, inputs, (50, 50), 1), rn.likelihoods.StudentT())
        return {candidate.name: type(candidate.method).__name__ for candidate in found}

    assert methods(400, 10)["linear, R2D2"] == methods(400, 10)["linear path and network, R2D2"] == "MCLMC"
    assert methods(10**6, 30)["linear, Gaussian"] == methods(10**6, 30)["network, R2D2"] == "SVGI"
    assert methods(100, 4000)["linear, Gaussian"] == "MCLMC"
    assert all(math.isfinite(c.epochs) for c in candidates_for(Shape(9, 9, (5,), 1), rn.likelihoods.StudentT()))


def test_a_search_without_calibration(quick):
    x, y = rows_of()
    assert fit_stacked((x, y), rn.likelihoods.Gaussian(), jobs=1, verbose=False, calibrate=False).calibration is None


def test_estimators_apply_the_calibration(quick, monkeypatch, tmp_path):
    x, y = (part.numpy() for part in rows_of())
    model = rn.R2D2Regressor(random_state=0, likelihood="negative-binomial", n_jobs=1).fit(x, y)
    told = {"name": "negative-binomial", "reason": "negative-binomial: as told"}
    assert model.posterior_.settings["likelihood"] == told
    low, high = model.predict_interval(x, 0.8)
    assert (low >= 0).all()
    assert (low == np.floor(low)).all()
    level = model.posterior_.calibration.level(0.8)
    model.posterior_.calibration = None
    own = model.predict_interval(x, level)
    np.testing.assert_array_equal(own[1], high)
    loaded = rn.R2D2Regressor.load(model.save(tmp_path, relevance=False))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    assert loaded.likelihood == "negative-binomial"
    plain = rn.R2D2Regressor(hidden=(), random_state=0, epochs=5).fit(x, y)
    assert type(plain.posterior_.model.likelihood) is rn.likelihoods.Gaussian
    named = rn.R2D2Regressor(hidden=(), random_state=0, epochs=5, likelihood=rn.likelihoods.StudentT()).fit(x, y)
    loaded = rn.R2D2Regressor.load(named.save(tmp_path / "named", relevance=False))
    assert loaded.likelihood == rn.likelihoods.StudentT()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"likelihood": "normal"}, r"likelihood='normal'.*use one of auto, gaussian, student-t"),
        ({"likelihood": rn.likelihoods.Categorical()}, "likelihood=.*is for classes.*use R2D2Classifier"),
        ({"likelihood": "log-normal"}, "y holds -"),
        ({"calibrate": 1}, "calibrate=1.*use True or False"),
    ],
)
def test_unsuitable_parameters_are_one_line(quick, parameters, message):
    x, y = (part.numpy() for part in rows_of(30))
    with pytest.raises(rn.R2D2NetError, match=message) as caught:
        rn.R2D2Regressor(random_state=0, **parameters).fit(x, y - 20)
    assert "\n" not in str(caught.value)
    with pytest.raises(rn.R2D2NetError, match=r"^likelihood='poisson' is not for classes: it is for numbers"):
        rn.R2D2Classifier(likelihood="poisson", random_state=0).fit(x, y > 7)
