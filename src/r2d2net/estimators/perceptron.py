"""A Bayesian perceptron of checked arrays: fitting, relevance of inputs, saving, all without scikit-learn.

The estimators add scikit-learn's interface (`base`); the command line, whose tables are checked already, does without
it, as its import takes a second.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
import torch
from torch import Tensor, nn

from r2d2net.columns.input_columns import Columns
from r2d2net.errors import (
    Argument,
    CheckpointError,
    DataError,
    ParameterError,
    R2D2NetError,
    Value,
    require,
    require_whole,
)
from r2d2net.estimators import storage
from r2d2net.estimators.float64_units import in_users_units, move_inputs, move_targets, require_float32
from r2d2net.estimators.named_settings import is_auto, prior_of, require_suitable, seed_of
from r2d2net.estimators.number_likelihood import number_likelihood
from r2d2net.estimators.table_inputs import TableInputs
from r2d2net.inference import method_named
from r2d2net.likelihoods import Likelihood
from r2d2net.manifest import Parts, opened, replacing
from r2d2net.model import BayesianModel
from r2d2net.nets import mlp
from r2d2net.posterior import Posterior
from r2d2net.run.batches import mix
from r2d2net.run.carrying_on import carry_on
from r2d2net.run.choice import epochs_for
from r2d2net.run.fit import fit
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.health import found_nothing
from r2d2net.run.stacking import fit_stacked
from r2d2net.saved_posteriors import load_saved, read_saved
from r2d2net.shrinkage import Relevance, input_relevance
from r2d2net.shrinkage.relevance import NamedRelevance
from r2d2net.specification import require_classes

RELEVANCE_ROWS, RELEVANCE_DRAWS, SHUFFLES = 500, 50, 2
CHECKPOINT_SECONDS = 5.0
HIDDEN = (50, 50)
FEWEST_STACKED = 12  # rows from which folds say something
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, ParameterError)
# parameters that are decided by the first rows of those that come in parts
DECIDED = ("hidden", "activation", "prior", "algorithm", "likelihood", "random_state", "device")
# by the names that `fit` and `predict` have for them
PARAMETERS = {"seed": "random_state", "jobs": "n_jobs", "x": "X", "weights": "sample_weight"}


class Perceptron:
    """Parameters, fitting to checked arrays, relevance of inputs, saving.

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

    posterior_: Posterior[Any]
    n_features_in_: int
    feature_names_in_: np.ndarray
    _inputs: TableInputs | None = None  # how the columns of a table become inputs; None of an array
    _relevance: Relevance | None
    _rows: np.ndarray | None  # training rows from which the relevance is computed
    _asked: dict[str, Any]  # parameters of the fit that later rows cannot change

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
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.prior = prior
        self.algorithm = algorithm
        self.time = time
        self.epochs = epochs
        self.batch_size = batch_size
        self.validation = validation
        self.patience = patience
        self.restarts = restarts
        self.draws = draws
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.likelihood = likelihood
        self.calibrate = calibrate

    def fit_numbers(
        self,
        X: np.ndarray,
        y: np.ndarray,
        validation: Any,
        folder: Path | None = None,
        *,
        begun: float | None = None,
        alone: bool = False,
        weights: np.ndarray | None = None,
        columns: TableInputs | None = None,
    ) -> Self:
        """Fit to numbers by the likelihood that the parameter ``likelihood`` stands for.

        Where several models are combined, ``posterior_.settings["likelihood"]`` says which that is and why.

        Args:
            X: Table (rows, inputs), finite, of dtype float64.
            y: Targets, (rows,) or (rows, outputs), of dtype float64.
            validation: Share of the rows to hold out, or rows (X, y) as those to fit; None for none.
            folder: Folder of checkpoints, from which an interrupted fit goes on; None for none.
            begun: When the seconds of ``time`` began, by `time.monotonic`; None for now.
            alone: Whether one model is fitted even where none is asked for.
            weights: Weights of the rows, (rows,), positive; None for none.
            columns: The columns that became inputs, for a prior that names them; None where inputs have no names.

        Returns:
            The fitted estimator itself.

        Raises:
            DataError: If the data cannot be used.
            ParameterError: If a parameter of the estimator lies outside its range.
        """
        begun = clock.monotonic() if begun is None else begun
        seed = seed_of(self.random_state)
        with in_parameters():
            choice = number_likelihood(
                self.likelihood,
                move_inputs(X).of(X),
                y,
                compares=self.searches and not alone and weights is None and len(X) >= FEWEST_STACKED,
                seed=seed,
                device=self.device,
                jobs=joblib.effective_n_jobs(self.n_jobs),
                time=self.time,
                weighs=weights is not None,
            )
            likelihood = choice.likelihood
            outputs = likelihood.outputs(likelihood.target(torch.from_numpy(y))) or 1
        given: dict[str, Any] = {"begun": begun, "alone": alone, "weights": weights, "columns": columns, "seed": seed}
        self.fit_checked(X, y, outputs, likelihood, validation, folder, **given)
        if "stack" in self.posterior_.settings:  # those of one model are compared when its run is resumed
            self.posterior_.settings = {**self.posterior_.settings, "likelihood": choice.record}
        return self

    def fit_checked(
        self,
        X: np.ndarray,
        y: np.ndarray,
        outputs: int,
        likelihood: Likelihood[Any],
        validation: Any,
        folder: Path | None = None,
        *,
        seed: int | None = None,
        begun: float | None = None,
        alone: bool = False,
        weights: np.ndarray | None = None,
        columns: TableInputs | None = None,
    ) -> Self:
        """Fit to checked arrays; where that fails the estimator is left unchanged.

        Args:
            X: Table (rows, inputs), finite, of dtype float64.
            y: Targets, of dtype float64, or class numbers, of dtype int64.
            outputs: Number of outputs of the network.
            likelihood: The likelihood.
            validation: Share of the rows to hold out, or rows (X, y) as those to fit; None for none.
            folder: Folder of checkpoints, from which an interrupted fit goes on; None for none.
            seed: Seed of everything random; None for that of ``random_state``.
            begun: When the seconds of ``time`` began, by `time.monotonic`; None for now.
            alone: Whether one model is fitted even where none is asked for.
            weights: Weights of the rows, (rows,), positive; None for none.
            columns: The columns that became inputs, for a prior that names them; None where inputs have no names.

        Returns:
            The fitted estimator itself.

        Raises:
            DataError: If the data cannot be used.
            ParameterError: If a parameter of the estimator lies outside its range.
        """
        require_whole("draws", self.draws)
        require(isinstance(self.calibrate, bool), "calibrate", self.calibrate, "use True or False")
        if self.batch_size is not None:
            require_whole("batch_size", self.batch_size)
        seed = seed_of(self.random_state) if seed is None else seed
        if not likelihood.has_classes:
            require_float32(y)
        moves = likelihood.standardizes and likelihood.on_network_scale() is likelihood
        inputs, targets = move_inputs(X), move_targets(y) if moves else None

        def moved(x: np.ndarray, y: np.ndarray) -> tuple[Tensor, Tensor]:
            return inputs.of(x), torch.from_numpy(y) if targets is None else targets.of(y)

        with in_parameters():
            if self.searches and not alone and len(X) >= FEWEST_STACKED:
                posterior = self._fit_several(moved(X, y), outputs, likelihood, seed, folder, begun, weights)
                network = posterior.settings["stack"]["network"]
            else:
                places = None if columns is None else columns.places()
                size = (len(X), X.shape[1], outputs)
                network, arguments = self._one_model(*size, likelihood, seed, places, alone=alone)
                held = moved(*validation) if isinstance(validation, tuple) else validation
                posterior = fit(data=moved(X, y), validation=held, resume=folder, weights=weights, **arguments)
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
        self.posterior_ = in_users_units(posterior, inputs, targets)
        self._network, self._seed, self.n_features_in_ = network, seed, X.shape[1]
        self._relevance, self._rows = None, X[order[:RELEVANCE_ROWS].numpy()]
        self._inputs = None
        self._asked = {name: getattr(self, name) for name in DECIDED}
        return self

    def _with_inputs(self, inputs: TableInputs | None) -> Self:
        """Remember how the columns of the fitted table became inputs."""
        self._inputs = inputs
        if inputs is not None:
            self.n_features_in_ = len(inputs.names)
        return self

    @property
    def columns_(self) -> Columns:
        """How the columns of a table of more than numbers were read; an AttributeError where X was numbers."""
        if self._inputs is None or self._inputs.columns is None:
            raise AttributeError("the estimator was fitted to numbers, which are taken as they are")
        return self._inputs.columns

    def carry_on(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit to new rows beside those of the fits before; where that fails the estimator is left unchanged.

        Args:
            X: Rows as `fit_checked` takes them.
            y: Targets or class numbers, as `fit_checked` takes them.

        Returns:
            The fitted estimator itself.

        Raises:
            DataError: If the data cannot be used.
            ParameterError: If the estimator was fitted by another algorithm than SVGI, or as several models.
        """
        seen = self.posterior_.settings["n"]
        seed = mix(self._seed, seen)
        with in_parameters():
            posterior = carry_on(
                self.posterior_,
                (X, torch.from_numpy(y)),
                epochs=self.epochs,
                batch_size=self.batch_size,
                seed=seed,
                verbose=bool(self.verbose),
            )
        self.posterior_ = posterior
        self._show_labels()
        rows = X if self._rows is None else np.concatenate([self._rows, X])
        self._relevance, self._rows = None, rows[np.random.default_rng(seed).permutation(len(rows))[:RELEVANCE_ROWS]]
        return self

    @property
    def searches(self) -> bool:
        """Whether `fit` combines several models, as none is asked for; fewer than 12 rows then have a linear one."""
        asked = (self.hidden, self.prior, self.algorithm, self.epochs, self.batch_size, self.validation, self.patience)
        return all(parameter is None for parameter in asked) and self.restarts == 1

    def _fit_several(
        self,
        data: tuple[Tensor, Tensor],
        outputs: int,
        likelihood: Likelihood[Any],
        seed: int,
        folder: Path | None,
        begun: float | None,
        weights: np.ndarray | None,
    ) -> Posterior[Any]:
        return fit_stacked(
            data,
            likelihood,
            hidden=HIDDEN,
            outputs=outputs,
            activation=self.activation,
            seed=seed,
            device=self.device,
            time=self.time,
            begun=begun,
            jobs=joblib.effective_n_jobs(self.n_jobs),
            resume=folder,
            checkpoint_every=CHECKPOINT_SECONDS,
            verbose=bool(self.verbose),
            calibrate=self.calibrate,
            weights=weights,
        )

    def _one_model(
        self,
        rows: int,
        inputs: int,
        outputs: int,
        likelihood: Likelihood[Any],
        seed: int,
        places: dict[str, list[int]] | None = None,
        *,
        alone: bool = False,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of `mlp`, and those of `fit` but for the data, of a single model.

        ``places`` are the inputs of each column of a table, for a prior that names columns.
        """
        few = self.searches and not alone  # and yet here: a linear model, by the exact sampler
        bounds = self.time is None or few
        require(bounds, "time", self.time, "it bounds the search among several models, and one is asked for")
        usual = "auto" if few else "svgi"
        chosen = usual if self.algorithm is None else self.algorithm
        named = "r2d2" if self.prior is None else self.prior
        prior = prior_of(named)
        method = None if is_auto(chosen) else method_named(chosen)
        require_suitable(chosen, named, has_classes=likelihood.has_classes)
        widths = [] if few else widths_of(HIDDEN if self.hidden is None else self.hidden)
        network = {"inputs": inputs, "hidden": widths, "outputs": outputs, "activation": self.activation}
        if method is not None and method.needs_linear_path:
            network["linear"] = True
        prior = None if prior is None else prior.for_columns(places)
        model = BayesianModel(build(network, seed, self.device), prior, likelihood)
        epochs = self.epochs
        if epochs is None and method is not None:
            epochs = epochs_for(rows, self.batch_size, method, model if prior is not None else None)
        arguments: dict[str, Any] = {
            "model": model,
            "algorithm": "auto" if method is None else method,
            "epochs": epochs,
            "batch_size": self.batch_size,
            "seed": seed,
            "patience": self.patience,
            "prior": "auto" if prior is None else None,
            "restarts": self.restarts,
            "jobs": joblib.effective_n_jobs(self.n_jobs),
            "checkpoint_every": CHECKPOINT_SECONDS,
            "verbose": bool(self.verbose),
        }
        return network, arguments

    @property
    def relevance_(self) -> Relevance:
        """Relevance of each input to the network: posterior mean, 90% interval, whether it is kept.

        The inputs are the columns of X: the levels of a category are one, and a column that was left out has none.

        It is computed at the first access, on up to 500 of the training rows (see
        `r2d2net.shrinkage.input_relevance`), which the estimator keeps until then; `save` writes the relevance, and
        no rows.
        """
        self._require_fitted()
        if self._relevance is None:
            if self._rows is None:
                from sklearn.exceptions import NotFittedError

                raise NotFittedError("the estimator was saved without its relevance: fit it again")
            rows = torch.tensor(self._rows)  # a copy: joblib may have mapped them from a file, not to be written
            draws = min(RELEVANCE_DRAWS, self.draws)
            placed = None if self._inputs is None else self._inputs.groups()
            relevance = input_relevance(
                self.posterior_,
                rows,
                groups=None if placed is None else placed[1],
                draws=draws,
                shuffles=SHUFFLES,
                seed=self._seed,
            )
            relevance = Relevance(*(part.cpu() for part in relevance))
            if placed is not None:
                relevance = relevance.among(self.n_features_in_, placed[0])
            self._relevance = relevance.without_kept() if found_nothing(self.posterior_.health) else relevance
            self._rows = None
        names = None if self._inputs is None else self._inputs.names
        return self._relevance if names is None else NamedRelevance.of(self._relevance, names)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each input in the importance of all, by which inputs are ranked; they add up to at most 1.

        The importance (`relevance_.importance`) is the mean of two shares of the output's variance: the share that is
        lost when the input is shuffled (`relevance_.mean`) and the share that the input explains by itself
        (`relevance_.alone`). So of inputs that carry nearly the same information, those that the network does not use
        still rank above noise. Importances may add up to more than 1, and are divided by their sum where they do.
        """
        return self.relevance_.share.double().numpy()

    @property
    def feature_importances_std_(self) -> np.ndarray:
        """Standard deviation of each input's importance under the posterior, in units of `feature_importances_`."""
        return self.relevance_.share_std.double().numpy()

    def save(self, folder: str | Path, *, relevance: bool = True) -> Path:
        """Save the fitted estimator into a folder as safetensors and JSON, without pickles; `load` reads it.

        No rows of data are saved: where ``validation`` was rows, the loaded estimator has None there; its predictions
        are the same.

        Args:
            folder: Folder to write, made where it is missing.
            relevance: Save the relevance of the inputs too. The rows from which it is computed are not saved, so
                without it the loaded estimator has none.

        Returns:
            The folder.

        Raises:
            ParameterError: If a parameter of the estimator cannot be written as JSON.
        """
        self._require_fitted()
        measures = self.relevance_._asdict() if relevance else {}
        names = getattr(self, "feature_names_in_", None)
        parameters = {name: getattr(self, name) for name in signature(Perceptron).parameters}
        content = {
            "estimator": self.saved_as(),
            "parameters": storage.plain_parameters(parameters),
            "left_out": storage.left_out(parameters),
            "seed": self._seed,
            "network": self._network,
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else names.tolist(),
            "inputs": None if self._inputs is None else self._inputs.plain(),
            "relevance": {name: part.tolist() for name, part in measures.items()},
            **self._own_state(),
        }
        with replacing(Path(folder)) as staging:
            self.posterior_.stage(staging)
            staging.json(storage.FILE, content)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, *, device: Any = None, classes: Sequence[type] = ()) -> Self:
        """Load an estimator that `save` has written.

        Args:
            folder: Folder of the estimator.
            device: Device of the computation; by default that of the saved estimator.
            classes: Classes of priors and algorithms that are not r2d2net's own, where the estimator has any.

        Returns:
            The fitted estimator.

        Raises:
            CheckpointError: If the folder holds no estimator of this class and this version of r2d2net.
        """
        require_classes(classes)
        with opened(Path(folder)) as parts:
            return cls.of_parts(parts, device=device, classes=classes)

    @classmethod
    def of_parts(cls, parts: Parts, *, device: Any = None, classes: Sequence[type] = ()) -> Self:
        """Load an estimator from the open parts of its folder.

        Args:
            parts: The parts.
            device: As in `load`.
            classes: As in `load`.

        Returns:
            The fitted estimator.

        Raises:
            CheckpointError: As in `load`.
        """
        content = storage.read(parts, cls.saved_as())
        saved = read_saved(parts)
        storage.require_network(content, saved)
        if device is not None:
            device_of(device)
        try:
            parameters = storage.parameters_from(content["parameters"], classes)
            estimator = cls(**parameters if device is None else {**parameters, "device": device})
            estimator._seed, estimator._network = content["seed"], content["network"]
            estimator._asked = {name: getattr(estimator, name) for name in DECIDED}
            estimator.n_features_in_ = content["n_features_in"]
            if content["feature_names_in"] is not None:
                estimator.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
            inputs = content.get("inputs")  # earlier versions had none
            estimator._inputs = None if inputs is None else TableInputs.of(inputs)
            estimator._require_inputs()
            measures = {name: torch.tensor(values) for name, values in content["relevance"].items()}
            estimator._relevance, estimator._rows = Relevance.restored(measures) if measures else None, None
            estimator._restore_own(content)
            net = build(estimator._network, estimator._seed, estimator.device)
            require_whole("draws", estimator.draws)
        except MALFORMED as error:
            reason = f"{type(error).__name__}: {error}"[:300]
            problem = f"holds no {cls.saved_as()} of this version of r2d2net: {reason}"
            raise CheckpointError(problem, value=parts.folder) from error
        estimator.posterior_ = load_saved(saved, net, classes)
        estimator._require_predictions(saved.path)
        estimator._show_labels()
        return estimator

    def _require_inputs(self) -> None:
        """Refuse columns that do not become the inputs of the network; a ValueError."""
        inputs, own = self._network["inputs"], self._inputs
        names = getattr(self, "feature_names_in_", None)
        if own is None:
            given, encoded = self.n_features_in_, self.n_features_in_
        else:
            given = len(own.names)
            encoded = given if own.columns is None else sum(len(group) for group in own.columns.groups)
            if own.columns is None and len(own.medians) != given:
                raise ValueError("another number of medians than of columns")
            if own.columns is not None and not set(own.columns.names) <= set(own.names):
                raise ValueError("columns that the table does not have")
        if encoded != inputs or given != self.n_features_in_ or (names is not None and len(names) != given):
            raise ValueError(f"a network of {inputs} inputs for {encoded}")

    def _require_predictions(self, path: Path) -> None:
        """Predict two rows in the middle of the training rows, which every whole posterior can."""
        posterior = self.posterior_
        center = posterior.units.x_center
        x = center.expand(2, -1) if center.numel() else torch.zeros(2, self._network["inputs"])
        try:
            with torch.random.fork_rng(devices=[]):
                mean = posterior.predict(x, 2, seed=0).mean
            fits = len(mean) == 2 and not bool(mean.isnan().any())
        except Exception as error:  # whatever the mistake, it is the file's
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise CheckpointError(f"cannot predict ({reason})", value=path, fix=storage.AGAIN) from error
        if not fits or (isinstance(self, LabelledPerceptron) and len(self.labels_) != mean.shape[-1]):
            raise CheckpointError("predicts something else than its estimator says", value=path, fix=storage.AGAIN)

    @classmethod
    def saved_as(cls) -> str:
        """Name the class in a saved file.

        Returns:
            The name of the estimator that loads it.
        """
        return cls.__name__

    def _require_fitted(self) -> None:
        if not hasattr(self, "posterior_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {self.saved_as()} is not fitted: call fit before")

    def _show_labels(self) -> None:
        """Let predictions of the posterior show the labels of classes."""

    def _own_state(self) -> dict[str, Any]:
        """Return the state that only the subclass has, as JSON."""
        return {}

    def _restore_own(self, content: dict[str, Any]) -> None:
        """Restore the state that `_own_state` returned."""


class LabelledPerceptron(Perceptron):
    """A perceptron of classes, which is saved with their labels."""

    labels_: np.ndarray  # in the order of the outputs, which is that of ordinal classes

    def _show_labels(self) -> None:
        self.posterior_.labels = [str(label) for label in self.labels_.tolist()]

    def _own_state(self) -> dict[str, Any]:
        return {"classes": storage.plain_labels(self.labels_)}

    def _restore_own(self, content: dict[str, Any]) -> None:
        self.labels_ = storage.labels_from(content["classes"])


def class_numbers(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the classes of labels.

    Args:
        y: Labels, (rows,).

    Returns:
        The classes in ascending order and the number of each row's class.

    Raises:
        DataError: If there is one class only.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        problem = ("has one class, ", Value(classes.tolist()[0]))
        raise DataError(problem, argument="y", fix="give rows of at least two classes")
    return classes, codes.astype(np.int64)


def numbers_of(labels: np.ndarray, classes: np.ndarray, argument: str = "validation") -> np.ndarray:
    """Convert the labels of rows to numbers of classes that are known.

    Args:
        labels: Labels, (rows,).
        classes: The classes of the training rows.
        argument: The argument that holds the labels, for errors.

    Returns:
        The number of each row's class.

    Raises:
        DataError: If a label is not among the classes.
    """
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        label = Value(labels[unknown].tolist()[0])
        problem = ("holds the label ", label, ", which ", Argument("y" if argument != "y" else "classes"), " does not")
        raise DataError(problem, argument=argument, fix="leave it out")
    order = np.argsort(classes, kind="stable")  # ordinal classes may have another order
    return order[np.searchsorted(classes[order], labels)]


@contextmanager
def in_parameters() -> Iterator[None]:
    """Let errors name arguments as the estimators' parameters are called: ``random_state``, not ``seed``."""
    try:
        yield
    except R2D2NetError as error:
        error.rename(PARAMETERS)
        raise


def widths_of(hidden: Any) -> list[Any]:
    """Convert the widths of the hidden layers to plain numbers; a single number is one layer."""
    several = isinstance(hidden, (Sequence, np.ndarray)) and not isinstance(hidden, str)
    require(several or isinstance(hidden, Integral), "hidden", hidden, "use widths, such as (50, 50)")
    widths = hidden if several else (hidden,)
    whole = all(isinstance(width, Integral) and not isinstance(width, bool) and int(width) >= 1 for width in widths)
    require(whole, "hidden", hidden, "use whole numbers from 1")
    return [int(width) for width in widths]


def build(network: dict[str, Any], seed: int, device: Any) -> nn.Module:
    """Build the plain network without changing torch's global generator."""
    place = device_of(device)
    with lent_generator(seed, torch.device("cpu")):
        return mlp(**network).to(place, torch.float32)


def device_of(device: Any) -> torch.device:
    """Return a device that is there, the CPU by default.

    Args:
        device: The device, its name, or None.

    Raises:
        ParameterError: If it is none, or not there.
    """
    try:
        place = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise ParameterError("is no device", argument="device", value=device, fix="use 'cpu' or 'cuda'") from error
    try:
        torch.zeros(1, device=place).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ParameterError("is not there", argument="device", value=device, fix="use 'cpu'") from error
    return place
