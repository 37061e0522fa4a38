"""Stacking: its weights against the conditions of the optimum, its mixture against the models that it is made of."""

import time as clock

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net.errors import CheckpointError, ParameterError
from r2d2net.inference import MCLMC, LinearGibbs
from r2d2net.inference.base import Draws
from r2d2net.priors import R2D2, Gaussian
from r2d2net.run import several_runs, stack_fits, stack_scores, stacking, stacking_weights
from r2d2net.run.likelihood_choice import LikelihoodChoice
from r2d2net.run.stack_budget import Budget
from r2d2net.run.stack_candidates import Candidate, Shape, candidates_for
from r2d2net.run.stack_fits import folds_of
from r2d2net.run.stacked_network import embed, form_network, model_of
from r2d2net.run.stacking import fit_stacked

NETWORK = {"inputs": 3, "hidden": [4, 5], "outputs": 1, "activation": "relu"}


# --- weights


@pytest.mark.parametrize("seed", range(5))
def test_weights_fulfil_the_conditions_of_the_optimum(seed):
    """Where w is the maximum, the mean of p_k / mixture is 1 for candidates with a weight and at most 1 for others."""
    log_p = 2 * torch.randn(60, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    log_p[:, 4] = log_p[:, 0] - 0.5  # dominated
    weights = stacking_weights.stacking_weights(log_p, least=0.0)
    slope = (log_p.exp() / (log_p.exp() @ weights)[:, None]).mean(0)
    assert weights.sum().item() == pytest.approx(1)
    assert float(slope.max()) <= 1 + 1e-3
    torch.testing.assert_close(slope[weights > 1e-3], torch.ones_like(slope[weights > 1e-3]), atol=1e-3, rtol=0)
    assert float(weights[4]) < 1e-3


def test_small_weights_become_none():
    """99 rows prefer the first candidate and one the second, whose best weight is below a twentieth."""
    log_p = torch.tensor([[0.0, -3.0]] * 99 + [[-3.0, 0.0]])
    free = stacking_weights.stacking_weights(log_p, least=0.0)
    assert 0 < float(free[1]) < stacking_weights.LEAST
    assert stacking_weights.stacking_weights(log_p).tolist() == [1.0, 0.0]


def test_many_equal_candidates_leave_one():
    assert stacking_weights.stacking_weights(torch.zeros(4, 30)).sum().item() == pytest.approx(1)


@pytest.mark.parametrize("bad", [torch.zeros(0, 2), torch.zeros(3), torch.full((2, 2), torch.nan)])
def test_no_densities_are_one_line(bad):
    with pytest.raises(ParameterError, match=r"log_densities=.*give \(rows, candidates\), without NaN"):
        stacking_weights.stacking_weights(bad)


# --- folds


def test_folds_leave_every_row_out_once_and_spread_classes():
    y = torch.tensor([0] * 20 + [1] * 8 + [2])
    folds = folds_of(y, 0, has_classes=True)
    assert torch.cat(folds).sort().values.tolist() == list(range(29))
    assert all(int((y[fold] == 1).sum()) == 2 for fold in folds)
    assert [len(fold) for fold in folds_of(torch.zeros(3), 0, has_classes=False)] == [1, 1, 1]


@pytest.mark.parametrize("has_classes", [False, True])
def test_fits_of_folds_have_as_many_rows_and_lack_none_of_a_rare_class(has_classes):
    y = torch.tensor([0] * 20 + [1] * 8 + [2]) if has_classes else torch.randn(29, 1)
    likelihood = rn.likelihoods.Categorical() if has_classes else rn.likelihoods.Gaussian()
    folds = folds_of(y, 0, has_classes=has_classes)
    search = stack_fits.Search(
        x=torch.zeros(29, 1),
        y=y,
        likelihood=likelihood,
        network={},
        candidates=[],
        folds=folds,
        seed=0,
        checkpoint_every=1.0,
        own=likelihood,
        log_slope=torch.zeros(29),
    )
    assert torch.equal(search.rows_of(stack_fits.WHOLE), torch.arange(29))
    for number, fold in enumerate(folds):
        rows = search.rows_of(number).tolist()
        missing = set(range(29)) - set(rows) - set(fold.tolist())
        assert len(rows) == 21
        assert not set(rows) & set(fold.tolist())
        assert not has_classes or all(int(y[row]) == 0 for row in missing)


def test_many_rows_are_held_out_once(monkeypatch):
    monkeypatch.setattr(stack_fits, "MOST_ROWS", 50)
    (held,) = folds_of(torch.zeros(200), 0, has_classes=False)
    assert len(held) == len(set(held.tolist())) == 20


# --- models as special cases of one network


@pytest.mark.parametrize("form", ["linear", "network"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_embedded_draws_are_the_same_functions(form, outputs):
    network = {**NETWORK, "outputs": outputs}
    likelihood = rn.likelihoods.Gaussian() if outputs == 1 else rn.likelihoods.Categorical()
    own, whole = (model_of(kind, R2D2(), network, likelihood, 0, torch.zeros(())) for kind in (form, "both"))
    g = torch.Generator().manual_seed(0)
    weights, x = torch.randn(6, own.size, generator=g), torch.randn(10, 3, generator=g)
    drawn = Draws.sharing(weights, weights[0, :0], {}, {})
    embedded = embed(drawn, form, own, "both", whole)
    for mine, theirs in zip(weights, embedded, strict=True):
        functions = []
        for model, flat in ((own, mine), (whole, theirs)):
            model.net.load_state_dict(model.state_dict(flat, flat[:0], {}))
            functions.append(model.net(x))
        torch.testing.assert_close(*functions)
    assert embed(drawn, form, own, form, own) is weights


def test_forms_build_their_networks():
    assert [len(list(rn.nets.mlp(**form_network(form, NETWORK)).parameters())) for form in ("linear", "network")] == [
        2,
        6,
    ]
    assert isinstance(rn.nets.mlp(**form_network("both", NETWORK)), rn.nets.LinearPath)


# --- which models


def names_of(rows, inputs, outputs=1):
    likelihood = rn.likelihoods.Gaussian() if outputs == 1 else rn.likelihoods.Categorical()
    return {c.name: type(c.method).__name__ for c in candidates_for(Shape(rows, inputs, (50, 50), outputs), likelihood)}


def test_candidates_by_size():
    small, long, wide, classes = names_of(400, 10), names_of(20_000, 30), names_of(70, 4000), names_of(80, 2000, 3)
    assert small["network, R2D2"] == small["linear path and network, R2D2"] == "MCLMC"
    assert (long["network, R2D2"], long["linear path and network, R2D2"]) == ("SVGI", "LinearFirst")
    assert "network, R2D2" not in wide
    assert wide["linear, Gaussian"] == "LinearGibbs"
    assert {"linear, Gaussian", "linear, adaptive R2D2"} <= set(classes)
    assert "linear, R2D2" not in classes
    dear, many = names_of(500, 5000, 3), names_of(70, 20_000, 10)  # neither network nor exact sampler
    assert dear == {"linear, Gaussian": "MCLMC", "linear, R2D2": "MCLMC"}
    assert many == {"linear, Gaussian": "SVGI", "linear, R2D2": "SVGI"}
    assert names_of(10**7, 200, 10)  # a table for which no exact sampler is affordable still has a model


# --- the whole


@pytest.fixture
def quick(monkeypatch):
    """Two candidates with short runs."""
    chosen = [
        Candidate("linear, Gaussian", "linear", Gaussian(), LinearGibbs(chains=2, loo_draws=0), 60),
        Candidate("network, R2D2", "network", R2D2(), MCLMC(chains=2, sweep_steps=5, start_steps=200), 12),
    ]
    monkeypatch.setattr(stacking, "candidates_for", lambda shape, likelihood: chosen)


def rows_of(curved, n=60, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=g)
    signal = curved * 4 * x[:, 0].abs() + (1 - curved) * (2 * x[:, 0] - x[:, 1])
    return 5 * x + 100, 30 * (signal + 0.3 * torch.randn(n, generator=g)) + 1000


def fitted(data, **options):
    likelihood = options.pop("likelihood", rn.likelihoods.Gaussian())
    return fit_stacked(data, likelihood, hidden=(20,), jobs=1, verbose=False, **options)


def weight_of(posterior, name):
    return next(entry["weight"] for entry in posterior.candidates if entry["name"].startswith(name))


def test_weights_go_to_the_model_that_fits(quick):
    straight, curved = fitted(rows_of(False)), fitted(rows_of(True, n=150))
    assert weight_of(straight, "linear") > 0.6
    assert weight_of(curved, "network") > 0.9
    x, y = rows_of(False, n=500, seed=1)
    predicted = straight.predict(x, draws=200)
    assert rn.metrics.rmse(y, predicted.mean) < 0.25 * float(y.std())
    assert 0.8 < rn.metrics.coverage(y, *predicted.interval(0.9)) < 0.99
    assert straight.health["verdict"] == "fits"
    assert "stacking of 2 models" in straight.settings["chosen"]


def test_scores_are_log_densities_in_the_users_units(quick):
    """Targets in a unit ten times as large have densities ten times as high, to float32 tolerance."""
    x, y = rows_of(False)
    small, large = fitted((x, y)), fitted((x, y / 10))
    for first, second in zip(small.candidates, large.candidates, strict=True):
        assert second["score"] - first["score"] == pytest.approx(np.log(10), abs=0.02)


def test_the_health_has_the_density_of_rows_that_folds_left_out(quick):
    x, y = rows_of(False)
    found = [fitted((x, target)).health for target in (y, y / 10)]
    assert fitted((x, y)).candidates[0]["score"] - 0.5 < found[0]["elpd"] < 0
    assert found[1]["elpd"] - found[0]["elpd"] == pytest.approx(np.log(10), abs=0.02)
    assert "nats a row (rows left out by folds)" in found[0]["line"]
    assert "PSIS" not in found[0]["line"]
    assert not any(name.startswith("loo") for name in found[0])


def test_the_density_of_a_mixture_is_that_of_its_candidates():
    densities = torch.tensor([[0.0, -2.0, torch.nan], [-1.0, -1.0, torch.nan]], dtype=torch.float64)
    weights = torch.tensor([0.25, 0.75, 0.0], dtype=torch.float64)
    expected = (densities[:, :2].exp() @ weights[:2]).log()
    torch.testing.assert_close(stack_scores.mixture_densities(densities, weights), expected)
    health = {"verdict": "fits", "flags": [], "elpd": -9.0, "elpd_error": 1.0, "loo_bad": 1.0, "loo_exact": False}
    found = stack_scores.with_held_out(health, expected, torch.arange(len(expected)), len(expected))
    score = "left-out log density -1.02 ± 0.016 nats a row (rows left out by folds)"
    assert found["line"] == f"health: nothing wrong found; {score}"
    assert "elpd" not in stack_scores.with_held_out(health, torch.tensor([0.0, -torch.inf]), torch.arange(2), 2)


def test_a_mixture_is_saved_and_loaded(quick, tmp_path):
    x, y = rows_of(False)
    posterior = fitted((x, y))
    posterior.save(tmp_path)
    again = rn.load(tmp_path, rn.nets.mlp(**posterior.settings["stack"]["network"]))
    torch.testing.assert_close(again.predict(x).mean, posterior.predict(x).mean, rtol=0, atol=0)
    assert (again.candidates, again.settings) == (posterior.candidates, posterior.settings)


def test_rows_of_whole_weights_are_repeated_rows():
    g = torch.Generator().manual_seed(0)
    log_p, rows = torch.randn(50, 3, generator=g).double(), torch.randint(1, 4, (50,), generator=g)
    repeated = stacking_weights.stacking_weights(log_p.repeat_interleave(rows, 0), least=0.0)
    weighted = stacking_weights.stacking_weights(log_p, least=0.0, rows=rows.double())
    assert weighted.tolist() == pytest.approx(repeated.tolist(), abs=1e-6)


def test_draws_are_in_proportion_to_the_weights(quick, monkeypatch):
    """Draws of linear models are those whose network part is zero."""
    monkeypatch.setattr(stacking, "stacking_weights", lambda _, rows: torch.tensor([0.3, 0.7], dtype=torch.float64))
    posterior = fitted(rows_of(0.1))
    drawn = posterior.named(posterior.state.weights[0])["net.0.weight"]
    assert float((drawn.flatten(1) == 0).all(1).double().mean()) == pytest.approx(0.3, abs=0.01)


def test_an_interrupted_search_goes_on_to_the_same_bits(quick, tmp_path, monkeypatch):
    data = rows_of(False)
    alone = fitted(data, seed=3)
    calls, run = [], several_runs._run

    def failing(plan, folder, quiet):
        calls.append(folder)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run(plan, folder, quiet)

    monkeypatch.setattr(several_runs, "_run", failing)
    with pytest.raises(KeyboardInterrupt):
        fitted(data, seed=3, resume=tmp_path)
    resumed = fitted(data, seed=3, resume=tmp_path)
    assert torch.equal(resumed.state.weights, alone.state.weights)
    count = len(calls)
    finished = fitted(data, seed=3, resume=tmp_path)
    assert len(calls) == count
    assert torch.equal(finished.state.weights, alone.state.weights)
    assert not (tmp_path / several_runs.FOLDER).exists()
    with pytest.raises(CheckpointError, match="seed"):
        fitted(data, seed=4, resume=tmp_path)


def test_time_bounds_the_folds(quick):
    posterior = fitted(rows_of(False), time=1e-9)
    assert posterior.settings["algorithm"]["arguments"] == {"folds": 1}
    late = fitted(rows_of(False), time=100.0, begun=clock.monotonic() - 200)
    assert late.settings["algorithm"]["arguments"] == {"folds": 1}
    with pytest.raises(ParameterError, match=r"time=0"):
        fitted(rows_of(False), time=0)


def test_candidates_that_do_not_fit_into_the_time_are_skipped(quick, monkeypatch):
    names = [candidate["name"] for candidate in fitted(rows_of(False)).candidates]
    dear = iter([0.1, 1e6])
    monkeypatch.setattr("r2d2net.run.stack_budget.expected_seconds", lambda *_: next(dear))
    posterior = fitted(rows_of(False), time=600.0)
    taken = posterior.settings["stack"]["time"]
    assert taken["skipped"] == names[1:] != []
    assert taken["not_refitted"] == []
    assert 0 < taken["used"] < taken["asked"] == 600
    parts = [part["what"] for part in taken["parts"]]
    assert parts[:3] == ["reading, choice of the likelihood", "trials", "fold 1"]
    assert parts[-1] == "fits to all rows"
    assert taken["parts"][2]["expected"] > 0
    assert [entry["name"] for entry in posterior.candidates] == names
    assert [entry["score"] is None for entry in posterior.candidates] == [False, True]
    assert "time" not in fitted(rows_of(False)).settings["stack"]


def test_what_is_skipped_is_the_dearest_and_one_is_left(monkeypatch):
    now = 100.0
    monkeypatch.setattr("r2d2net.run.stack_budget.clock.monotonic", lambda: now)
    cost = {0: 2.0, 1: 30.0, 2: 5.0, 3: 50.0}
    monkeypatch.setattr("r2d2net.run.stack_budget.expected_seconds", lambda build, most: cost[build()])
    plans = {number: lambda number=number: number for number in cost}
    for asked, workers, chosen in ((200, 1, [0, 1, 2, 3]), (40, 1, [0, 1, 2]), (60, 2, [0, 1, 2, 3]), (1, 2, [0])):
        budget = Budget(asked, 100.0, workers)
        assert budget.first(plans) == chosen, asked
    assert Budget(None, 100.0).first(plans) == [0, 1, 2, 3]
    assert Budget(5, 90.0).first(plans) == [0]  # nothing is left
    budget = Budget(60, 100.0, 1, dict(cost))
    assert budget.affordable([3, 2, 1, 0]) == [3, 2, 0]
    budget.learn([0, 2], 14.0)  # twice what was expected
    assert budget.affordable([3, 2, 1, 0], longer=0.5) == [3, 2, 0]
    assert budget.affordable([1]) == [1]
    assert budget.affordable([3]) == []


def test_a_candidate_that_cannot_be_fitted_has_no_weight(quick, monkeypatch):
    """LinearGibbs takes no counts; stacking goes on with what is left."""
    chosen = stacking.candidates_for(None, None)
    broken = Candidate("broken", "network", R2D2(), LinearGibbs(), 60)
    monkeypatch.setattr(stacking, "candidates_for", lambda shape, likelihood: [broken, chosen[0]])
    posterior = fitted(rows_of(False))
    assert [entry["weight"] for entry in posterior.candidates] == [0.0, 1.0]
    assert posterior.candidates[0]["score"] is None


def test_estimators_stack_by_default(quick, tmp_path):
    x, y = (part.numpy() for part in rows_of(False))
    model = rn.R2D2Regressor(random_state=0).fit(x, y)
    assert model.posterior_.settings["algorithm"]["type"] == "Stacked"
    assert model.score(x, y) > 0.9
    assert set(model.feature_importances_.argsort()[-2:].tolist()) == {0, 1}
    loaded = rn.R2D2Regressor.load(model.save(tmp_path))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    classes = rn.R2D2Classifier(random_state=0).fit(x, y > np.median(y))
    assert classes.score(x, y > np.median(y)) > 0.85
    few = rn.R2D2Regressor(random_state=0).fit(x[:8], y[:8])
    assert few.posterior_.settings["algorithm"]["type"] == "LinearGibbs"
    assert rn.R2D2Regressor(random_state=0, time=5).fit(x[:8], y[:8]).score(x, y) > 0.9
    with pytest.raises(ParameterError, match=r"time=3"):
        rn.R2D2Regressor(epochs=3, time=3, random_state=0).fit(x, y)


def test_linear_models_of_separable_classes_spread_less(quick):
    """Of nearly separable classes exact draws are too cautious; of classes that overlap they are not."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(90, 3, generator=g)
    sharp = (x[:, 0] + 0.02 * torch.randn(90, generator=g) > 0).long()
    blurred = (x[:, 0] + 3 * torch.randn(90, generator=g) > 0).long()
    spreads = [
        fitted((x, y), outputs=2, likelihood=rn.likelihoods.Categorical()).candidates[0]["spread"]
        for y in (sharp, blurred)
    ]
    assert spreads[0] < 0.7
    assert spreads[1] == 1.0


def test_a_short_time_leaves_out_the_choice_of_the_likelihood(quick, monkeypatch):
    """The seconds begin when they are told to, before the choice."""
    seen = []

    def fitted_here(*arguments, begun, **options):
        seen.append(begun)
        return fit_stacked(*arguments, begun=begun, **options)

    monkeypatch.setattr("r2d2net.estimators.perceptron.fit_stacked", fitted_here)
    x, y = (part.numpy().astype(np.float64) for part in rows_of(False))
    before = clock.monotonic()
    compared = LikelihoodChoice(rn.likelihoods.Gaussian(), {"name": "gaussian", "reason": "gaussian: compared"})
    monkeypatch.setattr("r2d2net.estimators.number_likelihood.choose_likelihood", lambda *_, **options: compared)
    for time, words in ((30, "gaussian: 30 s are too short to compare others"), (60, "gaussian: compared")):
        model = rn.R2D2Regressor(random_state=0, time=time).fit(x, y)
        assert model.posterior_.settings["likelihood"]["reason"].startswith(words)
    assert before <= seen[0] < seen[1]
    rn.R2D2Regressor(random_state=0, time=60).fit_numbers(x, y, None, begun=1.5)
    assert seen[-1] == 1.5
