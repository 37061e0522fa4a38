"""Scales in unconstrained form: their density is that of what `init_scales` draws, and they are independent.

False alarms: 20 Kolmogorov-Smirnov tests and 61 correlations at 1e-6 each, 8e-5 in all. Seeds are pinned.
"""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

from r2d2net.priors import R2D2, DirichletLaplace, GeneralizedDoublePareto, Horseshoe, HorseshoePlus

FALSE_ALARM = 1e-6
LAYERS, WEIGHTS = 20_000, 3
GRID = torch.arange(-600.0, 60.0, 0.02, dtype=torch.float64)

PRIORS = [
    R2D2(0.3, 1.5, sigma0=0.5),
    R2D2.paper(),
    R2D2.from_r2(0.6, 3.0, concentration=0.9, sigma0=2.0),
    Horseshoe(0.5, 0.3),
    Horseshoe(2.0, None),
    HorseshoePlus(0.5, 0.3),
    DirichletLaplace(0.4, 0.5),
    GeneralizedDoublePareto(1.5, 0.5),
]
every_prior = pytest.mark.parametrize("prior", PRIORS, ids=repr)


def drawn(prior, layers=LAYERS):
    g = torch.Generator().manual_seed(7)
    return prior.init_scales((layers, WEIGHTS), g, groups=(layers, 1), dtype=torch.float64)


def one_layer(prior, seed=3):
    """The unconstrained scales of one layer."""
    g = torch.Generator().manual_seed(seed)
    return prior.unconstrained(prior.init_scales((WEIGHTS,), g, dtype=torch.float64))


def along(prior, u, name):
    """Log density as the first element of one variable runs over the grid and all else stays."""

    first = (torch.arange(u[name].numel()) == 0).view(u[name].shape)
    return torch.vmap(lambda value: prior.log_prob_scales({**u, name: torch.where(first, value, u[name])}))(GRID)


@every_prior
def test_density_is_that_of_the_draws(prior):
    """Each variable against the integral of its density; and the joint density is normalised.

    The variables are independent, so the integral over one of them is the density of all others. Over K variables, at
    the same point: sum of log integrals = (K - 1) log p(u).
    """
    u, sample = one_layer(prior), prior.unconstrained(drawn(prior))
    same = {name: torch.full_like(value, float(value.reshape(-1)[0])) for name, value in u.items()}
    total, count = 0.0, 0
    for name, value in same.items():
        log_density = along(prior, same, name)
        log_integral = torch.logsumexp(log_density, 0) + math.log(0.02)
        total += value.numel() * float(log_integral)
        count += value.numel()
        cdf = np.cumsum(torch.exp(log_density - torch.logsumexp(log_density, 0)).numpy())
        points = GRID.numpy() + 0.01  # of the midpoint rule
        found = stats.kstest(sample[name][:, 0].numpy(), lambda x, c=cdf, p=points: np.interp(x, p, c))
        assert found.pvalue > FALSE_ALARM, name
    assert total == pytest.approx((count - 1) * float(prior.log_prob_scales(same)), rel=1e-6)


@every_prior
def test_variables_are_independent(prior):
    """Correlations of ranks: z = r sqrt(n), and two weights of a layer are two variables."""
    sample = prior.unconstrained(drawn(prior))
    columns = [value[:, k] for value in sample.values() for k in range(min(2, value.shape[1]))]
    ranks = [stats.rankdata(column.numpy()) for column in columns]
    for one, other in combinations(ranks, 2):
        z = np.corrcoef(one, other)[0, 1] * math.sqrt(LAYERS)
        assert 2 * stats.norm.sf(abs(z)) > FALSE_ALARM


@every_prior
def test_variance_is_that_of_the_scales(prior):
    scales = drawn(prior, 50)
    found = prior.log_variance(prior.unconstrained(scales))
    torch.testing.assert_close(found, prior.variance(scales).log(), rtol=1e-11, atol=1e-11)


@every_prior
def test_layers_side_by_side_are_layers_one_by_one(prior):
    whole = prior.unconstrained(drawn(prior, 4))
    each = [prior.log_prob_scales({name: value[k : k + 1] for name, value in whole.items()}) for k in range(4)]
    torch.testing.assert_close(prior.log_prob_scales(whole), torch.stack(each).sum())


@every_prior
def test_derivatives(prior):
    u = {name: value.clamp(-5, 5).requires_grad_() for name, value in one_layer(prior).items()}

    def both(*values):
        named = dict(zip(u, values, strict=True))
        return prior.log_prob_scales(named), prior.log_variance(named)

    assert torch.autograd.gradcheck(both, tuple(u.values()))
