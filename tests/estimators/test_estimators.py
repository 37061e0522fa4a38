"""Regressor and classifier: what they predict, that they repeat themselves, and their life inside scikit-learn."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import r2d2net as rn
from r2d2net import R2D2Classifier, R2D2Regressor

SMALL: dict[str, Any] = {"hidden": (10,), "epochs": 60, "draws": 30, "random_state": 0}


def table(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Six normal inputs, of which the first two make a target of noise 0.3 in units far from 1."""
    g = np.random.default_rng(seed)
    x = g.normal(size=(rows, 6))
    return x, 1000 + 50 * (2 * x[:, 0] + np.abs(x[:, 1]) + 0.3 * g.normal(size=rows))


def three_classes(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(rows, 4))
    return x, np.array(["low", "mid", "top"])[np.digitize(x[:, 0], [-0.5, 0.5])]


@pytest.fixture(scope="module")
def regressor() -> R2D2Regressor:
    return R2D2Regressor(**{**SMALL, "epochs": 150}).fit(*table())


def test_regression_in_the_users_units(regressor: R2D2Regressor) -> None:
    """Noise is 15; 1,000 rows tell a coverage of 90% to within 1%, the rest is the network's error."""
    x, y = table(1000, seed=1)
    mean, std = regressor.predict(x, return_std=True)
    assert mean.shape == std.shape == y.shape
    assert np.array_equal(mean, regressor.predict(x))
    assert np.sqrt(np.mean((mean - y) ** 2)) < 20
    assert 12 < std.mean() < 25
    low, high = regressor.predict_interval(x, 0.9)
    assert 0.85 < np.mean((low <= y) & (y <= high)) < 0.97
    narrow = regressor.predict_interval(x, 0.5)
    assert (narrow[1] - narrow[0] < high - low).all()
    with pytest.raises(ValueError, match="level=2"):
        regressor.predict_interval(x, 2)


def test_importances_rank_inputs_and_say_how_sure_they_are(regressor: R2D2Regressor) -> None:
    found, std = regressor.feature_importances_, regressor.feature_importances_std_
    assert found.shape == std.shape == (6,)
    assert found.argsort()[::-1][:2].tolist() == [0, 1]
    assert found[0] > 0.6
    assert found[2:].max() < 0.05
    assert (std >= 0).all()
    assert 0 < std[0] < 0.2
    assert regressor.relevance_.kept.tolist()[:1] == [True]
    chosen = SelectFromModel(regressor, prefit=True, max_features=2, threshold=-np.inf).get_support()
    assert chosen.tolist() == [True, True] + 4 * [False]


def test_views_of_predictions_show_labels(tmp_path: Any) -> None:
    x, y = three_classes(60)
    model = R2D2Classifier(**{**SMALL, "epochs": 20}).fit(x, y)
    for each in (model, R2D2Classifier.load(model.save(tmp_path))):
        prediction = each.posterior_.predict(x)
        shown = prediction[3:9].to_pandas()
        assert list(shown) == ["class", "p(low)", "p(mid)", "p(top)", "entropy"]
        assert shown["class"].tolist() == model.classes_[prediction.label[3:9].numpy()].tolist()
        assert "<th>p(mid)</th>" in prediction._repr_html_()


def test_large_tables_are_predicted_in_blocks(regressor: R2D2Regressor, monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = table(50, seed=2)
    whole = [*regressor.predict(x, return_std=True), *regressor.predict_interval(x)]
    monkeypatch.setattr("r2d2net.estimators.base.BLOCK", 7)
    parts = [*regressor.predict(x, return_std=True), *regressor.predict_interval(x)]
    for a, b in zip(whole, parts, strict=True):
        assert a == pytest.approx(b, rel=1e-12)


def test_several_targets() -> None:
    x, y = table()
    both = R2D2Regressor(**SMALL).fit(x, np.column_stack([y, -y]))
    mean, std = both.predict(x[:5], return_std=True)
    assert mean.shape == std.shape == both.predict_interval(x[:5])[0].shape == (5, 2)
    assert both.score(x, np.column_stack([y, -y])) > 0.8


def test_classes_are_texts_or_numbers() -> None:
    x, y = three_classes()
    model = R2D2Classifier(**SMALL).fit(x, y)
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert model.score(*three_classes(seed=1)) > 0.85
    probabilities, std = model.predict_proba(x, return_std=True)
    assert probabilities.shape == std.shape == (300, 3)
    assert probabilities.sum(1) == pytest.approx(np.ones(300))
    assert model.classes_[probabilities.argmax(1)].tolist() == model.predict(x).tolist()
    assert model.feature_importances_.argmax() == 0
    two = R2D2Classifier(**SMALL).fit(x, np.where(y == "top", 7, -1))
    assert set(two.predict(x)) == {-1, 7}
    assert two.predict_proba(x).shape == (300, 2)


def test_log_probabilities_are_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = three_classes(60)
    model = R2D2Classifier(**{**SMALL, "epochs": 2}).fit(x, y)
    assert np.array_equal(model.predict_log_proba(x), np.log(model.predict_proba(x)))
    sure = torch.tensor([[[-800.0, 0.0, 5.0], [0.0, 0.0, -300.0]]], dtype=torch.float64)
    certain = rn.prediction.Classification(torch.softmax(sure, -1))
    monkeypatch.setattr(model, "_predictions", lambda X: iter([certain]))
    found = model.predict_log_proba(x[:2])
    assert found[0, 0] == np.log(np.finfo(float).tiny)  # its probability is 0 in float64
    assert found[1] == pytest.approx([-np.log(2), -np.log(2), -300 - np.log(2)], rel=1e-12)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([True, False], "b"), ([np.True_, np.False_], "b"), ([3, 7], "i"), ([1.0, 2.0], "f"), (["a", "b"], "O")],
)
def test_labels_in_a_column_of_objects(labels: list[Any], kind: str) -> None:
    x, _ = three_classes(40)
    y = np.array(labels * 20, dtype=object)
    model = R2D2Classifier(**{**SMALL, "epochs": 1}).fit(x, y)
    assert model.classes_.dtype.kind == kind
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(x)) <= set(labels)


@pytest.mark.parametrize(
    ("label", "found"), [(None, "NoneType, bool"), (1, "bool, int"), ("yes", "bool, str"), (2.0, "bool, float")]
)
def test_labels_of_several_kinds_are_one_line(label: Any, found: str) -> None:
    x, _ = three_classes(4)
    with pytest.raises(rn.DataError, match=f"^y has dtype object and holds {found}: use labels of one kind[^\n]*$"):
        R2D2Classifier(**SMALL).fit(x, np.array([True, False, True, label], dtype=object))


def test_validation_rows_have_labels_as_the_others_do() -> None:
    x, y = three_classes(60)
    small = {**SMALL, "epochs": 2}
    scores = []
    for labels in (y, y.astype(object), np.searchsorted(["low", "mid", "top"], y), (y == "top") + 5):
        model = R2D2Classifier(**small, validation=(x[:20], labels[:20])).fit(x[20:], labels[20:])
        scores.append(model.posterior_.history[-1]["validation"])
    assert scores[0] == scores[1] == scores[2] != scores[3]
    with pytest.raises(rn.DataError, match=r"^validation holds the label 'mid', which y does not: leave it out$"):
        R2D2Classifier(**small, validation=(x, y)).fit(x[y != "mid"], y[y != "mid"])


@pytest.mark.parametrize("kind", [R2D2Regressor, R2D2Classifier])
def test_random_state_decides_all_and_nothing_global_is_touched(kind: Any) -> None:
    x, y = table(60) if kind is R2D2Regressor else three_classes(60)
    small = {**SMALL, "epochs": 3}

    def outcome(random_state: Any) -> np.ndarray:
        model = kind(**{**small, "random_state": random_state}).fit(x, y)
        made = model.predict if kind is R2D2Regressor else model.predict_proba
        assert np.array_equal(made(x), made(x))
        return np.append(made(x), model.feature_importances_)

    ours, theirs = torch.random.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    first = outcome(0)
    torch.rand(1)
    again = outcome(0)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, outcome(1))
    assert not np.array_equal(outcome(None), outcome(None))
    state = np.random.RandomState(3)
    drawn = outcome(state)
    assert np.array_equal(drawn, outcome(np.random.RandomState(3)))
    assert not np.array_equal(drawn, outcome(state))
    torch.random.set_rng_state(ours)
    outcome(5)
    assert torch.equal(torch.random.get_rng_state(), ours)
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], theirs["state"]["key"])  # noqa: NPY002
    assert np.random.get_state(legacy=False)["state"]["pos"] == theirs["state"]["pos"]  # noqa: NPY002


def test_pipelines_searches_and_clones() -> None:
    x, y = table(120)
    model = R2D2Regressor(**{**SMALL, "epochs": 20}, prior=rn.priors.R2D2(a_pi=0.2), algorithm=rn.inference.CAVI())
    copy = clone(model.fit(x, y))
    assert repr(copy) == repr(model)
    with pytest.raises(NotFittedError):
        copy.predict(x)
    assert not hasattr(copy, "feature_importances_")
    assert cross_val_score(make_pipeline(StandardScaler(), model), x, y, cv=3).shape == (3,)
    grid = {"prior": ["r2d2", "gaussian", rn.priors.Horseshoe()], "hidden": [(), (5,)]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(x, y)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_estimator_.predict(x).shape == y.shape


def test_columns_have_names() -> None:
    x, y = table(60)
    frame = pd.DataFrame(x, columns=list("abcdef"))
    model = R2D2Regressor(**{**SMALL, "epochs": 2}).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("bacdef")])


@pytest.mark.parametrize(
    ("prior", "algorithm"),
    [("r2d2", "svgi"), ("Adaptive", "cavi"), ("horseshoe", "svi"), ("gaussian", "MCDropout"), ("gaussian", "edl")],
)
def test_priors_and_algorithms_by_name(prior: str, algorithm: str) -> None:
    x, y = three_classes(60)
    model = R2D2Classifier(**{**SMALL, "epochs": 2}, prior=prior, algorithm=algorithm).fit(x, y)
    assert model.posterior_.settings["algorithm"]["type"].lower() == algorithm.lower()
    assert model.predict_proba(x).sum(1) == pytest.approx(np.ones(60))


def test_validation_chooses_prior_and_start_in_this_process_or_in_several() -> None:
    x, y = table(80)
    settings = {**SMALL, "epochs": 3, "prior": "auto", "validation": 0.2}
    one = R2D2Regressor(**settings).fit(x, y)
    assert [entry["prior"] for entry in one.posterior_.candidates] == ["adaptive", "adaptive-without-floor"]
    starts = R2D2Regressor(**{**settings, "prior": "r2d2", "restarts": 3}).fit(x, y)
    assert len(starts.posterior_.candidates) == 3


@pytest.mark.slow
def test_processes_do_not_change_the_result() -> None:
    x, y = table(80)
    settings = {**SMALL, "epochs": 3, "restarts": 2}
    one, two = (R2D2Regressor(**settings, n_jobs=n).fit(x, y).predict(x) for n in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prior": "r2d3"}, r"prior='r2d3' is no prior: use one of r2d2, adaptive"),
        ({"prior": rn.priors.R2D2}, r"prior=R2D2 is a class: write R2D2\(\)"),
        ({"algorithm": "adam"}, r"algorithm='adam' is no algorithm: use one of cavi"),
        (
            {"algorithm": "map"},
            r"^algorithm='map' does not suit prior='r2d2': use prior='gaussian' or 'spike-and-slab' or 'double-pareto'"
            r", or an algorithm for every prior, such as algorithm='svgi'$",
        ),
        (
            {"algorithm": rn.inference.MFVI()},
            r"^algorithm=MFVI\(.* does not suit prior='r2d2': use prior='gaussian', or",
        ),
        (
            {"algorithm": "map", "prior": "auto"},
            r"^algorithm='map' does not suit prior='auto': use prior='gaussian' or",
        ),
        ({"algorithm": "map", "prior": rn.priors.R2D2()}, r"^algorithm=MAP does not suit the prior R2D2"),
        (
            {"algorithm": "edl", "prior": "gaussian"},
            r"^algorithm='edl' is for classes: use R2D2Classifier, or another algorithm, such as algorithm='svgi'$",
        ),
        ({"validation": 2}, r"^validation=2 is out of range: use a share between 0 and 1, or \(X, y\)$"),
        ({"hidden": "50"}, r"hidden='50'"),
        ({"hidden": (50, 0)}, r"^hidden=\(50, 0\) is out of range: use whole numbers from 1$"),
        ({"hidden": 0}, r"^hidden=0 is out of range: use whole numbers from 1$"),
        ({"activation": "swish2"}, r"activation"),
        ({"epochs": 0}, r"epochs=0"),
        ({"batch_size": 0}, r"batch_size=0"),
        ({"draws": 0}, r"draws=0"),
        ({"patience": 3}, r"patience=3 needs validation"),
        ({"random_state": -1}, r"random_state=-1"),
        ({"random_state": "today"}, r"'today' cannot be used to seed"),
        ({"device": "abacus"}, r"device='abacus'"),
    ],
)
def test_bad_parameters_are_named_at_fit(wrong: dict[str, Any], message: str) -> None:
    x, y = table(20)
    with pytest.raises(ValueError, match=message):
        R2D2Regressor(**{**SMALL, **wrong}).fit(x, y)


def test_a_fit_that_fails_leaves_the_fitted_estimator_as_it_was() -> None:
    x, y = three_classes(60)
    model = R2D2Classifier(**{**SMALL, "epochs": 2}).fit(x, y)
    before = model.predict_proba(x)
    with pytest.raises(ValueError, match="one class, 'low'"):
        model.fit(x, ["low"] * 60)
    assert np.array_equal(model.predict_proba(x), before)
    assert model.classes_.tolist() == ["low", "mid", "top"]


def test_importing_the_library_does_not_import_scikit_learn() -> None:
    code = "import sys, r2d2net; assert 'sklearn' not in sys.modules; r2d2net.R2D2Regressor(); r2d2net.estimators"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="R2D2Regresser"):
        rn.R2D2Regresser  # noqa: B018
