"""The posterior: an object that draws weights and predicts, whatever the algorithm.

posterior.sample(n)              draws of all Bayesian weights, (n, weights)
posterior.predict(x, draws=100)  the predictive distribution in the user's units
posterior.state_dict()           the mean network, for the plain network's load_state_dict
posterior.state_dicts(n)         draws of the network, as state dicts
posterior.save("run")            load("run", net) reads it
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, require, require_seed, require_whole
from r2d2net.forward_draws import forward_draws
from r2d2net.graphs.context import Context, rows_in_context
from r2d2net.inference.base import Draws, DrawSource, Method, copied, flatten
from r2d2net.interval_calibration import IntervalCalibration
from r2d2net.likelihoods.base import Noise
from r2d2net.manifest import Staging, replacing
from r2d2net.model import BayesianModel, Tensors, refusing_inputs
from r2d2net.network_inputs import Units, as_tensors, for_model, no_units
from r2d2net.posterior_views import draw_history, facts_of, html_facts, summary_table
from r2d2net.prediction import PredictionT
from r2d2net.prediction_module import PredictionModule
from r2d2net.predictive_checks import PredictiveCheck, check_prediction
from r2d2net.provenance import provenance
from r2d2net.ranks import Ranks, ranks_of_world
from r2d2net.specification import (
    settings_of,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FILE, INTERRUPTED = "posterior.safetensors", "checkpoint.safetensors"
ROWS = 1000  # rows of a forward pass
MEMORY = 1 << 28  # largest number of elements of weight draws in memory, and of tensors of a vectorised pass


class Posterior(Generic[PredictionT]):
    """A fitted model, generic in what it predicts.

    Attributes:
        source: Distribution from which the networks are drawn.
        units: Units of inputs and targets. Where they are float64 and the network float32, inputs are standardised in
            float64.
        flat_target: Whether the user's targets were one-dimensional.
        history: One dict for each epoch: nll, temperature, noise, validation where there was one, and kl, which is
            computed every 150 steps or so and at the end.
        settings: Settings of the run as JSON, which `save` writes; empty for a posterior that `fit` did not make.
        candidates: Where several runs were compared, one dict for each: prior, restart, validation (the score, least
            is best; None if the run failed, and then also error).
        health: How the fit does on its own training rows: "verdict" ("fits" if nothing is wrong), "error_ratio" (1 is
            the best constant) and what else `r2d2net.run.health` describes; empty if `fit` did not make the posterior.
        calibration: Calibration of intervals by rows left out, where there is one: the estimators and the command line
            apply it to their intervals, ``predict(x).interval(level)`` is the model's own.
        labels: Labels of the classes, which tables and plots of predictions show; None where classes are numbers. The
            estimators set and save them.
    """

    labels: Sequence[str] | None = None

    def __init__(
        self,
        source: DrawSource[Any],
        units: Units,
        *,
        flat_target: bool,
        history: list[dict[str, float]] | None = None,
        settings: dict[str, Any] | None = None,
        candidates: list[dict[str, Any]] | None = None,
        health: dict[str, Any] | None = None,
        calibration: IntervalCalibration | None = None,
    ) -> None:
        self.source, self.units = source, units
        self.flat_target = flat_target
        self.history = [] if history is None else history
        self.settings = {} if settings is None else settings
        self.candidates = [] if candidates is None else candidates
        self.health = {} if health is None else health
        self.calibration = calibration

    @classmethod
    def of(
        cls,
        source: DrawSource[Any],
        method: Method,
        *,
        n: int,
        steps: int,
        seed: int = 0,
        units: Units | None = None,
        flat_target: bool = True,
        history: list[dict[str, float]] | None = None,
    ) -> Self:
        """Make the posterior of a training loop of one's own; it can be saved, and later steps do not change it.

        Args:
            source: What the trainer's `finish` returned.
            method: The algorithm.
            n: Number of training rows that the trainer was built for.
            steps: Number of steps that it was built for.
            seed: Seed of the loop's randomness, for the record.
            units: Units by which the loop standardised inputs and targets; None if it did not.
            flat_target: Whether the targets are one-dimensional.
            history: One dict for each epoch, if there are any.

        Returns:
            The posterior.
        """
        model, state = source.model, copied(source.state)
        own = no_units(torch.zeros((), dtype=model.dtype, device=model.device)) if units is None else units
        settings = settings_of(
            method, model, n=n, steps=steps, seed=seed, flat_target=flat_target, standardize=units is not None
        )
        return cls(source.with_state(state), own, flat_target=flat_target, history=history, settings=settings)

    @property
    def model(self) -> BayesianModel[PredictionT]:
        """The Bayesian model."""
        return self.source.model

    @property
    def state(self) -> Any:
        """The posterior's tensors, a NamedTuple that depends on the algorithm: a copy, which steps may change."""
        return copied(self.source.state)

    def __repr__(self) -> str:
        """Describe algorithm, likelihood, number of weights by prior, and number of stored draws if there are any."""
        algorithm = self.settings["algorithm"]["type"] if self.settings else type(self.source).__name__
        counts: Counter[str] = Counter()
        for slot in self.model.bayesian:
            counts[type(slot.prior).__name__] += slot.stop - slot.start
        priors = ", ".join(f"{count} {name}" for name, count in counts.items())
        likelihood = type(self.model.likelihood).__name__
        available = self.source.available
        stored = "" if available is None else f", stored draws: {available}"
        return f"Posterior({algorithm}, {likelihood} likelihood, {self.model.size} weights by prior: {priors}{stored})"

    def _repr_html_(self) -> str:
        """Show algorithm, weights, likelihood and how the fit went in a notebook."""
        title, _, content = repr(self).removesuffix(")").partition("(")
        facts = [("model", content), *facts_of(self.settings, self.history, self.health)]
        return html_facts(title, facts)

    def summary(self, draws: int = 50, *, seed: int = 0) -> pd.DataFrame:
        """Summarise the weights by parameter.

        Args:
            draws: Number of posterior draws; fewer are used where the posterior stores fewer.
            seed: Seed of the draws.

        Returns:
            A row for each parameter: shape, number of weights, prior, the root mean square of posterior means and of
            posterior standard deviations, and the share of weights whose mean is less than one standard deviation.
        """
        require_whole("draws", draws)
        available = self.source.available
        count = draws if available is None else min(draws, available)
        drawn = self.source.draws(count, self._generator(seed, None), at_once=1)
        networks = (self.named(weights) for some in drawn for weights in some.weights)
        return summary_table(networks, {slot.name: repr(slot.prior) for slot in self.model.bayesian})

    def plot_history(self, *, ax: Axes | None = None) -> Axes:
        """Draw the losses of training and validation rows after each epoch.

        Args:
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes.

        Raises:
            DataError: If the posterior has no history, as one that `fit` did not make.
            ParameterError: If matplotlib is not installed.
        """
        return draw_history(self.history, ax)

    def sample(self, n: int = 1, *, seed: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Draw Bayesian weights; `state_dict` converts a draw to a state dict of the plain network.

        Args:
            n: Number of draws.
            seed: Seed of the draws; None for a random one.
            generator: Source of randomness in place of the seed, on the model's device.

        Returns:
            The weights, (n, weights).
        """
        require_whole("n", n)
        return self.source.sample(n, self._generator(seed, generator))

    def mean(self) -> Tensor:
        """Compute the posterior mean of all Bayesian weights.

        Returns:
            The mean, (weights,).

        Raises:
            ParameterError: If the mean of the stored draws is not a useful network.
        """
        return self.source.center().weights[0]

    def named(self, weights: Tensor) -> Tensors:
        """Split flat weights by parameter name.

        Args:
            weights: Flat weights, (weights,) or (draws, weights).

        Returns:
            Views by name, each (*shape,) or (draws, *shape).
        """
        return self.model.with_kept_rows({slot.name: slot.of(weights) for slot in self.model.bayesian})

    def state_dict(self, weights: Tensor | None = None) -> Tensors:
        """Build a state dict of the plain network at one draw of the weights.

        That network takes inputs and returns outputs in standardised units, which ``posterior.units`` converts;
        networks fitted with ``standardize=False`` use the user's units. Deterministic parameters and buffers are those
        of the mean network.

        Args:
            weights: One draw, (weights,); the posterior mean by default.

        Returns:
            The state dict.
        """
        if weights is not None and not (self.model.fixed or self.model.buffers()):
            return self.model.state_dict(weights, weights[:0], {})
        center = self.source.center()
        return self._state_dict(center if weights is None else center._replace(weights=weights[None]), 0)

    def state_dicts(
        self, n: int = 1, *, seed: int | None = None, generator: torch.Generator | None = None
    ) -> Iterator[Tensors]:
        """Draw state dicts of the plain network, each with its own deterministic parameters and buffers.

        Args:
            n: Number of draws.
            seed: Seed of the draws; None for a random one.
            generator: Source of randomness in place of the seed, on the model's device.

        Yields:
            The state dicts.
        """
        require_whole("n", n)
        for drawn in self.source.draws(n, self._generator(seed, generator), at_once=1):
            for i in range(len(drawn.weights)):
                yield self._state_dict(drawn, i)

    def _state_dict(self, drawn: Draws, i: int) -> Tensors:
        buffers = {name: buffer[i] for name, buffer in drawn.buffers.items()}
        return self.model.state_dict(drawn.weights[i], drawn.fixed[i], buffers)

    def to_module(
        self, draws: int | Literal["mean"] = "mean", *, seed: int | None = 0, spread: bool = False
    ) -> PredictionModule:
        """Build a plain module that predicts as `predict` does, in the user's units: for `torch.export` or ONNX.

        Args:
            draws: "mean" for the network of the mean weights, or a number of draws over which it averages.
            seed: Seed of the draws; None for a random one.
            spread: Let it return the standard deviation of the prediction beside the mean.

        Returns:
            The module. It takes the network's inputs in the user's units and returns ``predict(...).mean``, or that and
            the standard deviation. Later steps or draws do not change it.

        Raises:
            ParameterError: If an argument is out of range, or the mean of the stored draws is no useful network.

        Example:
            >>> import r2d2net as rn
            >>> x = torch.arange(20.0).reshape(10, 2)
            >>> model = rn.BayesianModel(torch.nn.Linear(2, 1))
            >>> posterior = rn.fit(model, (x, 100 + x[:, 0]), epochs=1, verbose=False)
            >>> module = posterior.to_module()
            >>> torch.allclose(module(x), posterior.predict(x, "mean").mean)
            True
        """
        if draws == "mean":
            drawn = self.source.center()
        else:
            fits = isinstance(draws, Integral) and not isinstance(draws, bool) and draws >= 1
            require(fits, "draws", draws, "use a whole number from 1, or 'mean'")
            available = self.source.available
            count = int(draws) if available is None else min(int(draws), available)
            drawn = self.source.joined(count, self._generator(seed, None))
        return PredictionModule(self.model, drawn, self.units, flat_target=self.flat_target, spread=spread)

    @torch.no_grad()
    def predict(
        self,
        x: Any,
        draws: int | Literal["mean"] = 100,
        *,
        seed: int | None = 0,
        generator: torch.Generator | None = None,
        rows: int = ROWS,
        vectorize: bool | None = None,
        ranks: Ranks | Literal["split"] | None = None,
    ) -> PredictionT:
        """Compute the predictive distribution at new inputs.

        Args:
            x: Inputs as in training, in the user's units: a tensor, array or table, a tuple of them for a network of
                several inputs, or a Dataset or DataLoader that does not shuffle, whose targets are ignored. For a
                network of graphs (graph, nodes), the nodes as numbers or a mask, or a graph for all its nodes, or a
                `graphs.GraphSet`; it may be another graph than that of training.
            draws: Number of weight draws, or "mean" for the posterior mean weights alone. A posterior of stored draws
                (a sampler's, an ensemble's) uses each of them at most once, so there may be fewer.
            seed: Seed of the draws, which are the same for all rows; None for a random one.
            generator: Source of randomness in place of the seed, on the model's device.
            rows: Largest number of rows of a forward pass: fewer need less memory.
            vectorize: True runs many draws at once by `torch.func.vmap`, False one after the other. By default vmap is
                used on GPUs, for networks that it can run.
            ranks: "split" under torchrun lets each process compute its part of the rows: all processes make this call
                with the same arguments, and all have the whole prediction. By default each computes all rows.

        Returns:
            The prediction in the user's units: `Regression`, `Classification` or `Counts`, by the likelihood.

        Raises:
            DataError: If the network cannot process the inputs.
            ParameterError: If another argument lies outside its range.
        """
        outputs, noise = self._outputs(x, draws, seed, generator, rows, vectorize, ranks)
        prediction = self.model.likelihood.predict(outputs, noise, self.units.y)
        if self.labels is not None:
            prediction = prediction.with_labels(self.labels)
        return prediction.without_output_dimension() if self.flat_target else prediction

    @torch.no_grad()
    def outputs(
        self,
        x: Any,
        draws: int | Literal["mean"] = 100,
        *,
        seed: int | None = 0,
        generator: torch.Generator | None = None,
        rows: int = ROWS,
        vectorize: bool | None = None,
        ranks: Ranks | Literal["split"] | None = None,
    ) -> Tensor:
        """Compute the network's raw outputs at new inputs, in standardised units.

        Args:
            x: Inputs as in `predict`.
            draws: Number of weight draws, or "mean" for the posterior mean weights alone.
            seed: Seed of the draws, which are the same for all rows; None for a random one.
            generator: Source of randomness in place of the seed, on the model's device.
            rows: Largest number of rows of a forward pass.
            vectorize: As in `predict`.
            ranks: As in `predict`.

        Returns:
            The outputs, (draws, rows, width).
        """
        return self._outputs(x, draws, seed, generator, rows, vectorize, ranks)[0]

    @torch.no_grad()
    def r2(
        self,
        x: Any,
        draws: int = 100,
        *,
        seed: int | None = 0,
        generator: torch.Generator | None = None,
        rows: int = ROWS,
        vectorize: bool | None = None,
    ) -> Tensor:
        """Draw the share of the variance that the network explains: Bayesian R2 (Gelman et al., 2019).

            R2 = Var_i f(x_i) / (Var_i f(x_i) + v),      one value for each draw of the network f and the noise v

        It is the model's own statement about rows with these inputs, needs no targets, and lies between 0 and 1. For
        classes and counts both variances are those on the scale of the output (`r2d2net.priors.latent_noise`), for a
        log-normal likelihood those of the logarithm.

        Args:
            x: Inputs as in `predict`, two rows or more.
            draws: Number of draws; a posterior of stored draws uses each at most once.
            seed: Seed of the draws; None for a random one.
            generator: Source of randomness in place of the seed, on the model's device.
            rows: Largest number of rows of a forward pass.
            vectorize: As in `predict`.

        Returns:
            R2 of each draw, (draws,), or (draws, outputs) where the targets have several columns.

        Raises:
            DataError: If there is one row only.
            ParameterError: If the likelihood has no R2.
        """
        require_whole("draws", draws)
        outputs, noise = self._outputs(x, draws, seed, generator, rows, vectorize)
        if outputs.shape[1] < 2:
            raise DataError("has 1 row", argument="x", fix="give two or more, over which the output varies")
        explained, unexplained = self.model.likelihood.explained_and_noise(outputs, noise)
        share = explained / (explained + unexplained)
        return share.squeeze(-1) if share.shape[-1] == 1 else share

    def check(
        self,
        x: Any,
        y: Any,
        *,
        names: Sequence[str] | None = None,
        draws: int = 200,
        output: int = 0,
        seed: int = 0,
    ) -> PredictiveCheck:
        """Compare targets with their predictive distributions: density, PIT, calibration, residuals by input.

        Args:
            x: Inputs as in `predict`, of ten rows or more that the fit has not seen: residuals of training rows are
                smaller than those of new ones.
            y: Their targets.
            names: Names of the inputs of a table.
            draws: Number of posterior draws.
            output: Which of several targets is checked.
            seed: Seed of the draws.

        Returns:
            The check: `print` and notebooks show its verdict and p-values, ``plot()`` draws it.

        Raises:
            DataError: If x and y do not fit.
            ParameterError: If an argument is out of range, or the likelihood has no distribution function.
        """
        prediction = self.predict(x, draws, seed=seed)
        table = as_tensors(x)
        is_table = isinstance(table, Tensor) and table.dim() == 2
        inputs = table.double().cpu().numpy() if is_table else None
        return check_prediction(prediction, y, inputs, names if is_table else None, output=output, seed=seed)

    def _outputs(
        self,
        x: Any,
        draws: int | Literal["mean"],
        seed: int | None,
        generator: torch.Generator | None,
        rows: int,
        vectorize: bool | None,
        ranks: Ranks | Literal["split"] | None = None,
    ) -> tuple[Tensor, Noise]:
        require_whole("rows", rows)
        named = rows_in_context(x)
        if named is not None:
            context, places = named
            return self.on(context)._outputs(places, draws, seed, generator, rows, vectorize, ranks)
        require(ranks in (None, "split") or isinstance(ranks, Ranks), "ranks", ranks, "use 'split' or leave it out")
        group = ranks_of_world(self.model.device) if isinstance(ranks, str) else ranks
        if group is not None and group.size > 1:
            return self._outputs_on(group, x, draws, seed, generator, rows, vectorize)
        inputs = self.network_inputs(x)
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        if any(part.dim() == 0 for part in parts):
            raise DataError("holds a scalar", argument="x", fix="it needs a first dimension of rows")
        if len(parts[0]) == 0:
            raise DataError("has 0 rows", argument="x", fix="give at least one")
        if draws == "mean":
            center = self.source.center()
            return self._forward(center, inputs, rows, vectorize), center.noise
        fits = isinstance(draws, Integral) and not isinstance(draws, bool) and draws >= 1
        require(fits, "draws", draws, "use a whole number from 1, or 'mean'")
        available = self.source.available
        count = int(draws) if available is None else min(int(draws), available)
        chunk = max(1, MEMORY // self.model.size)
        outputs, noises = [], []
        for drawn in self.source.draws(count, self._generator(seed, generator), at_once=chunk):
            outputs.append(self._forward(drawn, inputs, rows, vectorize))
            noises.append(drawn.noise)
        return torch.cat(outputs), {name: torch.cat([noise[name] for noise in noises]) for name in noises[0]}

    def _outputs_on(
        self,
        ranks: Ranks,
        x: Any,
        draws: int | Literal["mean"],
        seed: int | None,
        generator: torch.Generator | None,
        rows: int,
        vectorize: bool | None,
    ) -> tuple[Tensor, Noise]:
        """Compute this process's rows and join those of all."""
        require(seed is not None or generator is not None, "seed", seed, "give one, so that all processes draw alike")
        with ranks.together():
            inputs = as_tensors(x)
            parts = inputs if isinstance(inputs, tuple) else (inputs,)
            count = len(parts[0]) if parts[0].dim() else 0
            if count < ranks.size:
                return self._outputs(inputs, draws, seed, generator, rows, vectorize)
            own = slice(count * ranks.rank // ranks.size, count * (ranks.rank + 1) // ranks.size)
            mine = tuple(part[own] for part in parts) if isinstance(inputs, tuple) else inputs[own]
            outputs, noise = self._outputs(mine, draws, seed, generator, rows, vectorize)
            return ranks.gathered(outputs, 1), noise

    def on(self, context: Context) -> Self:
        """Build the same posterior for another graph, or set of graphs.

        Args:
            context: The graph or graphs, with features in the user's units.

        Returns:
            The new posterior, whose inputs are numbers of nodes or of graphs.
        """
        units = self.units
        posterior = copy.copy(self)
        posterior.source = copy.copy(self.source)
        own = context.scaled(units.x_center, units.x_scale) if units.are_of_context else context
        posterior.source.model = self.model.on(own)
        return posterior

    def with_units(self, units: Units) -> Self:
        """Build the same posterior for inputs and targets in other units.

        Args:
            units: The units.

        Returns:
            The new posterior.
        """
        posterior = copy.copy(self)
        posterior.units = units
        return posterior

    def network_inputs(self, x: Any) -> Any:
        """Standardise inputs and move them to the model's device.

        Args:
            x: Inputs, in any form that `predict` takes.

        Returns:
            A standardised tensor, or a tuple of tensors for a network of several inputs.
        """
        if not self.units.are_exact_for(self.model.dtype):
            return self.units.inputs(for_model(x, self.model))
        table: Tensor = self.units.inputs(as_tensors(x).to(self.model.device, torch.float64))
        return for_model(table.to(self.model.dtype), self.model)

    def save(self, folder: str | Path) -> Path:
        """Save the posterior into a folder, complete or not at all; `load` reads it.

        Args:
            folder: Folder to write, made where it is missing.

        Returns:
            Path of the file.

        Raises:
            ParameterError: If `fit` did not make the posterior, so that its settings are not known.
            CheckpointError: If the file cannot be written.
        """
        self._require_settings()
        with replacing(Path(folder)) as staging:
            self.stage(staging)
        return Path(folder) / FILE

    def stage(self, staging: Staging) -> None:
        """Add the posterior to the parts of a folder that are replaced together.

        Args:
            staging: Takes the parts (see `r2d2net.manifest`).

        Raises:
            ParameterError: If `fit` did not make the posterior, so that its settings are not known.
        """
        self._require_settings()
        tensors = {f"state/{k}": v for k, v in flatten(self.source.state).items()}
        tensors |= {f"units/{k}": v for k, v in flatten(self.units).items()}
        if self.calibration is not None:
            tensors["calibration/levels"] = self.calibration.levels
        records = {"history": self.history, "candidates": self.candidates, "health": self.health}
        header = {**records, **provenance(self.settings, self.settings["seed"])}
        staging.tensors(FILE, tensors, header)

    def _require_settings(self) -> None:
        if not self.settings:
            problem = "this posterior has no settings, so it cannot say what it is"
            raise ParameterError(problem, fix="save one made by fit")

    def _forward(self, drawn: Draws, inputs: Any, rows: int, vectorize: bool | None) -> Tensor:
        with refusing_inputs(inputs):
            return forward_draws(self.model, drawn, inputs, rows=rows, memory=MEMORY, vectorize=vectorize)

    def _generator(self, seed: int | None, generator: torch.Generator | None) -> torch.Generator:
        if generator is not None:
            return generator
        source = torch.Generator(self.model.device)
        if seed is None:
            source.seed()
        else:
            require_seed(seed)
            source.manual_seed(int(seed))
        return source
