"""Fits whose settings validation rows choose: the same small grid for every method, before any test row is seen.

The grid is of step sizes, as multiples of what the algorithm takes by default for a run of this length. Mean-field
algorithms may have a grid of their own, of as many candidates, that also varies what only they have: how quickly the
deviations move, and how much the KL weighs. Each fit goes on from its checkpoint after an interruption.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from r2d2net.errors import DivergenceError
from r2d2net.inference import Method
from r2d2net.inference.descent import Descent
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit

SCORE_DRAWS = 50

Candidate = Mapping[str, float]  # arguments of `scaled`


class Tuned(NamedTuple):
    """The best fit, and what was tried: one dict a candidate, with its score (None if it diverged)."""

    posterior: Posterior
    tried: list[dict[str, Any]]


def tuned_fit(
    model: BayesianModel,
    data: Any,
    method: Method,
    validation: tuple[Any, Tensor],
    place: Path,
    *,
    factors: tuple[float, ...] = (1.0,),
    mean_field: Sequence[Candidate] = (),
    batches: int,
    **options: Any,
) -> Tuned:
    """Fit with each multiple of the default step size and keep the one with the least validation score.

    Args:
        model: The model.
        data: Training data, as `fit` takes them.
        method: The algorithm; one without a step size (HMC) is fitted once.
        validation: (x, y) in the user's units; scored by the negative log predictive density of a row.
        place: Folder for checkpoints.
        factors: Multiples of the default step size.
        mean_field: Candidates of mean-field algorithms in place of ``factors``.
        batches: Steps of an epoch.
        options: For `fit`.
    """
    best: Posterior | None = None
    least, tried = float("inf"), []
    steps = options["epochs"] * batches
    for candidate in candidates(method, factors, mean_field):
        entry: dict[str, Any] = {**candidate, "validation": None}
        tried.append(entry)
        try:
            posterior = fit(
                model,
                data,
                scaled(method, model, steps, **candidate),
                validation=validation,
                resume=place / "-".join(f"{name}-{value:g}" for name, value in candidate.items()),
                verbose=False,
                jobs=1,
                **options,
            )
        except DivergenceError as error:
            entry["error"] = str(error)
            continue
        x, y = validation
        score = -float(posterior.predict(x, SCORE_DRAWS).log_prob(y).mean())
        entry["validation"] = score
        if best is None or score < least:
            best, least = posterior, score
    if best is None:
        raise DivergenceError(f"all {len(tried)} step sizes diverged; the first: {tried[0]['error']}")
    return Tuned(best, tried)


def candidates(method: Method, factors: tuple[float, ...], mean_field: Sequence[Candidate] = ()) -> Sequence[Candidate]:
    """What of an algorithm is tried: one candidate for HMC, which has no step size.

    >>> from r2d2net.inference import HMC, MAP, SVGI
    >>> candidates(MAP(), (0.3, 0.1), [{"factor": 0.3, "rho_share": 0.05}, {"factor": 0.3, "temperature": 0.01}])
    [{'factor': 0.3}, {'factor': 0.1}]
    >>> candidates(SVGI(), (0.3, 0.1), [{"factor": 0.3, "rho_share": 0.05}, {"factor": 0.3, "temperature": 0.01}])
    [{'factor': 0.3, 'rho_share': 0.05}, {'factor': 0.3, 'temperature': 0.01}]
    >>> candidates(HMC(), (0.3, 0.1))
    [{'factor': 1.0}]
    """
    if not _has(method, "lr"):
        return [{"factor": 1.0}]
    if mean_field and _has(method, "lr_rho"):
        return mean_field
    return [{"factor": factor} for factor in factors]


def _has(method: Method, name: str) -> bool:
    return any(field.name == name for field in dataclasses.fields(method))  # type: ignore[arg-type]


def scaled(
    method: Method,
    model: BayesianModel,
    steps: int,
    factor: float,
    rho_share: float | None = None,
    temperature: float | None = None,
) -> Method:
    """The algorithm with a multiple of the step size it would take by itself in a run of so many steps.

    Args:
        method: The algorithm.
        model: The model.
        steps: Steps of the run.
        factor: The multiple.
        rho_share: Step size of rho as a share of that; by default what the algorithm has, times the factor.
        temperature: Weight of the KL, by default the algorithm's own.
    """
    changed: dict[str, float] = {} if temperature is None else {"temperature": temperature}
    if factor != 1.0 or rho_share is not None:
        running = method.build(model, n=1, steps=steps)
        assert isinstance(running, Descent)
        changed["lr"] = running.largest_step * factor
    own = getattr(method, "lr_rho", None)
    if rho_share is not None:
        changed["lr_rho"] = rho_share * changed["lr"]
    elif own is not None:
        changed["lr_rho"] = own * factor
    return dataclasses.replace(method, **changed)  # type: ignore[type-var]
