"""`R2D2Regressor`: a Bayesian perceptron with a shrinkage prior, for continuous targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from r2d2net.columns.column_detection import Targets
from r2d2net.errors import DataError, Value
from r2d2net.estimators.base import BayesianPerceptron, about_validation, joined
from r2d2net.interval_calibration import interval_of
from r2d2net.prediction import Mixture


class R2D2Regressor(RegressorMixin, BayesianPerceptron):
    """Regression by a Bayesian neural network with predictive intervals and relevance of the inputs.

    Inputs and targets are standardised by the estimator; no scaler is needed. Targets may have several columns.

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

    Attributes:
        posterior_: The fitted `r2d2net.Posterior`.
        n_features_in_: Number of inputs.
        feature_names_in_: Names of the inputs, where X had names.
        columns_: How the columns of X were read, where it was a DataFrame of more than numbers: those that are inputs
            (``used``), and why others are not (``left_out``).

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> model = R2D2Regressor(hidden=(), random_state=0, epochs=50).fit(x, 2 * x[:, 0] + 1)
        >>> mean, std = model.predict([[1.0, 0.0, 0.0]], return_std=True)
        >>> mean.round(1)
        array([3.])
        >>> int(model.feature_importances_.argmax())
        0
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the network to a table of rows and their targets.

        Args:
            X: Table (rows, inputs): an array of numbers, or a pandas DataFrame, whose columns may also be texts,
                categories, truth values and dates, and have gaps.
            y: Targets (rows,) or (rows, outputs).
            sample_weight: How much each row counts, (rows,): one of weight 2 as two rows that are alike, one of weight
                0 not at all. The sum stands for the number of rows.

        Returns:
            The fitted estimator itself.

        Raises:
            DataError: If the data cannot be used.
            ParameterError: If a parameter of the estimator lies outside its range, or takes no weights.
        """
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to more rows, which come after those of earlier calls; those are not needed again.

        The first call, or one after `load` or `fit` of one model by SVGI, sets the units of inputs and targets, the
        encoding of columns and the likelihood: its rows should be typical. Later calls carry on by SVGI from where the
        posterior is; what earlier rows said is kept as the normal distribution that the posterior is
        (`r2d2net.inference.carrying_on`). One network is fitted: without ``hidden`` one of the default widths, never
        several models.

        Later calls honour changed ``epochs``, ``batch_size``, ``draws`` and ``verbose``; ``n_jobs`` and ``calibrate``
        do nothing for one model; any other changed parameter is refused, as the first rows have decided it.

        Args:
            X: Table (rows, inputs), as in `fit`.
            y: Targets (rows,) or (rows, outputs).
            sample_weight: None, or ones: rows in parts count alike.

        Returns:
            The fitted estimator itself.

        Raises:
            DataError: If the data cannot be used.
            ParameterError: If a parameter asks for something else than one model by SVGI without validation rows, or
                than the first call did, or rows have weights.
        """
        self._require_one_svgi(y, sample_weight)
        if not hasattr(self, "posterior_"):
            return self._fit(X, y, alone=True)
        X, y = self._more_rows(X, y, multi_output=True, y_numeric=True)
        return self.carry_on(X, _like_first(y.astype(np.float64), flat=self.posterior_.flat_target))

    def _fit(self, X: Any, y: Any, sample_weight: Any = None, *, alone: bool = False) -> Self:
        table = X
        X, y = self._rows_to_fit(X, y, multi_output=True, y_numeric=True)
        X, y, table, weights = self._of_weight(X, y.astype(np.float64), table, sample_weight)
        inputs, X = self._learn_inputs(X, table, lambda seed: _averaged(y, seed))
        validation = self._validation(inputs, multi_output=True, y_numeric=True)
        if isinstance(validation, tuple):
            validation = validation[0], _targets_like(y, validation[1])
        self.fit_numbers(X, y, validation, self._folder, alone=alone, weights=weights, columns=inputs)
        return self._with_inputs(inputs)

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of each row's target.

        Args:
            X: Table (rows, inputs), as in `fit`.
            return_std: Return the standard deviation of a new observation as well.

        Returns:
            The means, (rows,) or (rows, outputs), or the pair of means and standard deviations.
        """
        means, deviations = [], []
        for prediction in self._mixtures(X):
            means.append(prediction.mean)
            if return_std:
                deviations.append(prediction.std)
        return (joined(means), joined(deviations)) if return_std else joined(means)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Predict the central interval that contains a new observation with a given probability.

        Where the fit has a calibration (parameter ``calibrate``), these are the model's intervals at the level that
        held on rows left out.

        Args:
            X: Table (rows, inputs), as in `fit`.
            level: The probability, strictly between 0 and 1.

        Returns:
            The lower and the upper ends, each (rows,) or (rows, outputs).

        Raises:
            ParameterError: If the level does not lie strictly between 0 and 1.
        """
        ends = [interval_of(prediction, level, self.posterior_.calibration) for prediction in self._mixtures(X)]
        return joined([low for low, _ in ends]), joined([high for _, high in ends])

    def _mixtures(self, X: Any) -> Iterator[Mixture]:
        for prediction in self._predictions(X):
            assert isinstance(prediction, Mixture)
            yield prediction

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


def _like_first(y: np.ndarray, *, flat: bool) -> np.ndarray:
    """Bring targets of one output to the shape of the first call's."""
    if flat and y.ndim == 2 and y.shape[1] == 1:
        return y[:, 0]
    return y if flat or y.ndim == 2 else y[:, None]


def _averaged(y: np.ndarray, seed: int) -> Targets:
    """Return targets as averages by level take them; several have numbers as names."""
    outputs = y.reshape(len(y), -1)
    several = outputs.shape[1] > 1
    return Targets(outputs, [f"output {i}" for i in range(outputs.shape[1])] if several else [], seed)


def _targets_like(y: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Bring validation targets to the shape of the training targets; (rows,) and (rows, 1) count as the same."""
    if held[0].size != y[0].size:
        fix = f"the training targets have {y[0].size}, and so must they"
        raise DataError((": y has ", Value(held[0].size), " columns"), argument="validation", fix=fix)
    with about_validation():
        return held.astype(np.float64).reshape(len(held), *y.shape[1:])
