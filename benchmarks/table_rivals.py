"""What users would take instead of `r2d2net fit`: linear models, forests and boosted trees, scored on the same rows."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

RIVALS = ("linear", "boosted trees", "random forest", "NGBoost", "CatBoost")
VALIDATION, PATIENCE, TREES = 0.2, 50, 300
LEAST_PROBABILITY = 1e-6  # forests say 0 of classes that no tree votes for
NUMBER = make_column_selector(dtype_include="number")
TEXT = make_column_selector(dtype_exclude="number")
Row = dict[str, Any]


class Split(NamedTuple):
    """Training and test rows with the target among the columns."""

    train: pd.DataFrame
    test: pd.DataFrame
    target: str
    is_regression: bool

    @property
    def x(self) -> pd.DataFrame:
        return self.train.drop(columns=self.target)

    @property
    def x_test(self) -> pd.DataFrame:
        return self.test.drop(columns=self.target)


def fit_rival(name: str, split: Split, seed: int) -> Row:
    """Fit a rival and score it on the test rows."""
    start = time.process_time()
    score = _score_numbers if split.is_regression else _score_classes
    scores = score(name, split, seed)
    return {**scores, "seconds": time.process_time() - start}


def _score_numbers(name: str, split: Split, seed: int) -> Row:
    y, y_test = (frame[split.target].to_numpy(float) for frame in (split.train, split.test))
    if name == "NGBoost":
        predicted = _boosted_normal(split, y, seed)
        mean, deviation = predicted.params["loc"], predicted.params["scale"]
    else:
        mean = _regressor(name, split, seed).fit(split.x, y).predict(split.x_test)
        left_out = cross_val_predict(_regressor(name, split, seed), split.x, y, cv=5)
        deviation = np.sqrt(np.mean((left_out - y) ** 2))
    distance = np.abs(mean - y_test)
    return {
        "nll": float(-stats.norm.logpdf(y_test, mean, deviation).mean()),
        "error": float(np.sqrt(np.mean(distance**2))),
        "coverage": float((distance <= stats.norm.ppf(0.95) * deviation).mean()),
    }


def _score_classes(name: str, split: Split, seed: int) -> Row:
    labels, y = np.unique(split.train[split.target], return_inverse=True)
    y_test = np.searchsorted(labels, split.test[split.target])
    if name == "NGBoost":
        probabilities = _boosted_classes(split, y, len(labels), seed)
    else:
        probabilities = _classifier(name, split, seed).fit(split.x, y).predict_proba(split.x_test)
    probabilities = probabilities.clip(LEAST_PROBABILITY, 1)
    probabilities = probabilities / probabilities.sum(1, keepdims=True)
    nll = -np.log(probabilities[np.arange(len(y_test)), y_test]).mean()
    return {"nll": float(nll), "error": float((probabilities.argmax(1) != y_test).mean())}


# --- rivals


def _columns(*, ordinal: bool = False) -> Any:
    """Encode columns: numbers with medians and one unit of spread, categories as one-hot or numbered columns."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    if ordinal:
        text = make_pipeline(
            SimpleImputer(strategy="constant", fill_value="missing"),
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        )
    else:
        text = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((numbers, NUMBER), (text, TEXT), verbose_feature_names_out=False)


def _early_stopping(model: Any, split: Split) -> Any:
    return EarlyStopped(model, [c for c in split.x.columns if c in TEXT(split.x)])


class EarlyStopped(BaseEstimator):
    """CatBoost on columns as they are, with early stopping on a part of its rows."""

    def __init__(self, model: Any, text: list[str]) -> None:
        self.model, self.text = model, text

    def __sklearn_clone__(self) -> EarlyStopped:
        return EarlyStopped(self.model.copy(), self.text)

    def fit(self, x: pd.DataFrame, y: np.ndarray) -> EarlyStopped:
        strata = y if self.model._estimator_type == "classifier" and np.bincount(y).min() > 1 else None
        fitted, held, y_fitted, y_held = train_test_split(
            self._prepared(x), y, test_size=VALIDATION, random_state=0, stratify=strata
        )
        self.model.fit(fitted, y_fitted, eval_set=(held, y_held), cat_features=self.text, verbose=False)
        return self

    def predict(self, x: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict(self._prepared(x)))

    def predict_proba(self, x: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self._prepared(x)))

    def _prepared(self, x: pd.DataFrame) -> pd.DataFrame:
        return x.assign(**{name: x[name].fillna("missing").astype(str) for name in self.text})


def _regressor(name: str, split: Split, seed: int) -> Any:
    if name == "linear":
        return make_pipeline(_columns(), RidgeCV(np.logspace(-3, 4, 30)))
    if name == "boosted trees":
        return make_pipeline(_columns(ordinal=True), HistGradientBoostingRegressor(random_state=seed))
    if name == "random forest":
        return make_pipeline(_columns(ordinal=True), RandomForestRegressor(n_estimators=TREES, random_state=seed))
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(random_seed=seed, thread_count=1, od_wait=PATIENCE, allow_writing_files=False)
    return _early_stopping(model, split)


def _classifier(name: str, split: Split, seed: int) -> Any:
    if name == "linear":
        return make_pipeline(
            _columns(),
            LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=2000, use_legacy_attributes=False),
        )
    if name == "boosted trees":
        return make_pipeline(_columns(ordinal=True), HistGradientBoostingClassifier(random_state=seed))
    if name == "random forest":
        return make_pipeline(_columns(ordinal=True), RandomForestClassifier(n_estimators=TREES, random_state=seed))
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(random_seed=seed, thread_count=1, od_wait=PATIENCE, allow_writing_files=False)
    return _early_stopping(model, split)


def _boosted_normal(split: Split, y: np.ndarray, seed: int) -> Any:
    from ngboost import NGBRegressor

    columns = _columns().fit(split.x)
    x, held, y_fitted, y_held = train_test_split(columns.transform(split.x), y, test_size=VALIDATION, random_state=0)
    model = NGBRegressor(verbose=False, random_state=seed)
    model.fit(x, y_fitted, X_val=held, Y_val=y_held, early_stopping_rounds=PATIENCE)
    return model.pred_dist(columns.transform(split.x_test))


def _boosted_classes(split: Split, y: np.ndarray, classes: int, seed: int) -> np.ndarray:
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical

    columns = _columns().fit(split.x)
    parts = train_test_split(columns.transform(split.x), y, test_size=VALIDATION, random_state=0, stratify=y)
    x, held, y_fitted, y_held = parts
    model = NGBClassifier(Dist=k_categorical(classes), verbose=False, random_state=seed)
    model.fit(x, y_fitted, X_val=held, Y_val=y_held, early_stopping_rounds=PATIENCE)
    return np.asarray(model.predict_proba(columns.transform(split.x_test)))
