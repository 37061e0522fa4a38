"""Checks of a prior's marginal density: it is that of the draws, integrates to one, and has a derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import stats

from r2d2net.testing.contract_error import demand

Cdf = Callable[[Any], Any]
FALSE_ALARM = 2e-6
DTYPES = (torch.float64, torch.float32)
LOG_WEIGHTS = torch.arange(-150.0, 60.0, 1 / 32, dtype=torch.float64)  # of the grid on which densities are integrated


def check_draws(prior: Any, cdf: Cdf | None = None) -> None:
    """Check that independent draws follow a distribution function of |w|; false-alarm rate 2e-6 for each dtype.

    Args:
        prior: The prior.
        cdf: P(|w| <= x) for an array of x > 0; by default the integral of the prior's own `log_prob`.
    """
    law = density_cdf(prior) if cdf is None else cdf
    for dtype in DTYPES:
        p_value = draws_p_value(prior, law, dtype, seed=3)
        name = "log_prob" if cdf is None else "the given cdf"
        demand(
            p_value > FALSE_ALARM,
            f"20,000 draws of sample in {dtype} do not follow {name} (Kolmogorov-Smirnov p = {p_value:.1g}, rejected "
            f"below {FALSE_ALARM:g})",
        )


def draws_p_value(prior: Any, cdf: Cdf, dtype: torch.dtype, *, seed: int, n: int = 20_000) -> float:
    """Return the Kolmogorov-Smirnov p-value of independent draws against the distribution function of |w|."""
    generator = torch.Generator().manual_seed(seed)
    w = prior.sample((n, 1), generator, groups=(n, 1), dtype=dtype)
    demand(w.dtype == dtype, f"sample(dtype={dtype}) gives {w.dtype}")
    values = w.squeeze(1).double().numpy()
    return float(stats.kstest(values, lambda x: 0.5 + 0.5 * np.sign(x) * cdf(np.abs(x))).pvalue)


def density_cdf(prior: Any) -> Cdf:
    """Return the distribution function of |w| that belongs to `log_prob`, by the trapezoid rule in log|w|."""
    density = 2 * (prior.log_prob(LOG_WEIGHTS.exp()) + LOG_WEIGHTS).exp().numpy()
    steps = np.diff(LOG_WEIGHTS.numpy()) * (density[1:] + density[:-1]) / 2
    table = np.concatenate([[0.0], np.cumsum(steps)])
    return lambda x: np.interp(np.log(np.maximum(x, 1e-300)), LOG_WEIGHTS.numpy(), table)


def total_mass(prior: Any, low: float = -400.0, high: float = 300.0, step: float = 1 / 8) -> float:
    """Return the density's integral over the line, by the trapezoid rule in log|w|."""
    log_w = torch.arange(low, high, step, dtype=torch.float64)
    return float(2 * step * (prior.log_prob(log_w.exp()) + log_w).exp().sum())


def check_mass(prior: Any) -> None:
    """Check that the density integrates to one, up to 1e-6."""
    mass = total_mass(prior)
    demand(abs(mass - 1) < 1e-6, f"log_prob integrates to {mass:.8g}, not 1")


def check_derivative(prior: Any) -> None:
    """Check that `log_prob` is differentiable by autograd, and a number or infinite at zero."""
    w = torch.tensor([-3.0, -0.2, 1e-3, 0.7, 40.0], dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(prior.log_prob, w, eps=1e-7, rtol=1e-5)
    demand(not bool(prior.log_prob(torch.zeros(2)).isnan().any()), "log_prob(0) is no number")


def check_infinity(prior: Any) -> None:
    """Check that the density is zero at infinity."""
    for dtype in DTYPES:
        density = prior.log_prob(torch.tensor([math.inf, 1.0, -math.inf], dtype=dtype)).tolist()
        demand(
            density[0] == density[2] == -math.inf and math.isfinite(density[1]),
            f"log_prob at (inf, 1, -inf) is {density} in {dtype}: -inf at both ends and finite between is right",
        )
