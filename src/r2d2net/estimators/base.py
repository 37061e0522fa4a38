"""The common base of regressor and classifier: a Bayesian perceptron with scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from textwrap import shorten
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data
from torch import Tensor

from r2d2net.columns.column_detection import Targets
from r2d2net.errors import DataError, ParameterError, R2D2NetError, Value, require
from r2d2net.estimators.double_draws import in_double
from r2d2net.estimators.named_settings import is_auto
from r2d2net.estimators.perceptron import Perceptron, in_parameters
from r2d2net.estimators.sample_weights import weights_of
from r2d2net.estimators.storage import are_alike
from r2d2net.estimators.table_inputs import (
    TableInputs,
    is_table,
    learn_table,
    needs_encoding,
    plain_table,
    require_distinct_names,
)
from r2d2net.inference import SVGI, method_named
from r2d2net.inference.mean_field_family import MeanFieldDraws
from r2d2net.prediction import Prediction

BLOCK = 10_000  # rows predicted at a time: the draws of all rows at once would not fit
LONGEST = 300  # characters of a message of scikit-learn that an error quotes


class BayesianPerceptron(Perceptron, BaseEstimator):
    """Base class of the estimators: a perceptron that checks what it is given.

    Args:
        hidden: Widths of the hidden layers; ``()`` is a linear model; None for (50, 50). Unless one of ``hidden``,
            ``prior``, ``algorithm``, ``epochs``, ``batch_size``, ``validation``, ``patience`` and ``restarts`` is
            given, several models, linear ones and networks, are fitted and combined by stacking
            (`r2d2net.run.stacking`); fewer than 12 rows have a linear model. Otherwise one model is fitted.
        activation: Name of the activation.
        prior: Prior of the weights: "r2d2" (for None), "adaptive" (learns its own sparsity and scale) or another name
            of `r2d2net.registry.PRIORS`; "auto" (two adaptive priors, between which validation chooses); or an object
            of `r2d2net.priors`.
        algorithm: "svgi" (for None) or another name of `r2d2net.registry.ALGORITHMS`; "auto" (exact or by chains where
            that is affordable, see `fit`); or an object of `r2d2net.inference`, such as ``SGHMC(chains=4)``.
            Some do not suit every prior: see `r2d2net.registry.SUITABLE_PRIORS`.
        time: Seconds for stacking, those of the choice of the likelihood included, which less than 60 leave out: models
            and folds that are not expected to end in time are skipped, all but one
            (the posterior's settings say which). The result then depends on the machine.
        epochs: Passes over the rows; by default the number that makes about 1,000 steps, from 20 to 300 (1,000 where
            SVGI averages its sweeps), and for algorithms that see all rows at once a number of their own.
        batch_size: Rows of a step; by default chosen from the number of rows.
        validation: Share of the rows to hold out, or other rows (X, y). They correct the noise variance, and so the
            width of intervals.
        patience: Stop when held-out rows have not been predicted better for this number of epochs; needs
            ``validation``.
        restarts: Number of fits from different starts, of which the best on held-out rows is kept.
        draws: Number of networks drawn from the posterior for a prediction.
        random_state: Seed of everything random, a RandomState from which one is drawn, or None for a new one at each
            fit. Predictions of a fitted estimator do not change from call to call.
        n_jobs: Processes for several runs (restarts, "auto", ensembles, chains); the result is the same.
        device: Device of the computation, such as "cuda"; the CPU by default.
        verbose: Show progress on a terminal.
        likelihood: Of numbers: "gaussian", "student-t", "heteroscedastic", "log-normal", "gamma", "poisson" or
            "negative-binomial", or an object of `r2d2net.likelihoods`; "auto" compares those that the targets allow by
            rows left out (`r2d2net.run.likelihood_choice`) where several models are combined, and is "gaussian" where
            one is asked for. Of classes: "auto", or "ordinal" where they are in an order (see `R2D2Classifier`).
        calibrate: Calibrate the intervals of numbers by the rows that stacking leaves out, where they are 100 or more
            (`r2d2net.interval_calibration`). Means, standard deviations and densities stay the model's.
    """

    _folder: Path | None = None  # folder of `fit_in`'s checkpoints

    def fit_in(self, folder: str | Path, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit with checkpoints in a folder, so that an interrupted fit can be continued with the same result.

        Where the folder holds a finished fit of these rows and parameters, that fit is loaded.

        Args:
            folder: Folder of the checkpoints.
            X: Table (rows, inputs), as in `fit`.
            y: Targets or labels of the rows, as in `fit`.
            sample_weight: Weights of the rows, as in `fit`.

        Returns:
            The fitted estimator itself.

        Raises:
            ParameterError: If ``random_state`` is not a whole number, or as in `fit`.
        """
        require(isinstance(self.random_state, Integral), "random_state", self.random_state, "use a whole number")
        self._folder = Path(folder)
        try:
            return self.fit(X, y, sample_weight)
        finally:
            del self._folder

    def _require_one_svgi(self, y: Any, sample_weight: Any) -> None:
        """Refuse parameters with which `partial_fit` cannot carry on, and weights of rows."""
        weights = None if sample_weight is None else weights_of(sample_weight, len(y))
        if weights is not None and not (weights == 1).all():
            unweighted = "is not for partial_fit, for which all rows count alike"
            raise ParameterError(unweighted, argument="sample_weight", fix="leave it out, or give all rows to fit")
        chosen = "svgi" if self.algorithm is None else self.algorithm
        fits = {
            "algorithm": not is_auto(chosen) and type(method_named(chosen)) is SVGI,
            "prior": not is_auto(self.prior),
            "restarts": self.restarts == 1,
            **{name: getattr(self, name) is None for name in ("validation", "patience", "time")},
        }
        for name, fit in fits.items():
            if not fit:
                problem = "is not for partial_fit, which carries on with one model by 'svgi' without validation rows"
                raise ParameterError(problem, argument=name, value=getattr(self, name), fix="leave it out")
        if not hasattr(self, "posterior_"):
            return
        for name, before in self._asked.items():
            decided = name != "algorithm" or isinstance(self.posterior_.source, MeanFieldDraws)  # if not it is refused
            if decided and not are_alike(name, getattr(self, name), before):
                changed = (" is not what the first rows were fitted with, ", Value(before))
                fix = f"set {name} back, or fit all rows anew by fit"
                raise ParameterError(changed, argument=name, value=getattr(self, name), fix=fix)

    def _rows_to_fit(self, X: Any, y: Any, **how: Any) -> tuple[Any, np.ndarray]:
        """Check training rows; a table that is to be encoded is returned as it is."""
        if not needs_encoding(X):
            with about_tables():
                checked: tuple[np.ndarray, np.ndarray] = validate_data(
                    self, X, y, dtype=np.float64, ensure_min_samples=2, **how
                )
            return checked
        require_distinct_names(X)
        validate_data(self, X, skip_check_array=True)
        return X, self._targets_of(X, y, **how)

    def _of_weight(
        self, X: Any, y: np.ndarray, table: Any, sample_weight: Any
    ) -> tuple[Any, np.ndarray, Any, np.ndarray | None]:
        """Leave out training rows of weight 0; return rows, targets, rows as the user gave them, and weights."""
        weights = weights_of(sample_weight, len(y))
        if weights is None or (weights > 0).all():
            return X, y, table, weights
        kept = weights > 0
        chosen = X[kept]
        return chosen, y[kept], chosen if X is table else table, weights[kept]

    def _targets_of(self, X: Any, y: Any, least: int = 2, **how: Any) -> np.ndarray:
        """Check the targets of rows that are checked otherwise."""
        _, y = check_X_y(np.zeros((len(X), 1)), y, ensure_min_samples=least, estimator=self, **how)
        assert isinstance(y, np.ndarray)
        return y

    def _learn_inputs(self, X: Any, table: Any, targets: Callable[[int], Targets]) -> tuple[TableInputs | None, Any]:
        """Learn how training rows become inputs: ``table`` as the user gave them, ``X`` as they were checked."""
        if X is table and is_table(X):
            seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
            return learn_table(X, targets(seed))
        return (plain_table(table, X) if is_table(table) else None), X

    def _validation(self, inputs: TableInputs | None, **how: Any) -> Any:
        """Check validation rows (X, y) as rows to predict are checked; return a share of the rows unchanged."""
        if not isinstance(self.validation, (tuple, list)):
            return self.validation
        if len(self.validation) != 2:
            fix = "use a share between 0 and 1, or (X, y)"
            raise ParameterError(("has ", Value(len(self.validation)), " parts"), argument="validation", fix=fix)
        with about_validation():
            X, y = self.validation
            if inputs is None or inputs.columns is None:
                return validate_data(self, X, y, reset=False, dtype=np.float64, **how)
            return self._rows_to_predict(inputs, X), self._targets_of(X, y, 1, **how)

    def _rows_to_predict(self, inputs: TableInputs | None, X: Any) -> np.ndarray:
        """Check rows to predict and encode them as the training rows were."""
        if inputs is None or inputs.columns is None:
            X = X if inputs is None else inputs.encode(X)
            with about_tables():
                return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        if is_table(X):
            validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(inputs.encode(X))

    def _more_rows(self, X: Any, y: Any, **how: Any) -> tuple[np.ndarray, np.ndarray]:
        """Check rows with which a fit is carried on."""
        if self._inputs is None:
            checked: tuple[np.ndarray, np.ndarray] = validate_data(self, X, y, reset=False, dtype=np.float64, **how)
            return checked
        return self._rows_to_predict(self._inputs, X), self._targets_of(X, y, 1, **how)

    def encode(self, X: Any) -> np.ndarray:
        """Encode rows as inputs of the network, such as ``posterior_.predict`` takes them.

        Args:
            X: Table (rows, inputs), as in `fit`.

        Returns:
            The inputs, (rows, inputs of the network); of a table of numbers the numbers themselves.
        """
        check_is_fitted(self, "posterior_")
        return self._rows_to_predict(self._inputs, X)

    def _predictions(self, X: Any) -> Iterator[Prediction]:
        """Predict the rows a block at a time, all with the same draws of the network."""
        check_is_fitted(self, "posterior_")
        checked = self._rows_to_predict(self._inputs, X)
        posterior = in_double(self.posterior_)
        for start in range(0, len(checked), BLOCK):
            with in_parameters():
                prediction = posterior.predict(checked[start : start + BLOCK], self.draws, seed=self._seed)
            yield prediction


@contextmanager
def about_tables() -> Iterator[None]:
    """Say in one line that texts and gaps, which arrays must not have, may stand in a table."""
    try:
        yield
    except R2D2NetError:
        raise
    except ValueError as error:
        text = str(error).partition("\n")[0]
        if "X contains NaN" not in text and "could not convert string to float" not in text:
            raise
        fix = "give training rows and rows to predict as a pandas DataFrame, which is encoded, or numbers without gaps"
        raise DataError(f": {shorten(text, LONGEST, placeholder=' ...')}", argument="X", fix=fix) from error


@contextmanager
def about_validation() -> Iterator[None]:
    """Add to errors and warnings, in one line, that they are about validation rows."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    except (TypeError, ValueError) as error:
        reason = shorten(str(error), LONGEST, placeholder=" ...")
        raise DataError(f": {reason}", argument="validation") from error
    for warning in caught:
        warnings.warn(f"validation: {warning.message}", warning.category, stacklevel=5)  # where `fit` is called


def joined(blocks: list[Tensor]) -> np.ndarray:
    """Concatenate tensors of consecutive rows to one array."""
    return torch.cat(blocks).cpu().numpy()
