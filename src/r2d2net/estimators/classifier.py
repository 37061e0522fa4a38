"""`R2D2Classifier`: a Bayesian perceptron with a shrinkage prior, for two or more classes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from r2d2net.columns.column_detection import Targets
from r2d2net.errors import DataError, ParameterError, Shown, Value
from r2d2net.estimators.base import BayesianPerceptron, about_validation, joined
from r2d2net.estimators.class_likelihood import category_order, class_likelihood
from r2d2net.estimators.perceptron import LabelledPerceptron, numbers_of
from r2d2net.estimators.sample_weights import weights_by_class
from r2d2net.likelihoods import Ordinal
from r2d2net.prediction import Classification


class R2D2Classifier(ClassifierMixin, LabelledPerceptron, BayesianPerceptron):
    """Classification by a Bayesian neural network with uncertainty and relevance of the inputs.

    Inputs are standardised by the estimator. The parameters are those of `R2D2Regressor`; the algorithms "edl" and
    "dpn" are for classifiers only, and ``likelihood`` may be "ordinal" for numbers in their order and for an ordered
    pandas Categorical in that of its categories, or ``Ordinal(("low", "medium", "high"))`` for texts: then ``labels_``
    has that order.

    Args:
        class_weight: Weights of classes, by which those of their rows are multiplied: a dict by label (1 for those not
            in it), or "balanced", so that all classes weigh the same. None for none.

    Attributes:
        classes_: Labels in ascending order, that of the columns of `predict_proba`, as scikit-learn's scorers expect.
        labels_: Labels in the order of the outputs: for ordinal classes their own, otherwise that of ``classes_``.
        posterior_: The fitted `r2d2net.Posterior`, whose predictions also have entropy and mutual information.
        n_features_in_: Number of inputs.
        feature_names_in_: Names of the inputs, where X had names.
        columns_: How the columns of X were read, where it was a DataFrame of more than numbers: those that are inputs
            (``used``), and why others are not (``left_out``).

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> y = np.where(x[:, 0] > 0, "right", "left")
        >>> model = R2D2Classifier(hidden=(), random_state=0, epochs=50).fit(x, y)
        >>> model.predict([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]).tolist()
        ['right', 'left']
        >>> model.predict_proba([[2.0, 0.0, 0.0]]).shape
        (1, 2)
    """

    def __init__(
        self,
        hidden: Any = None,
        *,
        activation: str = "relu",
        prior: Any = None,
        algorithm: Any = None,
        time: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        validation: Any = None,
        patience: int | None = None,
        restarts: int = 1,
        draws: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: Any = None,
        verbose: bool = False,
        likelihood: Any = "auto",
        calibrate: bool = True,
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            hidden=hidden,
            activation=activation,
            prior=prior,
            algorithm=algorithm,
            time=time,
            epochs=epochs,
            batch_size=batch_size,
            validation=validation,
            patience=patience,
            restarts=restarts,
            draws=draws,
            random_state=random_state,
            n_jobs=n_jobs,
            device=device,
            verbose=verbose,
            likelihood=likelihood,
            calibrate=calibrate,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the network to a table of rows and their labels.

        Args:
            X: Table (rows, inputs): an array of numbers, or a pandas DataFrame, whose columns may also be texts,
                categories, truth values and dates, and have gaps.
            y: Labels (rows,): numbers, texts, or True and False.
            sample_weight: How much each row counts, (rows,), as in `R2D2Regressor.fit`.

        Returns:
            The fitted estimator itself.

        Raises:
            DataError: If the data cannot be used, for example labels of one class only.
            ParameterError: If a parameter of the estimator lies outside its range.
        """
        return self._fit(X, y, sample_weight=sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Fit to more rows, which come after those of earlier calls; those are not needed again.

        See `R2D2Regressor.partial_fit`.

        Args:
            X: Table (rows, inputs), as in `fit`.
            y: Labels (rows,), each one of the classes.
            classes: All labels there will be, for the first call; later calls need none.
            sample_weight: None, or ones: rows in parts count alike.

        Returns:
            The fitted estimator itself.

        Raises:
            DataError: If the data cannot be used, or a label is not among the classes.
            ParameterError: If ``classes`` are lacking or others than before, or a parameter asks for something else
                than one model by SVGI without validation rows, or than the first call did, or rows have weights.
        """
        self._require_one_svgi(y, sample_weight)
        if self.class_weight is not None:
            unweighted = "is not for partial_fit, whose rows have no weights"
            raise ParameterError(unweighted, argument="class_weight", value=self.class_weight, fix="leave it out")
        first = not hasattr(self, "posterior_")
        if first and classes is None:
            raise ParameterError("are lacking", argument="classes", fix="give all labels at the first partial_fit")
        asked = None if classes is None else np.unique(_of_one_kind(np.asarray(classes)))
        if first:
            return self._fit(X, y, asked)
        if asked is not None and not np.array_equal(asked, self.classes_):
            problem = ("are not those of the first call, ", Value(self.classes_.tolist()))
            raise ParameterError(problem, argument="classes", fix="leave them out")
        X, y = self._more_rows(X, y)
        return self.carry_on(X, numbers_of(_of_one_kind(y), self.labels_, "y"))

    def _fit(self, X: Any, y: Any, asked: np.ndarray | None = None, sample_weight: Any = None) -> Self:
        """Fit to the classes of the labels, or one model to those that are asked for."""
        table, order = X, category_order(y)
        X, y = self._rows_to_fit(X, y)
        X, y, table, weights = self._of_weight(X, _of_one_kind(y), table, sample_weight)
        check_classification_targets(y)
        if asked is None:
            likelihood, classes, codes = class_likelihood(self.likelihood, y, order)
        else:
            likelihood, classes = class_likelihood(self.likelihood, asked)[:2]
            codes = numbers_of(y, classes, "y")
        names = [str(label) for label in classes.tolist()]
        inputs, X = self._learn_inputs(X, table, lambda seed: Targets.of(codes.astype(np.float64), names, seed))
        validation = self._validation(inputs)
        if isinstance(validation, tuple):
            with about_validation():
                labels = _of_one_kind(validation[1])
            validation = validation[0], numbers_of(labels, classes)
        weights = weights_by_class(self.class_weight, classes, codes, weights)
        if weights is not None and not (weights > 0).all():  # of a class without weight
            kept = weights > 0
            X, codes, weights = X[kept], codes[kept], weights[kept]
        outputs = 1 if isinstance(likelihood, Ordinal) else len(classes)
        given: dict[str, Any] = {"alone": asked is not None, "weights": weights, "columns": inputs}
        self.fit_checked(X, codes, outputs, likelihood, validation, self._folder, **given)
        self.labels_ = classes
        self._show_labels()
        return self._with_inputs(inputs)

    @property
    def classes_(self) -> np.ndarray:
        """Labels in ascending order, that of the columns of `predict_proba`."""
        return np.sort(self.labels_)

    def _own_state(self) -> dict[str, Any]:
        weight = self.class_weight
        if isinstance(weight, Mapping):
            weight = [[_plain(label), float(factor)] for label, factor in weight.items()]
        return {**super()._own_state(), "class_weight": weight}

    def _restore_own(self, content: dict[str, Any]) -> None:
        super()._restore_own(content)
        weight = content.get("class_weight")  # earlier versions had none
        self.class_weight = dict(map(tuple, weight)) if isinstance(weight, list) else weight

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class of each row.

        Args:
            X: Table (rows, inputs), as in `fit`.

        Returns:
            The labels, (rows,).
        """
        probabilities = self.predict_proba(X)
        assert isinstance(probabilities, np.ndarray)
        return self.classes_[probabilities.argmax(1)]

    def predict_proba(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict class probabilities.

        Args:
            X: Table (rows, inputs), as in `fit`.
            return_std: Return the standard deviations of the probabilities under the posterior as well.

        Returns:
            The probabilities (rows, classes), or the pair of probabilities and standard deviations.
        """
        probabilities, deviations = [], []
        for prediction in self._predictions(X):
            assert isinstance(prediction, Classification)
            probabilities.append(prediction.probs)
            if return_std:
                deviations.append(prediction.std)
        order = self.labels_.argsort(kind="stable")
        if return_std:
            return joined(probabilities)[:, order], joined(deviations)[:, order]
        return joined(probabilities)[:, order]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict the logarithms of the class probabilities.

        Args:
            X: Table (rows, inputs), as in `fit`.

        Returns:
            The logarithms (rows, classes), all finite: a probability that float64 rounds to 0 counts as 2e-308.
        """
        probabilities = self.predict_proba(X)
        assert isinstance(probabilities, np.ndarray)
        return np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny))


def _plain(label: Any) -> Any:
    """Return a label as a number or text of Python."""
    return label.item() if isinstance(label, np.generic) else label


def _of_one_kind(y: np.ndarray) -> np.ndarray:
    """Convert labels of dtype object, such as a pandas column, to booleans or numbers where all are of that kind.

    >>> _of_one_kind(np.array([True, False], dtype=object))
    array([ True, False])
    """
    if y.dtype != object or all(isinstance(label, str) for label in y):
        return y
    truths = [isinstance(label, (bool, np.bool_)) for label in y]
    if all(truths) or (not any(truths) and all(isinstance(label, Real) for label in y)):
        return np.array(y.tolist())
    kinds = ", ".join(sorted({type(label).__name__ for label in y}))
    problem = ("has dtype object and holds ", Value(Shown(kinds)))
    raise DataError(problem, argument="y", fix="use labels of one kind, texts, whole numbers or bool")
