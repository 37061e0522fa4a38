"""Checks of a `ContinuousScalePrior`: the density of its unconstrained scales u is that of what `init_scales` draws.

integral of p(u) over one variable of a layer = density of all others, since the variables are independent a priori
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from r2d2net.priors.base import ContinuousScalePrior
from r2d2net.testing.contract_error import demand

FALSE_ALARM = 1e-6
LAYERS, WEIGHTS = 20_000, 3
STEP = 0.02
GRID = torch.arange(-600.0, 60.0, STEP, dtype=torch.float64)

Scales = dict[str, Tensor]


def check_unconstrained(prior: Any) -> None:
    """Check the unconstrained form of the scales, where the prior has one.

    False alarms: 1e-6 for each variable (Kolmogorov-Smirnov) and for each pair of them (correlation of ranks).
    """
    if isinstance(prior, ContinuousScalePrior):
        _check_marginals(prior)
        _check_independence(prior)
        _check_variance(prior)
        _check_layers(prior)
        _check_derivatives(prior)


def _drawn(prior: ContinuousScalePrior[Any], layers: int = LAYERS) -> Any:
    generator = torch.Generator().manual_seed(7)
    return prior.init_scales((layers, WEIGHTS), generator, groups=(layers, 1), dtype=torch.float64)


def _one_layer(prior: ContinuousScalePrior[Any]) -> Scales:
    generator = torch.Generator().manual_seed(3)
    return prior.unconstrained(prior.init_scales((WEIGHTS,), generator, dtype=torch.float64))


def _along(prior: ContinuousScalePrior[Any], u: Scales, name: str) -> Tensor:
    """Log density as the first element of one variable runs over the grid and all else stays."""
    first = (torch.arange(u[name].numel()) == 0).view(u[name].shape)
    return torch.vmap(lambda value: prior.log_prob_scales({**u, name: torch.where(first, value, u[name])}))(GRID)


def _check_marginals(prior: ContinuousScalePrior[Any]) -> None:
    """Each variable against the integral of its density; over K variables, sum of log integrals = (K - 1) log p(u)."""
    u, sample = _one_layer(prior), prior.unconstrained(_drawn(prior))
    same = {name: torch.full_like(value, float(value.reshape(-1)[0])) for name, value in u.items()}
    total, count = 0.0, 0
    for name, value in same.items():
        log_density = _along(prior, same, name)
        log_integral = torch.logsumexp(log_density, 0) + math.log(STEP)
        total += value.numel() * float(log_integral)
        count += value.numel()
        cdf = np.cumsum(torch.exp(log_density - torch.logsumexp(log_density, 0)).numpy())
        points = GRID.numpy() + STEP / 2  # of the midpoint rule
        p_value = stats.kstest(sample[name][:, 0].numpy(), lambda x, c=cdf, p=points: np.interp(x, p, c)).pvalue
        demand(p_value > FALSE_ALARM, f"draws of {name} do not follow log_prob_scales (p = {p_value:.1g})")
    expected = (count - 1) * float(prior.log_prob_scales(same))
    close = math.isclose(total, expected, rel_tol=1e-6)
    demand(close, f"log_prob_scales is not normalised, or its variables depend on each other: {total} for {expected}")


def _check_independence(prior: ContinuousScalePrior[Any]) -> None:
    """Correlations of ranks: z = r sqrt(n), and two weights of a layer are two variables."""
    sample = prior.unconstrained(_drawn(prior))
    columns = {f"{name}[{k}]": value[:, k] for name, value in sample.items() for k in range(min(2, value.shape[1]))}
    ranks = {name: stats.rankdata(column.numpy()) for name, column in columns.items()}
    for (name, values), (other_name, others) in combinations(ranks.items(), 2):
        z = np.corrcoef(values, others)[0, 1] * math.sqrt(LAYERS)
        p_value = 2 * stats.norm.sf(abs(z))
        demand(p_value > FALSE_ALARM, f"{name} and {other_name} are correlated a priori (p = {p_value:.1g})")


def _check_variance(prior: ContinuousScalePrior[Any]) -> None:
    scales = _drawn(prior, 50)
    log_variance = prior.log_variance(prior.unconstrained(scales))
    torch.testing.assert_close(log_variance, prior.variance(scales).log(), rtol=1e-11, atol=1e-11)


def _check_layers(prior: ContinuousScalePrior[Any]) -> None:
    """Layers side by side have the density of layers one by one."""
    whole = prior.unconstrained(_drawn(prior, 4))
    each = [prior.log_prob_scales({name: value[k : k + 1] for name, value in whole.items()}) for k in range(4)]
    torch.testing.assert_close(prior.log_prob_scales(whole), torch.stack(each).sum())


def _check_derivatives(prior: ContinuousScalePrior[Any]) -> None:
    u = {name: value.clamp(-5, 5).requires_grad_() for name, value in _one_layer(prior).items()}

    def both(*values: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(u, values, strict=True))
        return prior.log_prob_scales(named), prior.log_variance(named)

    torch.autograd.gradcheck(both, tuple(u.values()))
