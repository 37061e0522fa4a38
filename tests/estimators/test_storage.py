"""Estimators come back from a folder and from a pickle as they were, and a folder never runs code."""

import io
import json
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import r2d2net as rn
from r2d2net import R2D2Classifier, R2D2Regressor
from signed_folders import sign

SMALL: dict[str, Any] = {"hidden": (5,), "epochs": 3, "draws": 5, "random_state": 0}


def table(rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    return x, x[:, 0] + 5


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"prior": rn.priors.R2D2(a_pi=0.3), "algorithm": rn.inference.CAVI(), "device": "cpu"},
        {"prior": "adaptive", "hidden": 4, "validation": 0.2},
        {"prior": rn.priors.Gaussian(0.5), "algorithm": "deepensemble", "activation": "tanh"},
        {"prior": "horseshoe", "algorithm": rn.inference.SGLD(chains=2), "hidden": ()},
        {"random_state": np.int64(3), "hidden": np.array([4, 3])},
    ],
)
def test_regressor_comes_back(settings: dict[str, Any], tmp_path: Path) -> None:
    x, y = table()
    model = R2D2Regressor(**{**SMALL, **settings}).fit(pd.DataFrame(x, columns=["a", "b", "c"]), y)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    assert model.save(tmp_path / "run") == tmp_path / "run"
    memory = io.BytesIO()
    joblib.dump(model, memory)
    for again in (R2D2Regressor.load(tmp_path / "run"), pickle.loads(pickle.dumps(model)), joblib.load(memory)):
        assert all(map(np.array_equal, again.predict(frame, return_std=True), model.predict(frame, return_std=True)))
        assert np.array_equal(again.feature_importances_, model.feature_importances_)
        assert np.array_equal(again.feature_importances_std_, model.feature_importances_std_)
        assert again.relevance_.kept.dtype == model.relevance_.kept.dtype
        assert again.feature_names_in_.tolist() == ["a", "b", "c"]
        assert again.n_features_in_ == 3
        for name, value in model.get_params().items():
            saved = again.get_params()[name]
            assert repr(saved) == repr(value) or np.array_equal(saved, value)


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [False, True], [0.0, 2.0], ["a", "b", "c"]])
def test_classifier_comes_back_with_its_labels(labels: list[Any], tmp_path: Path) -> None:
    x, _ = table()
    y = np.array(labels)[np.arange(40) % len(labels)]
    for targets in (y, pd.Series(y)):
        model = R2D2Classifier(**SMALL).fit(x, targets)
        model.save(tmp_path)
        again = R2D2Classifier.load(tmp_path)
        assert again.classes_.dtype == model.classes_.dtype
        assert again.predict(x).tolist() == model.predict(x).tolist()
        assert np.array_equal(again.predict_proba(x), model.predict_proba(x))


def test_parameters_changed_after_the_fit_do_not_change_what_was_fitted(tmp_path: Path) -> None:
    x, y = table()
    model = R2D2Regressor(**SMALL).fit(x, y)
    model.set_params(hidden=(9, 9), random_state=8).save(tmp_path)
    again = R2D2Regressor.load(tmp_path)
    assert again.hidden == (9, 9)
    assert np.array_equal(again.predict(x), model.predict(x))


def test_a_pickle_before_importances_were_asked_for_still_gives_them(tmp_path: Path) -> None:
    model = R2D2Regressor(**SMALL).fit(*table())
    joblib.dump(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model", mmap_mode="r")):
        assert np.array_equal(again.feature_importances_, model.feature_importances_)


def test_no_training_row_is_saved(tmp_path: Path) -> None:
    x, y = table()
    R2D2Regressor(**SMALL).fit(x, y).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "estimator.json",
        "manifest.json",
        "posterior.safetensors",
    ]
    saved = (tmp_path / "estimator.json").read_text()
    assert not any(repr(float(value)) in saved for value in x.flat)


def test_validation_rows_are_left_out_and_the_predictions_stay(tmp_path: Path) -> None:
    x, y = table()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    for rows, held in (
        (frame, (frame[:9], pd.Series(y[:9]))),
        (x, (x[:9], y[:9])),
        (x, [x[:9].tolist(), y[:9].tolist()]),
    ):
        model = R2D2Regressor(**SMALL, validation=held).fit(rows, y)
        model.save(tmp_path)
        saved = (tmp_path / "estimator.json").read_text()
        assert not any(repr(float(value)) in saved for value in x.flat)
        assert json.loads(saved)["left_out"] == {"validation": "rows of data, which are not saved"}
        again = R2D2Regressor.load(tmp_path)
        assert again.validation is None
        assert all(map(np.array_equal, again.predict(rows, return_std=True), model.predict(rows, return_std=True)))
    model.set_params(validation=np.float64(0.2)).save(tmp_path)
    assert R2D2Regressor.load(tmp_path).validation == 0.2


def test_what_cannot_be_saved_or_loaded_is_one_line(tmp_path: Path) -> None:
    x, y = table()
    model = R2D2Regressor(**SMALL).fit(x, y)
    model.save(tmp_path)
    with pytest.raises(rn.CheckpointError, match="holds 'R2D2Regressor', not 'R2D2Classifier'"):
        R2D2Classifier.load(tmp_path)
    with pytest.raises(rn.CheckpointError, match="cannot be read"):
        R2D2Regressor.load(tmp_path / "nowhere")
    file = tmp_path / "estimator.json"
    content = json.loads(file.read_text())
    for broken in ("{", "[]", json.dumps({"estimator": "R2D2Regressor"}), json.dumps({**content, "network": {"a": 1}})):
        file.write_text(broken)
        sign(tmp_path)
        with pytest.raises(rn.CheckpointError) as error:
            R2D2Regressor.load(tmp_path)
        assert "\n" not in str(error.value)
    evil = {**content["parameters"], "prior": {"type": "ScaleMixturePrior.__subclasses__", "arguments": {}}}
    file.write_text(json.dumps({**content, "parameters": evil}))
    sign(tmp_path)
    with pytest.raises(rn.CheckpointError, match="does not have"):
        R2D2Regressor.load(tmp_path)
    model.set_params(random_state=np.random.RandomState(0))
    with pytest.raises(
        rn.ParameterError, match=r"^random_state is a RandomState, which JSON cannot hold: set_params[^\n]*$"
    ):
        model.save(tmp_path)


def test_relevance_may_be_left_out(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 2))
    model = R2D2Regressor(hidden=(), epochs=2, random_state=0).fit(x, x[:, 0])
    model.save(tmp_path, relevance=False)
    loaded = R2D2Regressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    with pytest.raises(NotFittedError, match="saved without its relevance"):
        _ = loaded.feature_importances_


def test_a_fit_in_a_folder_goes_on_and_is_the_fit_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = table()
    alone = R2D2Regressor(**SMALL).fit(x, y)
    model = R2D2Regressor(**SMALL)
    monkeypatch.setattr("r2d2net.run.train.Plan.build", lambda plan: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit_in(tmp_path, x, y)
    monkeypatch.undo()
    assert np.array_equal(model.fit_in(tmp_path, x, y).predict(x), alone.predict(x))
    assert (tmp_path / "posterior.safetensors").exists()
    before = (tmp_path / "posterior.safetensors").stat().st_mtime_ns
    assert np.array_equal(R2D2Regressor(**SMALL).fit_in(tmp_path, x, y).predict(x), alone.predict(x))
    model.fit(2 * x, y)  # a fit of its own, that leaves the folder alone
    assert (tmp_path / "posterior.safetensors").stat().st_mtime_ns == before
    with pytest.raises(rn.ParameterError, match="random_state=None is out of range: use a whole number"):
        R2D2Regressor(random_state=None).fit_in(tmp_path, x, y)
