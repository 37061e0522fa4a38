"""The likelihood that suits a column of numbers: what its values allow, then the density of rows left out.

    whole numbers >= 0, at most half of them distinct    gaussian, poisson, negative-binomial
    numbers > 0 with skewness above 0.5                  gaussian, student-t, heteroscedastic, log-normal, gamma
    all others                                           gaussian, student-t, heteroscedastic

Each is fitted by a small network with a linear path, by a fixed number of steps of short chains, to halves of up to 800
rows, and scored on the other halves by the log density in the user's units: that of the log-normal law has the
derivative of the logarithm. A probability of a count stands beside the normal density at that count: the density over a
cell of width 1. Another likelihood than the Gaussian is taken only if its mean gain over it is larger than the gain's
standard error; among those the one with the largest. A row counts for at most 10 nats, so that no single row decides.
One whose means are clearly further from the rows left out is not taken: exponentials of a linear path may be far off at
the largest rows, at which a density forgives them. Clearly is a root mean squared error twice the Gaussian's, or 25%
larger without the 2% of the rows with the largest errors of each: those of a skewed target are mostly chance.

Of 20 to 99 rows halves are too few: linear models are fitted to all but a quarter of them, four times, and a row counts
for at most 3 nats and the gain must be two standard errors. On 17 simulated tables of 25 and 40 rows that rule took
nothing but the Gaussian for normal targets with constant noise, and gained 0.5 to 3.3 nats a new row on all others
(log-normal, gamma, log-normal with outliers, heteroscedastic). Fewer than 20 rows have normal noise.

The choice depends on rows and seed alone, never on a clock.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.inference import MCLMC
from r2d2net.likelihoods import Gaussian, Likelihood, LogNormal, Poisson
from r2d2net.likelihoods.base import Unit
from r2d2net.likelihoods.log_normal import LogRegression
from r2d2net.posterior import Posterior
from r2d2net.prediction import Regression
from r2d2net.priors import R2D2
from r2d2net.registry import LIKELIHOODS, NUMBERS
from r2d2net.run.batches import TensorBatches, mix
from r2d2net.run.choice import LARGEST_GRADIENT
from r2d2net.run.prepare import prepare
from r2d2net.run.several_runs import run_all
from r2d2net.run.stack_candidates import Candidate, Form, Shape
from r2d2net.run.stack_fits import Fitted, Search
from r2d2net.run.stack_scores import SCORE_DRAWS, log_densities, user_shift
from r2d2net.run.stacked_network import model_of

FEWEST, MOST = 20, 800  # rows by which likelihoods are compared
ENOUGH = 100  # rows that are compared by halves, and by networks
FOLDS = 4  # of fewer rows
HIDDEN = (20,)
CHAINS, EPOCHS = 2, 16
SKEWED = 0.5
LARGEST_COUNT = 1e6
MOST_NATS, FEW_NATS = 10.0, 3.0  # that one row may count, of few rows
ERRORS, FEW_ERRORS = 1.0, 2.0  # standard errors of a gain that is taken
LARGEST_ERROR, LARGEST_TRIMMED = 2.0, 1.25  # errors of a likelihood that is taken, in units of the Gaussian's
TRIMMED = 0.02  # share of the rows, those of the largest errors


class Errors(NamedTuple):
    """Distance of means from rows left out.

    Attributes:
        rmse: Root mean squared error.
        trimmed: The same without the 2% of the rows where it is largest.
    """

    rmse: float
    trimmed: float

    @classmethod
    def of(cls, squares: Tensor) -> Errors:
        """Compute both from squared errors."""
        kept = squares.sort().values[: max(1, len(squares) - math.ceil(TRIMMED * len(squares)))]
        return cls(math.sqrt(float(squares.mean())), math.sqrt(float(kept.mean())))

    def beside(self, other: Errors) -> float:
        """Return the larger ratio to other errors, each as a multiple of what is allowed."""
        both = zip(self, other, (LARGEST_ERROR, LARGEST_TRIMMED), strict=True)
        return max((own / theirs if theirs > 0 else math.inf) / allowed for own, theirs, allowed in both)


class LikelihoodChoice(NamedTuple):
    """A likelihood and why it was taken.

    Attributes:
        likelihood: The likelihood.
        record: "name", "reason" in one line, and where likelihoods were compared "rows" and "scores", for JSON.
    """

    likelihood: Likelihood[Any]
    record: dict[str, Any]


def likelihood_named(name: str) -> Likelihood[Any]:
    """Build a likelihood of numbers with its defaults.

    Args:
        name: One of `r2d2net.registry.NUMBERS`.

    Returns:
        The likelihood.
    """
    likelihood: Likelihood[Any] = Poisson(centered=True) if name == "poisson" else LIKELIHOODS.constructor(name)()
    return likelihood


def possible_likelihoods(y: np.ndarray) -> list[str]:
    """List the likelihoods that a target's values allow, Gaussian first.

    Args:
        y: Targets, (rows,) or (rows, outputs).

    Returns:
        Their names.

    >>> possible_likelihoods(np.array([0, 1, 1, 2, 0, 3, 1, 0.0]))
    ['gaussian', 'poisson', 'negative-binomial']
    """
    columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    if all(_are_counts(column) for column in columns.T):
        return ["gaussian", "poisson", "negative-binomial"]
    names = ["gaussian", "student-t", "heteroscedastic"]
    return [*names, "log-normal", "gamma"] if all(_is_skewed(column) for column in columns.T) else names


def _are_counts(y: np.ndarray) -> bool:
    whole = bool((y >= 0).all() and (y == np.floor(y)).all() and y.max() <= LARGEST_COUNT)
    return whole and 2 < len(np.unique(y)) <= len(y) / 2


def _is_skewed(y: np.ndarray) -> bool:
    deviation = y.std()
    return bool((y > 0).all() and deviation > 0 and (((y - y.mean()) / deviation) ** 3).mean() > SKEWED)


def choose_likelihood(
    x: Tensor, y: np.ndarray, *, seed: int, device: Any = None, jobs: int | None = None
) -> LikelihoodChoice:
    """Choose the likelihood of numbers by rows left out.

    Args:
        x: Inputs, (rows, inputs), float32.
        y: Targets, (rows,) or (rows, outputs), float64.
        seed: Seed of everything random.
        device: Device of the computation.
        jobs: Fits at a time; None for as many as there are cores.

    Returns:
        The choice. Where rows are fewer than 20 or too wide for chains, the Gaussian.
    """
    rows = min(len(y), MOST)
    outputs = y[0].size
    form: Form | None = None
    if rows >= ENOUGH and rows * Shape(rows, x.shape[1], HIDDEN, 2 * outputs).weights <= LARGEST_GRADIENT:
        form = "both"
    elif rows * (x.shape[1] + 1) * 2 * outputs <= LARGEST_GRADIENT:
        form = "linear"
    if len(y) < FEWEST or form is None:
        why = f"fewer than {FEWEST} rows" if len(y) < FEWEST else "too many inputs"
        return LikelihoodChoice(Gaussian(), {"name": "gaussian", "reason": f"gaussian: {why} to compare others by"})
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(mix(seed, -5)))[:rows]
    own, kept = np.ascontiguousarray(y[order.numpy()]), x[order]
    asked = possible_likelihoods(own)
    tried = {name: _Trial.of(name, kept, own, form, seed, device) for name in asked}
    folds = 2 if rows >= ENOUGH else FOLDS
    plans = [trial.search.plan(trial.candidate, fold) for trial in tried.values() for fold in range(folds)]
    with tempfile.TemporaryDirectory(prefix="r2d2net-") as folder:
        fitted = run_all(plans, Path(folder), jobs, verbose=False)
    densities: dict[str, Tensor] = {}
    errors: dict[str, Errors] = {}
    for position, (name, trial) in enumerate(tried.items()):
        parts = fitted[folds * position : folds * (position + 1)]
        if all(part is not None for part in parts):
            densities[name], errors[name] = trial.scores([part for part in parts if part is not None])
    return decide(densities, errors, asked)


def decide(densities: dict[str, Tensor], errors: dict[str, Errors], asked: list[str]) -> LikelihoodChoice:
    """Choose by log densities of the same rows.

    Args:
        densities: Log density of each row left out by the name of the likelihood, with "gaussian".
        errors: Errors of the means at the rows left out by the same names.
        asked: Names of all likelihoods that were compared, also those that could not be fitted.

    Returns:
        The choice: the best of those that gain more than a standard error over the Gaussian (two, of fewer than 100
        rows) and do not predict worse, or the Gaussian.
    """
    if "gaussian" not in densities:
        return LikelihoodChoice(Gaussian(), {"name": "gaussian", "reason": "gaussian: no other could be compared"})
    n = len(densities["gaussian"])
    nats, least = (MOST_NATS, ERRORS) if n >= ENOUGH else (FEW_NATS, FEW_ERRORS)
    best = torch.stack(list(densities.values())).amax(0) - nats
    bounded = {name: torch.maximum(density, best) for name, density in densities.items()}
    scores: dict[str, dict[str, float] | None] = {}
    for name in asked:
        if name not in densities:
            scores[name] = None
            continue
        gain = bounded[name] - bounded["gaussian"]
        error = float(gain.std()) / n**0.5
        found = {"score": float(densities[name].mean()), "gain": float(gain.mean()), "gain_se": error}
        scores[name] = {**found, "rmse": errors[name].rmse, "trimmed_rmse": errors[name].trimmed}
    better = {
        name: found["gain"] for name, found in scores.items() if found and found["gain"] > least * found["gain_se"]
    }
    clear = {name: gain for name, gain in better.items() if errors[name].beside(errors["gaussian"]) <= 1}
    name = max(clear, key=lambda each: clear[each]) if clear else "gaussian"
    others = ", ".join(other for other in asked if other != "gaussian")
    if clear:
        taken = scores[name] or {}
        by = f"{taken['gain']:.2g} nats a row better than gaussian on {n} rows left out"
        reason = f"{name}: {by} (standard error {taken['gain_se']:.2g})"
    elif better:
        worst = ", ".join(
            f"{other} (error {errors[other].rmse / errors['gaussian'].rmse:.2g} times as large)" for other in better
        )
        reason = f"gaussian: on {n} rows left out its means are closer than those of {worst}"
    else:
        errors_in_words = "a standard error" if least == 1 else "two standard errors"
        reason = f"gaussian: on {n} rows left out none of {others} is better by more than {errors_in_words}"
    return LikelihoodChoice(likelihood_named(name), {"name": name, "reason": reason, "rows": n, "scores": scores})


class _Trial(NamedTuple):
    """A likelihood and its fits to parts of the rows."""

    search: Search
    candidate: Candidate
    shift: Tensor  # of log densities in the user's units over those on the network's scale, (rows,)
    targets: Tensor  # in the user's units, but for their origin
    unit: Unit  # of the network's targets

    @classmethod
    def of(cls, name: str, x: Tensor, y: np.ndarray, form: Form, seed: int, device: Any) -> _Trial:
        likelihood = likelihood_named(name)
        targets = torch.from_numpy(y)
        if name in NUMBERS[:3]:  # a density does not change with the origin, and float32 has few digits far from it
            targets = targets - targets.mean(0)
        width = likelihood.outputs(likelihood.target(targets)) or 1
        network = {"inputs": x.shape[1], "hidden": list(HIDDEN), "outputs": width, "activation": "relu"}
        whole = model_of(form, R2D2(), network, likelihood, seed, torch.zeros((), device=device))
        folds = 2 if len(y) >= ENOUGH else FOLDS
        prepared = prepare(whole, (x, targets.float()), None, seed, None, None, True)
        assert isinstance(prepared.batches, TensorBatches)
        rows = torch.arange(len(y), device=prepared.y.device)
        candidate = Candidate(f"likelihood, {name}", form, R2D2(), MCLMC(chains=CHAINS), EPOCHS)
        search = Search(
            x=prepared.batches.x,
            y=prepared.batches.y,
            likelihood=likelihood.on_network_scale(),
            network=network,
            candidates=[candidate],
            folds=[rows[k::folds] for k in range(folds)],  # of rows in random order
            seed=seed,
            checkpoint_every=60.0,
            own=likelihood,
            log_slope=likelihood.log_slope(likelihood.target(targets)),
        )
        return cls(search, candidate, user_shift(prepared, search), targets, prepared.units.y)

    def scores(self, parts: list[Posterior[Any]]) -> tuple[Tensor, Errors]:
        """Return the log density of each row by the fit that has not seen it, and the errors of the means."""
        density = torch.empty(len(self.shift), dtype=torch.float64)
        squares = []
        for posterior, left in zip(parts, self.search.folds, strict=True):
            density[left.cpu()] = log_densities(self.search, [Fitted(self.candidate, posterior)], left)[:, 0]
            seen = torch.ones(len(self.targets), dtype=torch.bool)
            seen[left.cpu()] = False
            predicted = posterior.predict(self.search.x[left], SCORE_DRAWS, seed=self.search.seed)
            mean = self._mean(predicted, self.targets[seen])
            wanted = self.targets[left.cpu()]
            squares.append((mean.cpu().double().reshape(wanted.shape) - wanted).square().flatten())
        return density + self.shift, Errors.of(torch.cat(squares))

    def _mean(self, predicted: Any, seen: Tensor) -> Tensor:
        """Return the means of a prediction on the network's scale in the user's units, for fits to ``seen`` targets."""
        center, scale, _ = self.unit
        if not self.search.own.standardizes:
            return predicted.mean
        if isinstance(self.search.own, LogNormal):
            log = Regression(center + scale * predicted.samples, scale.square() * predicted.noise_variance)
            return LogRegression(log, seen.reshape(len(seen), -1).log().amax(0).to(center)).mean
        return center + scale * predicted.mean
