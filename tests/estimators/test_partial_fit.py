"""`partial_fit`: rows that come in parts end near where a fit to all of them ends."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from r2d2net import R2D2Classifier, R2D2Regressor
from r2d2net.inference import SVGI
from r2d2net.inference.carrying_on import Past
from r2d2net.inference.mean_field_family import FREE, Family, MeanFieldDraws

LINEAR: dict[str, Any] = {"hidden": (), "epochs": 300, "random_state": 0}
WEIGHTS = np.array([2.0, -1.0, 0.5, 0.0])


def table(rows: int = 400, seed: int = 0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    x = g.normal(size=(rows, 4)) + shift
    return x, 10 + x @ WEIGHTS + g.normal(size=rows)


def moments(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of the mean at rows one deviation away along each input."""
    outputs = model.posterior_.predict(np.vstack([np.zeros(4), np.eye(4)]), 4000, seed=1).samples
    return outputs.mean(0).numpy(), outputs.std(0).numpy()


@pytest.mark.parametrize(("prior", "near"), [("gaussian", 0.02), ("r2d2", 0.05)])
def test_two_parts_end_near_the_fit_of_both(prior: str, near: float) -> None:
    """Deviations of coefficients are 1 / sqrt(400) = 0.05; half of the rows alone would have 0.07."""
    x, y = table()
    parts = R2D2Regressor(**LINEAR, prior=prior).partial_fit(x[:200], y[:200])
    half = moments(parts)[1]
    parts.partial_fit(x[200:], y[200:])
    whole = R2D2Regressor(**LINEAR, prior=prior, algorithm="svgi").fit(x, y)
    means, deviations = moments(parts)
    of_whole, spread = moments(whole)
    assert np.abs(means - of_whole).max() < near
    assert np.abs(deviations / spread - 1).max() < 0.2
    assert (deviations < 0.9 * half).all()
    assert parts.posterior_.settings["n"] == 400
    noises = [float(model.posterior_.predict(x[:1]).aleatoric[0]) ** 0.5 for model in (parts, whole)]
    assert noises[0] == pytest.approx(noises[1], rel=0.04)


def test_earlier_rows_are_not_forgotten() -> None:
    """The second part has no variation of the first input: what is known of it is of the first part."""
    x, y = table(400)
    model = R2D2Regressor(**LINEAR).partial_fit(x, y)
    before = moments(model)[0]
    more, targets = table(40, seed=1)
    targets -= 2.0 * more[:, 0]
    more[:, 0] = 0.0
    model.partial_fit(more, targets)
    after = moments(model)[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0], abs=0.1)


def test_classes_are_named_at_the_first_call() -> None:
    x, _ = table(300)
    y = np.array(["low", "mid", "top"])[np.digitize(x[:, 0], [-0.5, 0.5])]
    model = R2D2Classifier(**LINEAR)
    with pytest.raises(ValueError, match="classes are lacking: give all labels"):
        model.partial_fit(x, y)
    first = y != "mid"
    model.partial_fit(x[first], y[first], classes=["top", "mid", "low"])
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert model.predict_proba(x[:2]).shape == (2, 3)
    model.partial_fit(x, y)
    assert model.score(x, y) > 0.85
    with pytest.raises(ValueError, match="y holds the label 'new', which classes does not"):
        model.partial_fit(x[:1], ["new"])
    with pytest.raises(ValueError, match="classes are not those of the first call"):
        model.partial_fit(x, y, classes=["low", "top"])


def test_it_goes_on_after_saving_and_with_tables(tmp_path: Any) -> None:
    g = np.random.default_rng(0)
    city = g.choice(["a", "b", "c"], 200)
    x = pd.DataFrame({"city": city, "size": g.normal(size=200)})
    y = 3.0 * (city == "b") + x["size"].to_numpy() + 0.1 * g.normal(size=200)
    model = R2D2Regressor(**LINEAR).partial_fit(x[:100], y[:100])
    again = R2D2Regressor.load(model.save(tmp_path))
    for each in (model, again):
        each.partial_fit(x[100:], y[100:])
    assert np.array_equal(model.predict(x), again.predict(x))
    assert model.score(x, y) > 0.95
    assert model.relevance_.kept.tolist() == [True, True]
    assert len(model.posterior_.history) == 600


def test_the_default_is_one_network_and_refusals_are_one_line() -> None:
    x, y = table(60)
    model = R2D2Regressor(epochs=2, random_state=0).partial_fit(x, y)
    assert model.posterior_.settings["algorithm"]["type"] == "SVGI"
    default = R2D2Regressor(random_state=0).partial_fit(x[:20], y[:20])
    assert "stack" not in default.posterior_.settings
    with pytest.raises(ValueError, match=r"algorithm='mclmc' is not for partial_fit, .*: leave it out"):
        R2D2Regressor(algorithm="mclmc").partial_fit(x, y)
    with pytest.raises(ValueError, match=r"validation=0\.1 is not for partial_fit"):
        R2D2Regressor(validation=0.1).partial_fit(x, y)
    chains = R2D2Regressor(hidden=(), algorithm="lineargibbs", epochs=60, random_state=0).fit(x, y)
    chains.set_params(algorithm=None)
    with pytest.raises(ValueError, match="algorithm=LinearGibbs cannot carry on with new rows"):
        chains.partial_fit(x, y)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(x[:, :2], y)


def test_later_rows_cannot_change_what_the_first_decided(tmp_path: Any) -> None:
    x, y = table(60)
    first: dict[str, Any] = {**LINEAR, "epochs": 3, "prior": "gaussian"}
    changed = [
        ("hidden", (5,)),
        ("activation", "tanh"),
        ("prior", "horseshoe"),
        ("algorithm", SVGI(averaging=0.5)),
        ("likelihood", "student-t"),
        ("random_state", 1),
    ]
    for name, value in changed:
        model = R2D2Regressor(**first).partial_fit(x, y)
        loaded = R2D2Regressor.load(model.save(tmp_path))
        for each in (model, loaded):
            each.set_params(**{name: value})
            with pytest.raises(ValueError, match=rf"^{name}.* is not what the first rows were fitted with, .* fit all"):
                each.partial_fit(x, y)
            assert each.posterior_.settings["n"] == 60
    model = R2D2Regressor(**first).partial_fit(x, y)
    model.set_params(epochs=7, batch_size=20, draws=11, hidden=[], n_jobs=2, algorithm="SVGI").partial_fit(x, y)
    assert len(model.posterior_.history) == 10
    assert (model.posterior_.settings["batch_size"], model.posterior_.settings["n"]) == (20, 120)
    model.set_params(prior="horseshoe").fit(x, y)  # which starts anew


def test_rows_in_parts_have_no_weights() -> None:
    x, y = table(60)
    labels = np.where(x[:, 0] > 0, "up", "down")
    regressor, classifier = (kind(**{**LINEAR, "epochs": 3}) for kind in (R2D2Regressor, R2D2Classifier))
    regressor.partial_fit(x, y, sample_weight=np.ones(60))
    classifier.partial_fit(x, labels, classes=["up", "down"], sample_weight=None)
    for model, targets in ((regressor, y), (classifier, labels)):
        with pytest.raises(ValueError, match=r"^sample_weight is not for partial_fit, .*: leave it out, or give all"):
            model.partial_fit(x, targets, sample_weight=np.arange(60.0))


def test_what_a_posterior_knows_of_its_rows_is_a_normal_factor() -> None:
    x, y = table(200)
    source = R2D2Regressor(**LINEAR, prior="gaussian", algorithm="svgi").fit(x, y).posterior_.source
    assert isinstance(source, MeanFieldDraws)
    assert source.family == Family(FREE)
    past = Past.of(source, 200)
    total = source.deviation().double() ** -2
    assert torch.allclose(past.precision.double() + source.state.precision, total, rtol=1e-4)
    assert torch.allclose(past.shift.double(), total * source.state.mean, rtol=1e-4)  # no prior pulls more here
