"""`R2D2Classifier`: a Bayesian perceptron with a shrinkage prior, for two or more classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from r2d2net.errors import DataError
from r2d2net.estimators import storage
from r2d2net.estimators.base import BayesianPerceptron, joined
from r2d2net.likelihoods import Categorical
from r2d2net.prediction import Classification


class R2D2Classifier(ClassifierMixin, BayesianPerceptron):
    """Classification by a Bayesian neural network that says how sure it is and which inputs it uses.

    Inputs are standardised inside. The parameters are those of `R2D2Regressor`; "edl" and "dpn" are algorithms for
    classes besides.

    Attributes:
        classes_: The labels, in the order of the columns of `predict_proba`.
        posterior_: The fitted `r2d2net.Posterior`, whose predictions also have entropy and mutual information.
        n_features_in_: Number of inputs.
        feature_names_in_: Their names, where X had names.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> y = np.where(x[:, 0] > 0, "right", "left")
        >>> model = R2D2Classifier(hidden=(), random_state=0, epochs=50).fit(x, y)
        >>> model.predict([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]).tolist()
        ['right', 'left']
        >>> model.predict_proba([[2.0, 0.0, 0.0]]).shape
        (1, 2)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to a table (rows, inputs) and labels (rows,), numbers or texts."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise DataError(f"y has one class, {classes.tolist()[0]!r}: give rows of at least two classes")
        self._fit(X, codes.astype(np.int64), len(classes), Categorical())
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        assert isinstance(probabilities, np.ndarray)
        return self.classes_[probabilities.argmax(1)]

    def predict_proba(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Class probabilities (rows, classes) and, if asked for, their standard deviations under the posterior."""
        probabilities, deviations = [], []
        for prediction in self._predictions(X):
            assert isinstance(prediction, Classification)
            probabilities.append(prediction.probs)
            if return_std:
                deviations.append(prediction.std)
        return (joined(probabilities), joined(deviations)) if return_std else joined(probabilities)

    def _own_state(self) -> dict[str, Any]:
        return {"classes": storage.plain_labels(self.classes_)}

    def _restore_own(self, content: dict[str, Any]) -> None:
        self.classes_ = storage.labels_from(content["classes"])
