"""The posterior: whatever the algorithm, an object that draws weights and predicts.

posterior.sample(n)              draws of all Bayesian weights, (n, weights)
posterior.predict(x, draws=100)  the predictive distribution in the user's units
posterior.state_dict()           the mean network, for the plain network's load_state_dict
posterior.state_dicts(n)         draws of it
posterior.save("run")            and load("run", net) gets it back
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Generic, Literal, Self

import torch
from torch import Tensor, nn

from r2d2net import checkpoint
from r2d2net.errors import CheckpointError, DataError, ParameterError, require, require_seed, require_whole
from r2d2net.forward_draws import forward_draws
from r2d2net.inference.base import Draws, DrawSource
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors, refusing_inputs, require_module
from r2d2net.new_inputs import as_tensors, for_model
from r2d2net.prediction import PredictionT
from r2d2net.provenance import provenance
from r2d2net.specification import method_from, model_from, reading, require_classes, require_same_network
from r2d2net.units import Units

FILE, INTERRUPTED = "posterior.safetensors", "checkpoint.safetensors"
ROWS = 1000  # rows of a forward pass
MEMORY = 1 << 28  # elements of weight draws alive at once, and of what a vectorised pass makes of them


class Posterior(Generic[PredictionT]):
    """A fitted model, generic in what it predicts.

    Attributes:
        source: What the networks are drawn from.
        units: How inputs enter the network and how its outputs leave it. Where they are float64 and the network
            float32, inputs are standardised in float64.
        flat_target: Whether the user's targets were one-dimensional.
        history: One dict for each epoch: nll, temperature, noise, validation where there was one, and kl, which is
            worked out every 50 steps or so and at the end.
        candidates: Where several runs were compared, one dict for each: prior, restart, validation (the score, least
            is best; None if the run failed, and then also error).
    """

    def __init__(
        self,
        source: DrawSource[Any],
        units: Units,
        *,
        flat_target: bool,
        history: list[dict[str, float]] | None = None,
        settings: dict[str, Any] | None = None,
        candidates: list[dict[str, Any]] | None = None,
    ) -> None:
        self.source, self.units = source, units
        self.flat_target = flat_target
        self.history = [] if history is None else history
        self.settings = {} if settings is None else settings
        self.candidates = [] if candidates is None else candidates

    @property
    def model(self) -> BayesianModel[PredictionT]:
        """The Bayesian model."""
        return self.source.model

    @property
    def state(self) -> Any:
        """The tensors of the posterior, a NamedTuple that depends on the algorithm."""
        return self.source.state

    def __repr__(self) -> str:
        """Algorithm, likelihood, how many weights have which prior, and how many draws are stored where it has some."""
        algorithm = self.settings["algorithm"]["type"] if self.settings else type(self.source).__name__
        counts: Counter[str] = Counter()
        for slot in self.model.bayesian:
            counts[type(slot.prior).__name__] += slot.stop - slot.start
        priors = ", ".join(f"{count} {name}" for name, count in counts.items())
        likelihood = type(self.model.likelihood).__name__
        available = self.source.available
        stored = "" if available is None else f", stored draws: {available}"
        return f"Posterior({algorithm}, {likelihood} likelihood, {self.model.size} weights by prior: {priors}{stored})"

    def sample(self, n: int = 1, *, seed: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Draws of all Bayesian weights, (n, weights); `state_dict` turns one into a plain state dict."""
        require_whole("n", n)
        return self.source.sample(n, self._generator(seed, generator))

    def mean(self) -> Tensor:
        """Posterior mean of all Bayesian weights."""
        return self.source.center().weights[0]

    def named(self, weights: Tensor) -> Tensors:
        """Views of flat weights by parameter name; a first dimension of draws is kept."""
        return {slot.name: slot.of(weights) for slot in self.model.bayesian}

    def state_dict(self, weights: Tensor | None = None) -> Tensors:
        """A state dict of the plain network at one draw of the weights; at the posterior mean by default.

        It takes inputs and gives outputs in standardised units: ``posterior.units`` translates. Networks fitted with
        ``standardize=False`` work in the user's own. Deterministic parameters and buffers are the mean network's.
        """
        if weights is not None and not (self.model.fixed or self.model.buffers()):
            return self.model.state_dict(weights, weights[:0], {})
        center = self.source.center()
        return self._state_dict(center if weights is None else center._replace(weights=weights[None]), 0)

    def state_dicts(
        self, n: int = 1, *, seed: int | None = None, generator: torch.Generator | None = None
    ) -> Iterator[Tensors]:
        """State dicts of the plain network at n draws, each with its own deterministic parameters and buffers."""
        require_whole("n", n)
        for drawn in self.source.draws(n, self._generator(seed, generator), at_once=1):
            yield self._state_dict(drawn, 0)

    def _state_dict(self, drawn: Draws, i: int) -> Tensors:
        buffers = {name: buffer[i] for name, buffer in drawn.buffers.items()}
        return self.model.state_dict(drawn.weights[i], drawn.fixed[i], buffers)

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
    ) -> PredictionT:
        """The predictive distribution at new inputs.

        Args:
            x: Inputs as in training, in the user's units: a tensor, array or table, a tuple of them for a network of
                several inputs, or a Dataset or DataLoader that does not shuffle, whose targets are left out.
            draws: Number of weight draws, or "mean" for the posterior mean weights alone. A posterior made of stored
                draws (a sampler's, an ensemble's) has only so many: more are not repeated.
            seed: Seed of the draws; the same draws serve all rows.
            generator: Used instead of the seed.
            rows: Rows of a forward pass: less needs less memory.
            vectorize: True runs many draws at once by `torch.func.vmap`, False one after the other. By default vmap is
                for GPUs, and for networks that it can run.
        """
        outputs, noise = self._outputs(x, draws, seed, generator, rows, vectorize)
        prediction = self.model.likelihood.predict(outputs, noise, self.units.y)
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
    ) -> Tensor:
        """The network's raw outputs, (draws, rows, width)."""
        return self._outputs(x, draws, seed, generator, rows, vectorize)[0]

    def _outputs(
        self,
        x: Any,
        draws: int | Literal["mean"],
        seed: int | None,
        generator: torch.Generator | None,
        rows: int,
        vectorize: bool | None,
    ) -> tuple[Tensor, Noise]:
        require_whole("rows", rows)
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

    def with_units(self, units: Units) -> Self:
        """Return the same posterior for inputs and targets in other units."""
        posterior = copy.copy(self)
        posterior.units = units
        return posterior

    def network_inputs(self, x: Any) -> Any:
        """Return inputs in the user's units as the network sees them.

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
        """Save into a folder, complete or not at all; `load` reads it."""
        if not self.settings:
            problem = "this posterior has no settings, so it cannot say what it is"
            raise ParameterError(problem, fix="save one made by fit")
        path = Path(folder) / FILE
        tensors = {f"state/{k}": v for k, v in checkpoint.flatten(self.state).items()}
        tensors |= {f"units/{k}": v for k, v in checkpoint.flatten(self.units).items()}
        made = {"history": self.history, "candidates": self.candidates}
        header = {**made, **provenance(self.settings, self.settings["seed"])}
        checkpoint.write(path, tensors, header)
        return path

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


def save(posterior: Posterior[Any], folder: str | Path) -> Path:
    """`Posterior.save` as a function."""
    return posterior.save(folder)


def load(folder: str | Path, net: nn.Module, *, classes: Sequence[type] = (), mmap: bool = False) -> Posterior[Any]:
    """Load a posterior that was saved for a network of this architecture; the network is not changed.

    Args:
        folder: Where it was saved.
        net: A network of the architecture that was fitted.
        classes: Classes of priors, likelihoods and algorithms that are not r2d2net's own, where the run used any. A
            file names classes; it never has one imported.
        mmap: Leave large tensors, such as a sampler's draws, in the file and read what is needed when it is needed.
            The file must stay as it is as long as the posterior is used.
    """
    path = Path(folder) / FILE
    if not path.exists() and (Path(folder) / INTERRUPTED).exists():
        fix = f"finish it by fit(..., resume={str(folder)!r})"
        raise CheckpointError("holds an interrupted run", value=Path(folder), fix=fix)
    require_module(net)
    require_classes(classes)
    with reading(path):
        tensors, header = checkpoint.read(path, mmap=mmap)
        settings = header["settings"]
        model = model_from(net, settings["model"], classes)
        method, steps = method_from(settings["algorithm"], classes), settings["epochs"] * settings["batches"]
        source = method.read(checkpoint.part(tensors, "state/"), model, n=settings["n"], steps=steps)
        posterior: Posterior[Any] = restored(source, tensors, header)
        require_same_network(model, settings["network"], folder)
    return posterior


def restored(source: DrawSource[Any], tensors: Tensors, header: dict[str, Any]) -> Posterior[Any]:
    """Return the posterior that a file's tensors and header describe, for the draws that were read from it."""
    return Posterior(
        source,
        Units.of(checkpoint.part(tensors, "units/"), source.model.device),
        flat_target=header["settings"]["flat_target"],
        history=header["history"],
        settings=header["settings"],
        candidates=header["candidates"],
    )
