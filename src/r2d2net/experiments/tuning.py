"""Fits whose settings validation rows choose: the same small grid for every method, before any test row is seen.

The grid is of step sizes, as multiples of what the algorithm takes by default for a run of this length. Short runs of
networks that are far from convergence may also ask for slower deviations: mean-field algorithms then try, in place of
the last step size, the first with a rho that moves so much less. Each fit goes on from its checkpoint after an
interruption.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from r2d2net.errors import DivergenceError
from r2d2net.inference import Method
from r2d2net.inference.descent import Descent
from r2d2net.inference.variational import MeanField
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit

SCORE_DRAWS = 50


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
    slow_rho: float | None = None,
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
        slow_rho: Multiple of rho's share of the step size in the last candidate of algorithms that have one.
        batches: Steps of an epoch.
        options: For `fit`.
    """
    best: Posterior | None = None
    least, tried = float("inf"), []
    steps = options["epochs"] * batches
    for candidate in candidates(method, factors, slow_rho):
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


def candidates(method: Method, factors: tuple[float, ...], slow_rho: float | None = None) -> list[dict[str, float]]:
    """What of an algorithm is tried: as many candidates for each that has a step size, one for HMC, which has none.

    >>> from r2d2net.inference import HMC, MAP, SVGI
    >>> candidates(MAP(), (0.3, 0.1), 0.15)
    [{'factor': 0.3}, {'factor': 0.1}]
    >>> candidates(SVGI(), (0.3, 0.1), 0.15)
    [{'factor': 0.3}, {'factor': 0.3, 'rho': 0.15}]
    >>> candidates(HMC(), (0.3, 0.1), 0.15)
    [{'factor': 1.0}]
    """
    if not _has(method, "lr"):
        return [{"factor": 1.0}]
    grid = [{"factor": factor} for factor in factors]
    if slow_rho is not None and _has(method, "lr_rho"):
        grid[-1] = {"factor": factors[0], "rho": slow_rho}
    return grid


def _has(method: Method, name: str) -> bool:
    return any(field.name == name for field in dataclasses.fields(method))  # type: ignore[arg-type]


def scaled(method: Method, model: BayesianModel, steps: int, factor: float, rho: float = 1.0) -> Method:
    """The algorithm with multiples of the step sizes it would take by itself in a run of so many steps."""
    if factor == rho == 1.0:
        return method
    running = method.build(model, n=1, steps=steps)
    assert isinstance(running, Descent)
    changed = {"lr": running.largest_step * factor}
    if rho != 1.0:
        assert isinstance(running, MeanField)
        changed["lr_rho"] = rho * running.rho_rate(changed["lr"])
    return dataclasses.replace(method, **changed)  # type: ignore[type-var]
