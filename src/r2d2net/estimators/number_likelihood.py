"""The estimators' parameter ``likelihood``: a name, an object, or "auto" for the choice by rows left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from r2d2net.errors import ParameterError, require_instance
from r2d2net.likelihoods import Gaussian, Likelihood
from r2d2net.registry import NUMBERS
from r2d2net.run.likelihood_choice import LikelihoodChoice, choose_likelihood, likelihood_named

AUTO = "auto"
SHORT = 60.0  # seconds of a fit below which likelihoods are not compared
FIX = f"use one of {AUTO}, {', '.join(NUMBERS)}, or an object of r2d2net.likelihoods"


def number_likelihood(
    likelihood: Any,
    x: Tensor,
    y: np.ndarray,
    *,
    compares: bool,
    seed: int,
    device: Any,
    jobs: int | None,
    time: float | None = None,
    weighs: bool = False,
) -> LikelihoodChoice:
    """Return the likelihood that a regressor's parameter stands for.

    Args:
        likelihood: "auto", a name of `NUMBERS` in any case, or a likelihood of numbers.
        x: Inputs, (rows, inputs), float32.
        y: Targets, float64.
        compares: Whether "auto" compares likelihoods by rows left out; it is the Gaussian otherwise.
        seed: Seed of the comparison.
        device: Device of the computation.
        jobs: Fits at a time.
        time: Seconds that the whole fit may take; of less than `SHORT` a comparison would take too many.
        weighs: Whether rows have weights, by which likelihoods are not compared.

    Returns:
        The likelihood, and why it was taken.

    Raises:
        ParameterError: The parameter is none of these.
    """
    if isinstance(likelihood, str) and likelihood.lower() == AUTO:
        if compares and isinstance(time, (int, float)) and time < SHORT:
            reason = f"gaussian: {time:g} s are too short to compare others, from {SHORT:g} s they are compared"
            return LikelihoodChoice(Gaussian(), {"name": "gaussian", "reason": reason})
        if compares:
            return choose_likelihood(x, y, seed=seed, device=device, jobs=jobs)
        why = "none was named, and rows have weights" if weighs else "none was named"
        return LikelihoodChoice(Gaussian(), {"name": "gaussian", "reason": f"gaussian: {why}"})
    if isinstance(likelihood, str) and likelihood.lower() in NUMBERS:
        name = likelihood.lower()
        return LikelihoodChoice(likelihood_named(name), {"name": name, "reason": f"{name}: as told"})
    require_instance(likelihood, Likelihood, "likelihood", "likelihood", FIX)
    if likelihood.has_classes:
        raise ParameterError("is for classes", argument="likelihood", value=likelihood, fix="use R2D2Classifier")
    name = type(likelihood).__name__
    return LikelihoodChoice(likelihood, {"name": name, "reason": f"{name}: as told"})
