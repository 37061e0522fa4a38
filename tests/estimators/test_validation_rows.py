"""Validation rows (X, y) are checked as rows to predict are, and errors say that they are about them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import r2d2net as rn
from r2d2net import R2D2Classifier, R2D2Regressor

SMALL: dict[str, Any] = {"hidden": (), "epochs": 2, "draws": 5, "random_state": 0}
KINDS = [R2D2Regressor, R2D2Classifier]


def table(kind: Any, rows: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, 4)), columns=list("abcd"))
    y = (x["a"] + 5).to_numpy()
    return x, y if kind is R2D2Regressor else np.where(y > 5, "right", "left")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[list("dcba")], "The feature names should match those that were passed during fit. .*same order"),
        (lambda x: x.rename(columns={"a": "z"}), "The feature names should match .* unseen at fit time: - z .*"),
        (lambda x: x[list("abc")], "The feature names should match .* yet now missing: - d"),
        (lambda x: x.assign(b=np.nan), "Input X contains NaN[^\n]*"),
        (lambda x: x.assign(b="text"), "could not convert string to float: 'text'"),
        (lambda x: x["a"], "Expected a 2-dimensional container but got .*Series.*"),
        (lambda x: x[:3], r"Found input variables with inconsistent numbers of samples: \[3, 9\]"),
    ],
)
def test_what_predict_refuses_fit_refuses_as_validation(kind: Any, change: Any, message: str) -> None:
    x, y = table(kind)
    model = kind(**SMALL, validation=(change(x[:9]), y[:9]))
    with pytest.raises(rn.DataError, match=f"^validation: {message}[^\n]*$"):
        model.fit(x, y)


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_only_one_of_the_tables_has_are_warned_of(kind: Any) -> None:
    x, y = table(kind)
    with pytest.warns(UserWarning, match="^validation: X does not have valid feature names"):
        kind(**SMALL, validation=(x.to_numpy()[:9], y[:9])).fit(x, y)
    with pytest.warns(UserWarning, match="^validation: X has feature names"):
        kind(**SMALL, validation=(x[:9], y[:9])).fit(x.to_numpy(), y)


def test_validation_targets_are_checked() -> None:
    x, y = table(R2D2Regressor)
    both, held = np.column_stack([y, -y]), x[:9]
    for targets, of, message in (
        (np.full(9, np.nan), y, "Input y contains NaN."),
        (np.array(["text"] * 9), y, "could not convert string to float: .*"),
        (both[:9], y, "y has 2 columns; the training targets have 1, and so must they"),
        (y[:9], both, "y has 1 columns; the training targets have 2, and so must they"),
        (np.full((9, 2), np.inf), both, "Input y contains infinity .*"),
    ):
        with pytest.raises(rn.DataError, match=f"^validation: {message}$"):
            R2D2Regressor(**SMALL, validation=(held, targets)).fit(x, of)
    with pytest.raises(rn.ParameterError, match=r"^validation has 3 parts: use a share between 0 and 1, or \(X, y\)$"):
        R2D2Regressor(**SMALL, validation=(held, held, y)).fit(x, y)
    _, labels = table(R2D2Classifier)
    with pytest.raises(rn.DataError, match=r"^validation: y has dtype object and holds bool, str: use labels"):
        R2D2Classifier(**SMALL, validation=(held, np.array([True] * 8 + ["left"], dtype=object))).fit(x, labels)


@pytest.mark.parametrize("columns", [1, 2])
def test_validation_rows_in_any_form_are_the_same_rows(columns: int) -> None:
    x, y = table(R2D2Regressor)
    targets = y if columns == 1 else np.column_stack([y, -y])
    forms = [(x[:9], targets[:9]), [x[:9], pd.DataFrame(targets[:9])], (x[:9].astype("float64"), targets[:9].tolist())]
    found = []
    for held in forms:
        model = R2D2Regressor(**SMALL, validation=held)
        assert type(clone(model).validation) is type(held)
        found.append(model.fit(x, targets).posterior_.history[-1]["validation"])
        assert model.get_params()["validation"] is held
    assert found[0] == found[1] == found[2]
