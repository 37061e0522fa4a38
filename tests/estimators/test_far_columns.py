"""Columns that float32 does not hold are fitted as they would be behind a scaler, in the user's units."""

import io
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net import R2D2Classifier, R2D2Regressor
from r2d2net.estimators.float64_units import move_inputs, move_targets

SMALL: dict[str, Any] = {"hidden": (8,), "epochs": 60, "draws": 20, "random_state": 0}
RIGHT = 5e-3  # of a deviation: rounding in float32 and 60 epochs of it


def table(rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(0)
    x = g.normal(size=(rows, 3))
    return x, 2 * x[:, 0] + np.abs(x[:, 1]) + 0.3 * g.normal(size=rows)


def parts(model: R2D2Regressor, x: np.ndarray, at: Any = 0.0) -> np.ndarray:
    """All that is predicted, less what the targets lie about."""
    mean, std = model.predict(x, return_std=True)
    low, high = model.predict_interval(x)
    return np.stack([mean - at, std, low - at, high - at])


@pytest.mark.parametrize("validation", [None, 0.2, "rows"])
@pytest.mark.parametrize(
    ("at", "of", "target"), [(1e5, 1.0, 0.0), (1.7e9, 1.0, 1e6), (0.0, 1e-45, 1e9), (0.0, 1e60, 0)]
)
def test_inputs_and_targets_far_from_zero(at: float, of: float, target: float, validation: Any) -> None:
    x, y = table()
    far, far_y = at + of * x, target + y
    held = [(x[:40], y[:40]), (far[:40], far_y[:40])] if validation == "rows" else [validation] * 2
    near = R2D2Regressor(**SMALL, validation=held[0]).fit(x, y)
    model = R2D2Regressor(**SMALL, validation=held[1]).fit(far, far_y)
    assert parts(model, far, target) == pytest.approx(parts(near, x), abs=RIGHT * y.std())
    assert model.score(far, far_y) == pytest.approx(near.score(x, y), abs=2 * RIGHT)
    assert near.score(x, y) > 0.5  # a constant has 0: the two do not agree because neither has learnt anything
    assert model.feature_importances_ == pytest.approx(near.feature_importances_, abs=RIGHT)
    last, usual = model.posterior_.history[-1], near.posterior_.history[-1]
    assert last == pytest.approx(usual, rel=1e-2, abs=1e-2)  # scores stay in the user's units


def test_several_targets_and_only_some_columns_far() -> None:
    x, y = table()
    shift, about = np.array([1e5, 0.0, 1e8]), np.array([1e7, 0.0])
    both = np.column_stack([y, -3 * y])
    near, model = R2D2Regressor(**SMALL).fit(x, both), R2D2Regressor(**SMALL).fit(x + shift, both + about)
    assert parts(model, x + shift, about) == pytest.approx(parts(near, x), abs=3 * RIGHT * y.std())


def test_classes_of_inputs_far_from_zero() -> None:
    x, y = table()
    labels = np.where(y > 1, "high", "low")
    near, model = R2D2Classifier(**SMALL).fit(x, labels), R2D2Classifier(**SMALL).fit(1e8 + x, labels)
    assert model.predict_proba(1e8 + x) == pytest.approx(near.predict_proba(x), abs=RIGHT)
    assert model.feature_importances_ == pytest.approx(near.feature_importances_, abs=RIGHT)


def test_the_posterior_is_in_the_users_units_too() -> None:
    x, y = table()
    model = R2D2Regressor(**SMALL).fit(1e8 + x, 1e6 + y)
    found = model.posterior_.predict(1e8 + x, 20, seed=model.random_state)
    mean, std = model.predict(1e8 + x, return_std=True)
    assert found.mean.numpy() == pytest.approx(mean, abs=RIGHT)
    assert found.std.numpy() == pytest.approx(std, rel=RIGHT)
    with pytest.raises(rn.DataError, match=r"x has shape \(3, 2\): the model was fitted to \(rows, 3\)"):
        model.posterior_.predict(x[:3, :2])


def test_they_come_back_from_folders_and_pickles(tmp_path: Path) -> None:
    x, y = table()
    far, far_y = 1e8 + x, 1e6 + y
    settings = {**SMALL, "prior": "gaussian", "algorithm": "map"}
    model = R2D2Regressor(**settings).fit_in(tmp_path, far, far_y)
    memory = io.BytesIO()
    joblib.dump(model, memory)
    model.save(tmp_path)
    finished = R2D2Regressor(**settings).fit_in(tmp_path, far, far_y)  # reads what was saved
    for again in (R2D2Regressor.load(tmp_path), joblib.load(memory), finished):
        assert np.array_equal(parts(again, far), parts(model, far))
        assert np.array_equal(again.feature_importances_, model.feature_importances_)
    plain = rn.load(tmp_path, rn.nets.mlp(3, [8], 1))
    assert plain.predict(1e8 + 8 * np.round(x), 2).mean.numpy() == pytest.approx(  # what float32 holds
        model.posterior_.predict(1e8 + 8 * np.round(x), 2).mean.numpy(), rel=1e-9
    )


def test_other_tables_are_left_as_they_are() -> None:
    x, y = table()
    x[:, 2] = 0.1
    assert move_inputs(x).is_nothing
    assert move_inputs(1e5 * x + 3e6).is_nothing
    assert move_targets(y + 500).is_nothing
    rounded = np.where(x > 0, 0.3, 0.1 + 0.2)  # rounding errors are no variation
    assert move_inputs(rounded).is_nothing
    model = R2D2Regressor(**{**SMALL, "epochs": 1}).fit(rounded, y)
    assert not model.posterior_.units.are_exact_for(torch.float32)
    assert move_inputs(x + 1e5).center == pytest.approx([1e5, 1e5, 0], abs=1)
