"""Weights of rows and classes: whole ones are repeated rows, and the estimators take them as scikit-learn does."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from r2d2net import R2D2Classifier, R2D2Regressor
from r2d2net.errors import DataError, ParameterError

EXACT: dict[str, Any] = {"hidden": (), "algorithm": "lineargibbs", "epochs": 600, "draws": 1000, "random_state": 0}
SMALL: dict[str, Any] = {"hidden": (), "epochs": 300, "draws": 200, "random_state": 0}


def table(rows: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    x, weights = g.normal(size=(rows, 3)), g.integers(0, 4, rows)
    y = 5 + x[:, 0] + 2 * (weights > 1) * x[:, 1] + g.normal(size=rows)
    return x, y, weights


def test_whole_weights_are_repeated_rows() -> None:
    """Deviations of the mean at these rows are 0.1 to 0.2."""
    x, y, weights = table()
    at = np.vstack([np.zeros(3), np.eye(3)])
    weighted = R2D2Regressor(**EXACT).fit(x, y, sample_weight=weights)
    repeated = R2D2Regressor(**EXACT).fit(x.repeat(weights, 0), y.repeat(weights))
    ours, theirs = weighted.predict(at, return_std=True), repeated.predict(at, return_std=True)
    assert ours[0] == pytest.approx(theirs[0], abs=0.03)
    assert ours[1] == pytest.approx(theirs[1], rel=0.03)
    alike = R2D2Regressor(**EXACT).fit(x, y)
    assert np.abs(alike.predict(at) - theirs[0]).max() > 0.3
    assert weighted.score(x, y, sample_weight=weights) == pytest.approx(
        repeated.score(x.repeat(weights, 0), y.repeat(weights)), abs=0.01
    )


def test_rows_of_weight_zero_are_left_out() -> None:
    x, y, weights = table(60)
    kept = weights > 0
    ours = R2D2Regressor(**{**SMALL, "epochs": 20}).fit(x, y, sample_weight=weights)
    theirs = R2D2Regressor(**{**SMALL, "epochs": 20}).fit(x[kept], y[kept], sample_weight=weights[kept])
    assert np.array_equal(ours.predict(x), theirs.predict(x))
    frame = pd.DataFrame(x, columns=list("abc")).assign(city=np.where(x[:, 2] > 0, "Bern", "Chur"))
    mixed = R2D2Regressor(**{**SMALL, "epochs": 20}).fit(frame, y, sample_weight=weights)
    of_kept = R2D2Regressor(**{**SMALL, "epochs": 20}).fit(frame[kept], y[kept], sample_weight=weights[kept])
    assert np.array_equal(mixed.predict(frame), of_kept.predict(frame))


def test_the_stacked_default_weighs_fits_and_scores() -> None:
    x, y, weights = table(70)
    at = np.vstack([np.zeros(3), np.eye(3)])
    ours = R2D2Regressor(random_state=0, time=0.1).fit(x, y, sample_weight=weights)
    mean = ours.predict(at)
    assert mean[2] - mean[0] > 1.0  # 2 in rows of weight 2 and 3
    assert "stack" in ours.posterior_.settings
    assert ours.posterior_.health["verdict"] == "fits"
    low, high = ours.predict_interval(x)
    assert (low < high).all()


def test_stacked_classes_take_balanced_weights() -> None:
    g = np.random.default_rng(0)
    x = g.normal(size=(40, 2))
    y = np.where(x[:, 0] + 0.5 * g.normal(size=40) > 1.2, "rare", "usual")
    ours = R2D2Classifier(random_state=0, class_weight="balanced", time=0.1).fit(x, y)
    place = ours.classes_.tolist().index("rare")
    assert ours.predict_proba(x)[:, place].mean() > (y == "rare").mean() + 0.05
    assert {entry["algorithm"] for entry in ours.posterior_.candidates} == {"MCLMC"}


@pytest.mark.parametrize("algorithm", ["svgi", "mclmc"])
def test_class_weights_are_weights_of_rows(algorithm: str, tmp_path: Any) -> None:
    x, _, _ = table(150)
    g = np.random.default_rng(1)
    y = np.where(x[:, 0] + g.logistic(size=150) > 1.5, 1, 0)
    settings = {**SMALL, "algorithm": algorithm, "epochs": 40 if algorithm == "mclmc" else 300}
    balanced = R2D2Classifier(**settings, class_weight="balanced").fit(x, y)
    share = y.mean()
    by_row = np.where(y == 1, 0.5 / share, 0.5 / (1 - share))
    weighted = R2D2Classifier(**settings).fit(x, y, sample_weight=by_row)
    assert balanced.predict_proba(x) == pytest.approx(weighted.predict_proba(x), abs=1e-5)
    by_label = R2D2Classifier(**settings, class_weight={0: 0.5 / (1 - share), 1: 0.5 / share}).fit(x, y)
    assert by_label.predict_proba(x) == pytest.approx(weighted.predict_proba(x), abs=1e-5)
    assert balanced.predict_proba(x)[:, 1].mean() == pytest.approx(0.5, abs=0.1)
    assert balanced.posterior_.health["verdict"] != "worse than a constant"
    again = R2D2Classifier.load(by_label.save(tmp_path))
    assert again.class_weight == by_label.class_weight
    assert np.array_equal(again.predict_proba(x), by_label.predict_proba(x))


def test_balanced_counts_rows_by_their_weights() -> None:
    x, _, weights = table(80)
    y = (x[:, 0] > 0.7).astype(int)
    settings = {**SMALL, "epochs": 20, "class_weight": "balanced"}
    ours = R2D2Classifier(**settings).fit(x, y, sample_weight=weights)
    own = weights * np.where(y == 1, 1 / weights[y == 1].sum(), 1 / weights[y == 0].sum()) * weights.sum() / 2
    theirs = R2D2Classifier(**{**settings, "class_weight": None}).fit(x, y, sample_weight=own)
    assert ours.predict_proba(x) == pytest.approx(theirs.predict_proba(x), abs=1e-5)


def test_inside_a_grid_search() -> None:
    x, y, weights = table(60)
    search = GridSearchCV(R2D2Regressor(**{**SMALL, "epochs": 20}), {"prior": ["gaussian", "r2d2"]}, cv=2)
    assert search.fit(x, y, sample_weight=weights).best_estimator_.predict(x).shape == (60,)


def test_refusals_are_one_line() -> None:
    x, y, weights = table(30)
    labels = (y > 5).astype(int)
    edl = {**SMALL, "algorithm": "edl", "prior": "gaussian"}
    regressor, classifier = R2D2Regressor(**SMALL), R2D2Classifier(**SMALL)
    cases: list[tuple[Any, Any, Any, str]] = [
        (regressor, y, weights[:5], "sample_weight has shape .5,., and there are 30 rows"),
        (regressor, y, -weights, "sample_weight holds -"),
        (regressor, y, np.zeros(30), "all sample weights are zero"),
        (regressor, y, "heavy", "sample_weight of type .*str.* are no numbers"),
        (R2D2Regressor(**{**SMALL, "likelihood": "student-t"}), y, weights, "StudentT takes no weights of rows"),
        (
            R2D2Classifier(**edl),
            labels,
            weights,
            "EDL takes no weights of rows: use SVGI",
        ),
        (R2D2Classifier(**{**SMALL, "algorithm": "lineargibbs"}), labels, weights, "for normal noise alone"),
        (classifier, labels, (labels == 0).astype(float), "has one class"),
        (R2D2Classifier(**SMALL, class_weight="even"), labels, None, "class_weight='even' is neither"),
        (R2D2Classifier(**SMALL, class_weight={"a": 1}), labels, None, "class_weight names 'a', which y does not hold"),
        (R2D2Classifier(**SMALL, class_weight={0: -1}), labels, None, "class_weight holds -1"),
    ]
    for model, targets, given, message in cases:
        with pytest.raises((DataError, ParameterError), match=message) as caught:
            model.fit(x, targets, sample_weight=given)
        assert "\n" not in str(caught.value)
    with pytest.raises(ParameterError, match="is not for partial_fit"):
        R2D2Classifier(**SMALL, class_weight="balanced").partial_fit(x, labels, classes=[0, 1])
    fitted = regressor.fit(x, y, sample_weight=weights)
    with pytest.raises(ParameterError, match="was fitted to rows with weights"):
        fitted.partial_fit(x, y)
