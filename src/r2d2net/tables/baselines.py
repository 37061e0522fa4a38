"""Baselines of a fit: what scikit-learn's usual models make of the same training rows, scored on the same test rows.

    regression   ridge regression      penalty by leave-one-out errors
                 boosted trees         HistGradientBoosting, nearly by its defaults
                 both with density     N(prediction, s^2),  s^2 = mean squared residual of rows left out
    classes      logistic regression   C by the log loss of three folds
                 boosted trees         HistGradientBoosting, nearly by its defaults
    ordinal      ordinal regression    proportional odds, P(y > k) = 1 / (1 + exp(c_k - b x)), C as above; beside both

Residuals of the training rows themselves would be too small: boosted trees pass close to the rows they have seen.
Inputs are the encoded columns of the network, standardised. Proportional odds are a logistic regression of K - 1 copies
of the rows, whose targets are y > k and whose inputs have an indicator of k, with slopes in common; the thresholds are
in order, as they follow the counts of y > k.

The cost is bounded: of more than `MOST_ROWS` training rows, or of more than `MOST_CELLS` numbers (rows x inputs x
classes), a random part is used; the inputs of trees have 64 bins rather than 255, and above `MOST_TREE_INPUTS` inputs x
classes there are none; a note says so. That is up to ten seconds of one core. All draws follow from the seed.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple, Self

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.tables.training_table import TrainingTable

RIDGE, LOGISTIC, TREES = "ridge regression", "logistic regression", "boosted trees"
ORDINAL = "ordinal regression"
MOST_ROWS, MOST_CELLS, MOST_TREE_INPUTS = 10_000, 1_000_000, 500
BINS = 64
FEWEST_OF_CLASS = 2  # rows of each class that a random part keeps, one for each of two folds
FOLDS = 3
PENALTIES = np.logspace(-3, 6, 37)
INVERSE_PENALTIES = tuple(10.0**k for k in range(-4, 3))  # C of logistic regression
LEAST_PROBABILITY = 1e-12
FREE = 100.0  # size of the indicators of thresholds, whose coefficients the penalty then hardly shrinks
MISSING = "no baselines: scikit-learn is missing; `pip install scikit-learn`, or --no-baselines to do without"


class BaselinePrediction(NamedTuple):
    """What a baseline predicts for the test rows.

    Attributes:
        center: Means, (rows,), or probabilities of the classes, (rows, classes).
        log_density: Logarithm of the predictive density, or probability, of the observed targets, (rows,).
    """

    center: Values
    log_density: Values


def fit_baselines(table: TrainingTable, seed: int) -> tuple[dict[str, BaselinePrediction], list[str]]:
    """Fit the baselines to the training rows of a table and predict its test rows.

    Args:
        table: The table; its training rows include those that the network holds out for validation.
        seed: Seed of the random part of the rows, of folds and trees.

    Returns:
        Predictions by the name of the baseline, and notes for the user.
    """
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return {}, [MISSING]
    outputs = max(1, len(table.task.classes))
    classes = None if table.task.is_regression else table.y.astype(np.int64)
    most = max(200, min(MOST_ROWS, MOST_CELLS // (table.x.shape[1] * outputs)))
    rows = random_part(len(table.y), most, seed, classes)
    notes = []
    if len(rows) < len(table.y):
        notes.append(f"baselines are fitted to {len(rows):,} of {len(table.y):,} training rows, drawn at random")
    center, scale = table.x[rows].mean(0), table.x[rows].std(0)
    scale[scale == 0] = 1.0
    x, new = ((part - center) / scale for part in (table.x[rows], table.test.x))
    with_trees = table.x.shape[1] * outputs <= MOST_TREE_INPUTS
    if not with_trees:
        sizes = f"{table.x.shape[1]:,} inputs" + (f" x {outputs} classes" if outputs > 1 else "")
        notes.append(f"no boosted trees beside the model: {sizes} are more than {MOST_TREE_INPUTS:,}")
    if classes is None:
        return _regressions(x, table.y[rows], new, table.y_test, seed, with_trees), notes
    label = table.y_test.astype(np.int64)
    is_ordinal = table.task.kind == "ordinal" and outputs > 2
    return _classifications(x, classes[rows], new, label, outputs, seed, with_trees, is_ordinal), notes


def random_part(count: int, most: int, seed: int, classes: np.ndarray | None = None) -> np.ndarray:
    """Draw rows at random where there are too many, at least two of each class.

    Args:
        count: How many rows there are.
        most: How many to draw at most; the rows that each class keeps may add to them.
        seed: Seed of the draw.
        classes: Class numbers of the rows; None for a regression.

    Returns:
        Row numbers in ascending order; all of them where there are at most ``most``.
    """
    if count <= most:
        return np.arange(count)
    order = np.random.default_rng(seed).permutation(count)
    drawn = order[:most]
    if classes is not None:
        first = [order[classes[order] == level][:FEWEST_OF_CLASS] for level in np.unique(classes)]
        drawn = np.concatenate([drawn, *first])
    return np.unique(drawn)


def folds_of(count: int, seed: int, classes: np.ndarray | None = None) -> np.ndarray:
    """Assign rows to folds at random, the rows of each class evenly.

    Args:
        count: How many rows there are.
        seed: Seed of the draw.
        classes: Class numbers of the rows; None for a regression.

    Returns:
        The number of each row's fold, from 0 to `FOLDS` - 1.
    """
    order = np.random.default_rng(seed).permutation(count)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    folds = np.empty(count, dtype=np.int64)
    folds[order] = np.arange(count) % FOLDS
    return folds


def _regressions(
    x: Values, y: Values, new: Values, y_new: Values, seed: int, with_trees: bool
) -> dict[str, BaselinePrediction]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV

    mean, scale = y.mean(), y.std() or 1.0
    z = (y - mean) / scale
    line = RidgeCV(PENALTIES, store_cv_results=True).fit(x, z)
    chosen = int(np.argmin(np.abs(PENALTIES - line.alpha_)))
    found = {RIDGE: (line.predict(new), float(line.cv_results_[:, chosen].mean()))}
    if with_trees:
        folds, left_out = folds_of(len(z), seed), np.empty(len(z))
        for fold in range(FOLDS):
            inside = folds != fold
            left_out[~inside] = (
                HistGradientBoostingRegressor(max_bins=BINS, random_state=seed)
                .fit(x[inside], z[inside])
                .predict(x[~inside])
            )
        trees = HistGradientBoostingRegressor(max_bins=BINS, random_state=seed).fit(x, z)
        found[TREES] = trees.predict(new), float(np.square(z - left_out).mean())
    return {
        name: normal_prediction(mean + scale * center, y_new, scale**2 * max(variance, 1e-12))
        for name, (center, variance) in found.items()
    }


def normal_prediction(center: Values, y: Values, variance: float) -> BaselinePrediction:
    """Return predictions with the normal density of one variance.

    Args:
        center: Predicted means, (rows,).
        y: Observed targets, (rows,).
        variance: The variance.
    """
    with np.errstate(over="ignore"):  # a test target of 1e200 has a density of zero
        log_density = -0.5 * (np.square(y - center) / variance + math.log(2 * math.pi * variance))
    return BaselinePrediction(center, log_density)


def _classifications(
    x: Values,
    y: np.ndarray,
    new: Values,
    label: np.ndarray,
    outputs: int,
    seed: int,
    with_trees: bool,
    is_ordinal: bool,
) -> dict[str, BaselinePrediction]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.exceptions import ConvergenceWarning

    folds = folds_of(len(y), seed, y)
    kinds: dict[str, Any] = {LOGISTIC: _Logistic, **({ORDINAL: _ProportionalOdds} if is_ordinal else {})}
    found = {}
    with warnings.catch_warnings():
        # separable classes have no optimum at a weak penalty; the folds judge where the optimiser ended
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, kind in kinds.items():
            losses = np.zeros(len(INVERSE_PENALTIES))
            for fold in range(FOLDS):
                inside = folds != fold
                line = kind(outputs, 200)
                for place, inverse in enumerate(INVERSE_PENALTIES):
                    probs = line.fit(x[inside], y[inside], inverse).predict(x[~inside])
                    losses[place] -= _log_probabilities(probs, y[~inside]).sum()
            best = INVERSE_PENALTIES[int(losses.argmin())]
            found[name] = kind(outputs, 500).fit(x, y, best).predict(new)
    if with_trees:
        trees = HistGradientBoostingClassifier(max_bins=BINS, random_state=seed).fit(x, y)
        found[TREES] = _of_all_classes(trees, new, outputs)
    return {name: BaselinePrediction(probs, _log_probabilities(probs, label)) for name, probs in found.items()}


class _Logistic:
    """Multinomial logistic regression, each fit beginning where the one before ended."""

    def __init__(self, outputs: int, most: int) -> None:
        from sklearn.linear_model import LogisticRegression

        self.outputs, self.line = outputs, LogisticRegression(warm_start=True, max_iter=most)

    def fit(self, x: Values, y: np.ndarray, inverse: float) -> Self:
        self.line.set_params(C=inverse).fit(x, y)
        return self

    def predict(self, x: Values) -> Values:
        return _of_all_classes(self.line, x, self.outputs)


class _ProportionalOdds(_Logistic):
    """Logistic regression of y > k on inputs and k, for all k at once."""

    def fit(self, x: Values, y: np.ndarray, inverse: float) -> Self:
        self.line.set_params(C=inverse, fit_intercept=False)
        self.line.fit(self._copies(x), (y[:, None] > np.arange(self.outputs - 1)).ravel())
        return self

    def predict(self, x: Values) -> Values:
        above = self.line.predict_proba(self._copies(x))[:, 1].reshape(len(x), -1)
        ends = np.ones((len(x), 1))
        return np.clip(-np.diff(np.hstack([ends, above, 0 * ends]), axis=1), 0, 1)

    def _copies(self, x: Values) -> Values:
        """Repeat each row for each threshold, with an indicator of it, (rows x thresholds, inputs + thresholds)."""
        count = self.outputs - 1
        return np.hstack([np.repeat(x, count, axis=0), np.tile(FREE * np.eye(count), (len(x), 1))])


def _of_all_classes(model: Any, x: Values, outputs: int) -> Values:
    """Return the probabilities of all classes; those that the model has not seen have probability 0."""
    probs = np.zeros((len(x), outputs))
    probs[:, model.classes_] = model.predict_proba(x)
    return probs


def _log_probabilities(probs: Values, label: np.ndarray) -> Values:
    return np.log(np.maximum(probs[np.arange(len(label)), label], LEAST_PROBABILITY))
