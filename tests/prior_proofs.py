"""Proofs that some priors allow and the public contract tests (`r2d2net.testing`) do not demand of all.

Densities with 17 digits, and laws of two scales by brute force on a grid.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_STEP = 0.1  # of the grids on which `kl_on_grid` integrates


def gold_densities(prior: str) -> list[tuple[dict[str, float], Tensor, Tensor]]:
    """(hyperparameters, weights, 17-digit densities) of one prior in tests/data/gold.json."""
    entries = json.loads((Path(__file__).parent / "data" / "gold.json").read_text())["marginal_density"]
    return [
        (
            {name: float(value) for name, value in entry["hyper"].items()},
            torch.tensor([float(w) for w in entry["beta"]], dtype=torch.float64),
            torch.tensor([float(density) for density in entry["density"]], dtype=torch.float64),
        )
        for entry in entries
        if entry["prior"] == prior
    ]


def assert_factors_are_the_posterior(prior: Any, u: float, *, seed: int, draws: int = 200_000) -> None:
    """For independent weights q(s) = p(s | w = u), which `gibbs` draws from: E[1/v] and E[log v] must agree.

    |z| < 6 is a false-alarm rate of 2e-9 for each of the two means.
    """
    generator = torch.Generator().manual_seed(seed)
    w = torch.full((draws,), u, dtype=torch.float64)
    factors = prior.cavi(w[:1].square(), prior.init_scales((1,), generator, dtype=w.dtype))
    v = prior.variance(prior.gibbs(w, prior.init_scales(w.shape, generator, dtype=w.dtype), generator))
    for sample, expected in ((1 / v, factors.precision), (v.log(), factors.log_variance())):
        assert abs(sample.mean() - expected) < 6 * sample.std() / math.sqrt(draws)


def kl_on_grid(log_prior: Callable[..., Any], variance: Callable[..., Any], u: float) -> tuple[float, float]:
    """KL(p(s | w=u) || p(s)) and E[log v | w=u] for two scales, by brute force on a grid of their logs.

    ``log_prior`` is the log density of the pair of scales themselves; the grid supplies the Jacobian.
    """
    log_s = np.arange(-60.0, 60.0, _STEP)
    a, b = np.meshgrid(log_s, log_s, indexing="ij")
    v = variance(np.exp(a), np.exp(b))
    log_normal = -0.5 * np.log(2 * np.pi * v) - 0.5 * u**2 / v
    log_joint = log_prior(np.exp(a), np.exp(b)) + a + b + log_normal
    evidence = np.logaddexp.reduce(log_joint, axis=None)
    q = np.exp(log_joint - evidence)
    return float((q * (log_normal - evidence - 2 * np.log(_STEP))).sum()), float((q * np.log(v)).sum())
