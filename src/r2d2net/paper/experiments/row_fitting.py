"""From a cell to `fit`: a row's network fitted with every candidate of a small grid, of which held-out rows choose.

The grid is the same for every method and is searched before any test row is seen. It has step sizes, as multiples of
what the algorithm takes by default in a run of this length. Mean-field algorithms may have a grid of their own, of as
many candidates, that also varies what only they have: how quickly the deviations move, and how much the KL weighs.
Every fit resumes from its checkpoint after an interruption.

This choice is not that of `fit` among restarts: here each candidate may itself be the best of several restarts or an
ensemble, and its algorithm differs from the next one's, not its start.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

from r2d2net.errors import DivergenceError
from r2d2net.inference import Method
from r2d2net.inference.descent import Descent
from r2d2net.likelihoods import Categorical, Likelihood
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.paper.experiments.grid import Place, Settings
from r2d2net.paper.experiments.table_rows import has_setting, method_of, prior_of, stopping_rule
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit

SCORE_DRAWS = 50

Candidate = Mapping[str, float]  # arguments of `scaled`


class HeldOut(Protocol):
    """Training rows, and rows that were held out of them to choose settings."""

    @property
    def x(self) -> Tensor: ...
    @property
    def y(self) -> Tensor: ...
    @property
    def held_x(self) -> Tensor: ...
    @property
    def held_y(self) -> Tensor: ...


class Chosen(NamedTuple):
    """The best fit, and all candidates: one dict each, with its validation score or None and why it has none."""

    posterior: Posterior
    tried: list[dict[str, Any]]


def fit_row(
    settings: Settings,
    net: nn.Module,
    data: HeldOut,
    place: Place,
    *,
    prior: AnyPrior | Literal["auto"] | None = None,
    likelihood: Likelihood | None = None,
    stream: Any = None,
    **options: Any,
) -> Chosen:
    """Fit a network under a row's prior by the row's algorithm; the held-out rows choose among the cell's candidates.

    Args:
        settings: Those of a cell: row, recipe, factors, epochs, batch_size, seed; optionally mean_field, the
            candidates of mean-field rows, and method, further settings of the algorithm.
        net: The network.
        data: Training rows and held-out rows.
        place: Where the cell may write.
        prior: A prior in place of the row's own; "auto" has `fit` compare the forms of the adaptive one.
        likelihood: Gaussian by default.
        stream: Batches that take the place of the training rows, such as augmented images.
        options: Further arguments of `fit`.

    Returns:
        The best fit and all candidates.

    Raises:
        DivergenceError: Every candidate diverged.
    """
    row, recipe, epochs, batch_size = (settings[name] for name in ("row", "recipe", "epochs", "batch_size"))
    rows = len(data.y)
    method = method_of(row, recipe, **settings.get("method", {}))
    if prior == "auto":
        options["prior"], prior = prior, None
    if prior is None:
        prior = prior_of(row, recipe, rows)
    if stream is None and not method.full_batch:
        options["batch_size"] = batch_size
    return fit_best(
        BayesianModel(net, prior, likelihood),
        (data.x, data.y) if stream is None else stream,
        method,
        (data.held_x, data.held_y),
        place.run,
        factors=settings["factors"],
        mean_field=settings.get("mean_field", ()),
        steps_per_epoch=max(1, rows // batch_size),
        epochs=epochs,
        seed=settings["seed"],
        **stopping_rule(recipe, method, epochs, classes=isinstance(likelihood, Categorical)),
        **options,
    )


def fit_best(
    model: BayesianModel,
    data: Any,
    method: Method,
    validation: tuple[Any, Tensor],
    folder: Path,
    *,
    factors: Sequence[float],
    mean_field: Sequence[Candidate] = (),
    steps_per_epoch: int,
    epochs: int,
    **options: Any,
) -> Chosen:
    """Fit with every candidate and keep the fit with the least validation score.

    Args:
        model: The model.
        data: Training data, as `fit` takes them.
        method: The algorithm; one without a step size (HMC) is fitted once.
        validation: (x, y) in the user's units. The score is the negative log predictive density of a row.
        folder: Folder for checkpoints, one folder for each candidate.
        factors: Multiples of the default step size.
        mean_field: Candidates of mean-field algorithms in place of ``factors``.
        steps_per_epoch: Number of batches.
        epochs: Epochs of every fit.
        options: Further arguments of `fit`.

    Returns:
        The best fit and all candidates.

    Raises:
        DivergenceError: Every candidate diverged.
    """
    x, y = validation
    best: Posterior | None = None
    least, tried = float("inf"), []
    for candidate in candidates(method, factors, mean_field):
        entry: dict[str, Any] = {**candidate, "validation": None}
        tried.append(entry)
        try:
            posterior = fit(
                model,
                data,
                scaled(method, model, epochs * steps_per_epoch, **candidate),
                validation=validation,
                resume=folder / "-".join(f"{name}-{value:g}" for name, value in candidate.items()),
                verbose=False,
                jobs=1,
                epochs=epochs,
                **options,
            )
        except DivergenceError as error:
            entry["error"] = str(error)
            continue
        score = -float(posterior.predict(x, SCORE_DRAWS).log_prob(y).mean())
        if not math.isfinite(score):
            entry["error"] = f"its validation score is {score}"
            continue
        entry["validation"] = score
        if score < least:
            best, least = posterior, score
    if best is None:
        raise DivergenceError(f"all {len(tried)} step sizes diverged; the first: {tried[0]['error']}")
    return Chosen(best, tried)


def candidates(method: Method, factors: Sequence[float], mean_field: Sequence[Candidate] = ()) -> Sequence[Candidate]:
    """Return the candidates of an algorithm: one for HMC, which has no step size.

    >>> from r2d2net.inference import HMC, MAP, SVGI
    >>> candidates(MAP(), (0.3, 0.1), [{"factor": 0.3, "rho_share": 0.05}, {"factor": 0.3, "temperature": 0.01}])
    [{'factor': 0.3}, {'factor': 0.1}]
    >>> candidates(SVGI(), (0.3, 0.1), [{"factor": 0.3, "rho_share": 0.05}, {"factor": 0.3, "temperature": 0.01}])
    [{'factor': 0.3, 'rho_share': 0.05}, {'factor': 0.3, 'temperature': 0.01}]
    >>> candidates(HMC(), (0.3, 0.1))
    [{'factor': 1.0}]
    """
    if not has_setting(method, "lr"):
        return [{"factor": 1.0}]
    if mean_field and has_setting(method, "lr_rho"):
        return mean_field
    return [{"factor": factor} for factor in factors]


def scaled(
    method: Method,
    model: BayesianModel,
    steps: int,
    factor: float,
    rho_share: float | None = None,
    temperature: float | None = None,
) -> Method:
    """Return the algorithm with a multiple of the step size that it takes by default in a run of this length.

    Args:
        method: The algorithm.
        model: The model.
        steps: Length of the run.
        factor: The multiple.
        rho_share: Step size of rho as a share of the step size; by default the algorithm's own, times the factor.
        temperature: Weight of the KL; by default the algorithm's own.

    Returns:
        A copy of the algorithm.
    """
    changed: dict[str, float] = {} if temperature is None else {"temperature": temperature}
    if factor != 1.0 or rho_share is not None:
        trainer: Any = method.build(model, n=1, steps=steps)
        assert isinstance(trainer.descent, Descent)
        changed["lr"] = trainer.descent.largest_step * factor
    own_rho_step = getattr(method, "lr_rho", None)
    if rho_share is not None:
        changed["lr_rho"] = rho_share * changed["lr"]
    elif own_rho_step is not None:
        changed["lr_rho"] = own_rho_step * factor
    return dataclasses.replace(method, **changed)  # type: ignore[type-var]
