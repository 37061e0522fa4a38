"""Calibration of an algorithm by simulation: which of its statements about a model can be trusted.

    w ~ prior,   y | w ~ likelihood at the rows x,   w_1, ..., w_L ~ the algorithm's posterior given y
    u = (#{l : f(w_l) < f(w)} + U) / (L + 1),     U ~ uniform

If the posterior is right, u is uniform for every function f (Talts et al., 2018). Of a variational posterior it rarely
is for all f, and how it fails says what can be used (VSBC; Yao, Vehtari, Simpson and Gelman, 2018):

    mean of u below 1/2        draws are larger than the truth, above it smaller
    u near 0 and 1             draws vary too little: intervals are too narrow; in the middle, too wide
    u symmetric around 1/2     means can be trusted, whatever the spread

f are the weights, their sizes |w| (weights have a symmetric prior, so that shrinkage shows in sizes alone), the outputs
at new rows, and the log likelihood. Only tables with |y| <= `largest` are used: given y the draws are those of the same
posterior, so that this changes no uniform law, and leaves out targets that no user would give in these units.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from r2d2net.diagnostics.calibration_ranks import QUANTITIES, SimulatedCalibration, calibration_of
from r2d2net.errors import (
    DataError,
    DivergenceError,
    ParameterError,
    Shown,
    Value,
    require,
    require_seed,
    require_whole,
)
from r2d2net.forward_draws import forward_draws
from r2d2net.inference import Method, method_named
from r2d2net.inference.base import Draws
from r2d2net.likelihoods import Gamma, Gaussian
from r2d2net.model import BayesianModel
from r2d2net.network_inputs import no_units
from r2d2net.posterior import MEMORY, ROWS, Posterior
from r2d2net.prior_networks import prior_draws, replicate
from r2d2net.run.batches import mix
from r2d2net.run.fit import Request
from r2d2net.run.predictive_check import row_log_probs
from r2d2net.run.prepare import prepare
from r2d2net.run.several_runs import run_all
from r2d2net.run.train import Plan

LARGEST = 10.0  # of targets, in units of the noise
TRIES = 200  # draws from the prior for one table
NEW_ROWS = 5
AT_ONCE = 40  # tables that are fitted before the next are drawn


def vsbc(
    model: BayesianModel[Any],
    algorithm: Method | str = "svgi",
    x: Any = None,
    *,
    rows: int = 50,
    tables: int = 100,
    draws: int = 200,
    epochs: int | None = None,
    largest: float = LARGEST,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SimulatedCalibration:
    """Measure how an algorithm's posteriors are calibrated, by tables drawn from the model itself.

    Args:
        model: The model; the noise of a Gaussian likelihood must be known, as in ``Gaussian(noise=1.0)``; models of
            other likelihoods of real numbers, whose noise is learnt, are refused. Nothing is standardised, so that its
            priors are those of the tables.
        algorithm: Inference algorithm, an object or a name.
        x: Rows at which targets are drawn; by default as many normal ones as ``rows`` says.
        rows: Number of rows where x is not given.
        tables: Number of tables.
        draws: Number of draws of each posterior.
        epochs: Length of a fit; by default the algorithm's own.
        largest: Tables with a target above it, in units of the noise, are drawn again.
        seed: Seed of tables and fits.
        progress: Called with the number of tables that are done and their total.

    Returns:
        The ranks of the truths with a verdict for weights, sizes of weights, predictions and log likelihood; `print`
        shows a table and ``plot()`` the histograms.

    Raises:
        ParameterError: If the algorithm does not suit the model, or an argument is out of range.
        DataError: If the prior hardly ever gives targets below ``largest``.
        DivergenceError: If no fit succeeds.

    Example:
        >>> from r2d2net import BayesianModel, likelihoods, priors
        >>> net = torch.nn.Linear(2, 1, bias=False)
        >>> model = BayesianModel(net, priors.Gaussian(1.0), likelihoods.Gaussian(noise=1.0))
        >>> vsbc(model, "svgi", rows=20, tables=8, epochs=20).tables
        8
    """
    if not isinstance(model, BayesianModel):
        problem = ("is a ", Value(type(model)))
        raise ParameterError(problem, argument="model", fix="wrap the network in r2d2net.BayesianModel")
    method: Any = method_named(algorithm)
    if method.runs > 1 and "chains" in {part.name for part in fields(method)}:
        method = replace(method, chains=1)
    for name, value, least in (("rows", rows, 2), ("tables", tables, 4), ("draws", draws, 10)):
        require_whole(name, value, least=least)
    require(isinstance(largest, (int, float)) and largest > 0, "largest", largest, "use a positive number")
    require_seed(seed)
    if (model.likelihood.standardizes or isinstance(model.likelihood, Gamma)) and not _noise_is_known(model):
        fix = "give a noise that is known, as in rn.likelihoods.Gaussian(noise=1.0)"
        raise ParameterError("is learnt, and has no prior to draw it from", argument="noise", value=None, fix=fix)
    if model.fixed:
        problem = ("has parameters without a prior, such as ", Value(model.fixed[0].name))
        raise ParameterError(problem, argument="model", fix="give all parameters priors: they cannot be drawn")
    simulator = _Simulator(model, method, x, rows, draws, epochs, float(largest), int(seed))
    ranks: list[dict[str, Tensor]] = []
    failed = 0
    with tempfile.TemporaryDirectory(prefix="r2d2net-") as folder:
        for start in range(0, tables, AT_ONCE):
            numbers = range(start, min(tables, start + AT_ONCE))
            found = simulator.of_tables(numbers, Path(folder) / str(start))
            failed += sum(each is None for each in found)
            ranks += [each for each in found if each is not None]
            progress(numbers[-1] + 1, tables)
    if len(ranks) < 4:
        raise DivergenceError("hardly any fit succeeded", fix="use more epochs, or a smaller largest")
    joined = {name: torch.stack([each[name] for each in ranks]) for name in QUANTITIES}
    return calibration_of(joined, type(method).__name__, _prior_name(model), failed=failed)


class _Simulator:
    """Draws tables from a model, fits them, and ranks the truth among draws."""

    def __init__(
        self,
        model: BayesianModel[Any],
        method: Method,
        x: Any,
        rows: int,
        draws: int,
        epochs: int | None,
        largest: float,
        seed: int,
    ) -> None:
        self.model, self.method, self.epochs = model, method, epochs
        self.draws, self.largest, self.seed = draws, largest, seed
        generator = self._generator(-1)
        if x is None:
            first = next((slot for slot in model.bayesian if slot.name in model.input_weights), None)
            if first is None or len(first.shape) != 2:
                raise ParameterError(
                    "is missing: the network's inputs are no table", argument="x", fix="give some rows"
                )
            x = torch.randn(rows, first.shape[1], generator=generator)
        self.x = torch.as_tensor(x).to(model.device, model.dtype)
        if self.x.dim() == 0 or len(self.x) < 2:
            raise DataError("has fewer than 2 rows", argument="x", fix="give more")
        place = torch.randperm(len(self.x), generator=generator)[:NEW_ROWS].to(self.x.device)
        jitter = torch.randn(self.x[place].shape, generator=generator).to(self.x)
        self.new = self.x[place] + 0.5 * jitter if self.x.is_floating_point() else self.x[place]

    def of_tables(self, numbers: range, folder: Path) -> list[dict[str, Tensor] | None]:
        """Return the ranks of some tables; None where a fit failed."""
        drawn = [self._table(number) for number in numbers]
        plans = [self._plan(number, y) for number, (_, y) in zip(numbers, drawn, strict=True)]
        plans[0].trainer  # noqa: B018 (refuses what does not go together, before anything is fitted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = run_all(plans, folder, 1, False)
        return [
            None if posterior is None else self._ranks(posterior, weights, y, number)
            for number, (weights, y), posterior in zip(numbers, drawn, fitted, strict=True)
        ]

    def _generator(self, number: int) -> torch.Generator:
        return torch.Generator(self.model.device).manual_seed(mix(self.seed, number))

    def _outputs(self, weights: Tensor, x: Tensor) -> Tensor:
        drawn = Draws.sharing(weights, self.model.own_weights()[1], self.model.buffers(), {})
        with torch.no_grad():
            return forward_draws(self.model, drawn, x, rows=ROWS, memory=MEMORY)

    def _table(self, number: int) -> tuple[Tensor, Tensor]:
        """Draw weights, (1, weights), and targets."""
        generator, model = self._generator(number), self.model
        noise = model.likelihood.init(torch.zeros(2, 1, dtype=model.dtype, device=model.device))
        unit = no_units(torch.zeros((), dtype=model.dtype, device=model.device)).y
        limit = self.largest * float(noise["variance"].mean().sqrt() if "variance" in noise else 1.0)
        for _ in range(TRIES):
            weights, _ = prior_draws(model, 1, generator)
            outputs = self._outputs(weights, self.x)
            predicted = model.likelihood.predict(outputs, {name: part[None] for name, part in noise.items()}, unit)
            if model.likelihood.has_classes:
                y = torch.multinomial(predicted.samples[0].clamp(min=0), 1, generator=generator)[:, 0]
                return weights, y
            drawn = replicate(predicted, generator)
            if drawn is None:
                name = Shown(type(model.likelihood).__name__)
                raise ParameterError("cannot draw targets", argument="likelihood", value=name, fix="use another")
            y = drawn[0].to(model.dtype)
            if bool(y.isfinite().all()) and float(y.abs().max()) <= limit:
                return weights, y
        fix = "use a larger one, or a prior of smaller weights"
        raise DataError(f"is above nearly all targets of {TRIES} draws", argument="largest", value=limit, fix=fix)

    def _plan(self, number: int, y: Tensor) -> Plan:
        request = Request(
            model=self.model,
            method=self.method,
            epochs=self.epochs,
            seed=mix(self.seed, 1_000_000 + number) % (1 << 31),
            standardize=False,
        ).checked((self.x, y))
        prepared = prepare(self.model, (self.x, y), request.batch_size, request.seed, None, None, False)
        plans = request.with_epochs(prepared.batches.n, self.model).plans(prepared)
        if len(plans) > 1:
            name = Shown(type(self.method).__name__)
            raise ParameterError(
                "makes several runs", argument="algorithm", value=name, fix="use chains=1 or members=1"
            )
        settings = {**plans[0].settings, "candidate": str(number)}
        return Plan(plans[0].model, plans[0].method, prepared, settings, plans[0].checkpoint_every, is_part=True)

    def _ranks(self, posterior: Posterior[Any], weights: Tensor, y: Tensor, number: int) -> dict[str, Tensor]:
        available = posterior.source.available
        count = self.draws if available is None else min(self.draws, available)
        generator = self._generator(-2 - number)
        drawn = posterior.source.joined(count, generator)
        if len(drawn.weights) < 2 or bool((drawn.weights == drawn.weights[0]).all()):
            fix = "use one whose posterior has draws"
            raise ParameterError("has one network", argument="algorithm", value=type(self.method).__name__, fix=fix)
        truth, seen = self._quantities(weights, y), self._quantities(drawn.weights, y)
        found = {}
        for name in QUANTITIES:
            below = (seen[name] < truth[name]).sum(0) + 0.0
            equal = (seen[name] == truth[name]).sum(0)
            place = torch.rand(below.shape, generator=generator, dtype=torch.float64, device=below.device)
            found[name] = ((below + place * (equal + 1)) / (len(seen[name]) + 1)).cpu()
        return found

    def _quantities(self, weights: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return what is ranked, each (draws, quantities)."""
        model = self.model
        noise = model.likelihood.init(torch.zeros(2, 1, dtype=model.dtype, device=model.device))
        target = model.likelihood.target(y)
        target = target.to(model.dtype) if target.is_floating_point() else target
        scaled = model.likelihood.network_scale(target)
        outputs = self._outputs(weights, self.x)
        each = {name: part.expand(len(weights), *part.shape) for name, part in noise.items()}
        log_p = row_log_probs(model.likelihood.on_network_scale(), outputs, each, scaled)
        new = self._outputs(weights, self.new).double().flatten(1)
        flat = weights.double()
        return {
            "weights": flat,
            "sizes of weights": flat.abs(),
            "predictions": new,
            "log likelihood": log_p.flatten(1).sum(1, keepdim=True),
        }


def _noise_is_known(model: BayesianModel[Any]) -> bool:
    return isinstance(model.likelihood, Gaussian) and model.likelihood.noise is not None


def _prior_name(model: BayesianModel[Any]) -> str:
    slot = max(model.bayesian, key=lambda each: each.stop - each.start)
    return type(slot.prior).__name__
