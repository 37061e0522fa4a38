"""Fits whose settings validation rows choose: the same small grid for every method, before any test row is seen.

The grid is of step sizes, as multiples of what the algorithm takes by default for a run of this length. Each fit goes
on from its checkpoint after an interruption.
"""

from __future__ import annotations

import dataclasses
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
        batches: Steps of an epoch.
        options: For `fit`.
    """
    best: Posterior | None = None
    least, tried = float("inf"), []
    steps = options["epochs"] * batches
    candidates = [(f, scaled(method, model, f, steps)) for f in factors] if has_lr(method) else [(1.0, method)]
    for factor, candidate in candidates:
        entry: dict[str, Any] = {"factor": factor, "validation": None}
        tried.append(entry)
        try:
            posterior = fit(
                model,
                data,
                candidate,
                validation=validation,
                resume=place / f"step-{factor:g}",
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


def has_lr(method: Method) -> bool:
    """Whether the algorithm has a step size to choose."""
    return any(field.name == "lr" for field in dataclasses.fields(method))  # type: ignore[arg-type]


def scaled(method: Method, model: BayesianModel, factor: float, steps: int) -> Method:
    """The algorithm with a multiple of the step size it would take by itself in a run of so many steps."""
    if factor == 1.0:
        return method
    running = method.build(model, n=1, steps=steps)
    assert isinstance(running, Descent)
    return dataclasses.replace(method, lr=running.largest_step * factor)  # type: ignore[type-var]
