"""`R2D2Selector`, a step of a scikit-learn pipeline that keeps the inputs on which the target depends.

The ways and their rules are those of `r2d2net.shrinkage.select`: probabilities for numbers; for classes a test, whose
rows are fitted by a linear model and a network (`shrinkage.selection_models`), or by an estimator of one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from r2d2net.errors import ParameterError, Value, require
from r2d2net.estimators.base import BayesianPerceptron
from r2d2net.estimators.class_likelihood import class_likelihood
from r2d2net.estimators.named_settings import seed_of
from r2d2net.estimators.perceptron import numbers_of
from r2d2net.likelihoods import Categorical, Gaussian, Likelihood, Ordinal
from r2d2net.posterior import Posterior
from r2d2net.registry import NUMBERS
from r2d2net.shrinkage import Selection, select
from r2d2net.shrinkage.selection_inputs import CORRELATED
from r2d2net.shrinkage.selection_models import models_for

METHODS = ("auto", "terms", "randomization", "knockoffs")
TASKS = ("auto", "regression", "classes")


class R2D2Selector(SelectorMixin, BaseEstimator):
    """Keep the inputs on which the target depends, with a bound on the share of false ones.

    Args:
        estimator: An `R2D2Regressor` or `R2D2Classifier` with settings of one model, which is fitted to the rows
            outside each fold for the randomization test; None for a linear model and a small network beside a linear
            path, or for no fit where the method needs none.
        fdr: Bound on the expected share of false discoveries.
        groups: For each input the columns that belong to it; by default each column is an input.
        correlated: Inputs whose correlation is at least this are kept or dropped together; None for none.
        folds: Number of folds of the randomization test.
        method: "auto", "terms", "randomization" or "knockoffs", as in `r2d2net.shrinkage.select`; "auto" takes "terms"
            for numbers without an estimator, and else the randomization test.
        task: "regression", "classes", or "auto", which takes targets of text, truth values, and up to ten different
            whole numbers for classes; with ``method="terms"`` all numbers are numbers, and classes are refused.
        random_state: Seed of everything random.

    Attributes:
        selection_: The `r2d2net.shrinkage.Selection`, with q-values and a sentence.
        pvalues_: p-values of the inputs, (columns,), those of the input that a column belongs to; NaN where the method
            has none.
        qvalues_: Least bounds at which the inputs would be selected, (columns,).

    Example:
        >>> from sklearn.linear_model import RidgeCV
        >>> from sklearn.pipeline import make_pipeline
        >>> generator = np.random.default_rng(2)
        >>> x = generator.standard_normal((60, 3))
        >>> y = x[:, 1] + 0.3 * generator.standard_normal(60)
        >>> pipeline = make_pipeline(R2D2Selector(random_state=0), RidgeCV()).fit(x, y)
        >>> pipeline[0].get_support().tolist()
        [False, True, False]
    """

    selection_: Selection
    pvalues_: np.ndarray
    qvalues_: np.ndarray
    n_features_in_: int

    def __init__(
        self,
        estimator: Any = None,
        *,
        fdr: float = 0.1,
        groups: Sequence[Sequence[int]] | None = None,
        correlated: float | None = CORRELATED,
        folds: int = 5,
        method: Literal["auto", "terms", "randomization", "knockoffs"] = "auto",
        task: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.fdr = fdr
        self.groups = groups
        self.correlated = correlated
        self.folds = folds
        self.method = method
        self.task = task
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Test the inputs.

        Args:
            X: Table (rows, inputs).
            y: Targets, or labels of classes.

        Returns:
            The fitted selector.
        """
        require(self.task in TASKS, "task", self.task, f"use one of {', '.join(TASKS)}")
        require(self.method in METHODS, "method", self.method, f"use one of {', '.join(METHODS)}")
        known = self.estimator is None or isinstance(self.estimator, BayesianPerceptron)
        if not known:
            problem = (f"is a {type(self.estimator).__name__}",)
            raise ParameterError(problem, argument="estimator", fix="use R2D2Regressor, R2D2Classifier or None")
        table, targets = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        targets = np.asarray(targets)
        classes = self._has_classes(targets)
        if self.method == "terms" and classes:
            guessed = self.task == "auto" and self.estimator is None and targets.dtype.kind in "iuf"
            if not guessed:
                fix = "use method='randomization'"
                raise ParameterError("is for numbers, not for classes", argument="method", value="terms", fix=fix)
            classes = False  # who names this method says that they are numbers
        self._seed = seed = seed_of(self.random_state)
        if classes:
            check_classification_targets(targets)
            labels, counts = np.unique(targets, return_counts=True)
            if self.estimator is not None and counts.min() < 2:
                rare = ("has one row of the class ", Value(labels[counts.argmin()]))
                raise ParameterError(rare, argument="y", fix="give two or more, or leave it out")
            if isinstance(getattr(self.estimator, "likelihood", None), Ordinal):
                labels = class_likelihood(self.estimator.likelihood, targets)[1]
            self._labels = labels
            if len(labels) < 2:
                fix = "give targets of two classes or more"
                raise ParameterError(("holds the single class ", Value(labels[0])), argument="y", fix=fix)
            wanted, outputs = torch.from_numpy(numbers_of(targets, labels, "y")), len(labels)
        else:
            outputs = 1
            wanted = torch.from_numpy(self._shifted(targets.astype(np.float64)))
        likelihood: Likelihood[Any] = Categorical() if classes else Gaussian()
        self.selection_ = select(
            None,
            torch.from_numpy(table),
            wanted if classes else wanted.float(),
            fdr=self.fdr,
            groups=self.groups,
            correlated=self.correlated,
            folds=self.folds,
            method=self.method,
            refit=models_for(likelihood, outputs, seed) if self.estimator is None else self._refit,
            seed=seed,
        )
        self._columns = np.arange(table.shape[1]) if self.groups is None else self._inputs_of_columns(table.shape[1])
        self.pvalues_ = np.append(self.selection_.p_value.numpy(), 1.0)[self._columns]
        self.qvalues_ = np.append(self.selection_.q_value.numpy(), 1.0)[self._columns]
        return self

    def _has_classes(self, y: np.ndarray) -> bool:
        if self.task != "auto":
            return self.task == "classes"
        if self.estimator is not None:
            return getattr(self.estimator, "_estimator_type", None) == "classifier" or hasattr(
                self.estimator, "predict_proba"
            )
        kind = type_of_target(y)
        return kind == "binary" or (kind == "multiclass" and (y.dtype.kind not in "iuf" or len(np.unique(y)) <= 10))

    def _refit(self, x: Tensor, y: Any) -> Posterior[Any]:
        """Fit the estimator to rows."""
        estimator = clone(self.estimator)
        if estimator.random_state is None:
            estimator.set_params(random_state=self._seed)
        own = y.numpy() if y.is_floating_point() else self._labels[y.numpy()]
        posterior: Posterior[Any] = estimator.fit(x.numpy(), own).posterior_
        return posterior

    def _shifted(self, y: np.ndarray) -> np.ndarray:
        """Centre and scale numbers far from 0, of which float32 has few digits; p-values do not change."""
        likelihood = "gaussian" if self.estimator is None else self.estimator.likelihood
        if isinstance(likelihood, str) and likelihood.lower() in ("auto", *NUMBERS[:3]):
            return np.asarray((y - y.mean()) / (y.std() or 1.0))
        return y

    def _inputs_of_columns(self, columns: int) -> np.ndarray:
        """Return the number of the input of each column; -1 of a column that belongs to none."""
        found = np.full(columns, -1)
        for i, group in enumerate(self.groups or []):
            found[list(group)] = i
        return found

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        mask = np.append(self.selection_.selected.numpy(), False)
        return np.asarray(mask[self._columns])
