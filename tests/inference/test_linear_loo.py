"""Leave-one-out moments against refits, and the weights of draws against arviz and quadrature."""

import math

import pytest
import torch

from linear_class_proofs import class_hyper
from linear_gibbs_proofs import design, hyper_of
from r2d2net.inference import linear_classes, linear_loo, linear_sweep
from r2d2net.inference.linear_problem import Factors, linear_problem
from r2d2net.inference.linear_rows import WeightedRows
from r2d2net.priors import R2D2

DOUBLE = torch.float64


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(7, 3), (5, 9)], ids=str)
def test_moments_of_a_regression_are_those_of_refits(shape, intercept):
    """By the closed form of the other rows, for fixed scales, with a flat intercept of variance 1e8."""
    n, p = shape
    x, generator = design(n, p), torch.Generator().manual_seed(1)
    y = x[:, :1] + 2 + torch.randn(n, 1, generator=generator, dtype=DOUBLE)
    hyper = hyper_of(R2D2(a_pi=0.5))
    problem = linear_problem(x, y, intercept=intercept)
    chains = linear_sweep.first_chains(hyper, 2, p, generator)
    chains = linear_sweep.sweep(problem, hyper, chains, generator)
    found = linear_loo.regression_moments(problem, hyper, chains)
    for chain in range(2):
        v = torch.exp(2 * chains.log_g[chain]) * hyper.prior.variance(chains.scales)[chain]
        covariance = (problem.x * v) @ problem.x.T + 1e8 * float(intercept)
        for i in range(n):
            others = [j for j in range(n) if j != i]
            inner = covariance[others][:, others] + torch.eye(n - 1, dtype=DOUBLE)
            gain = torch.linalg.solve(inner, covariance[others, i])
            mean = gain @ y[others, 0]
            variance = chains.variance[chain] * (1 + covariance[i, i] - gain @ covariance[others, i])
            torch.testing.assert_close(found.mean[chain, i], mean, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(found.variance[chain, i], variance, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(7, 3), (5, 9)], ids=str)
@pytest.mark.parametrize("scale", [0.0, 3.0])
def test_precisions_of_weighted_rows_are_the_dense_formulas(shape, scale):
    n, p = shape
    x, generator = design(n, p), torch.Generator().manual_seed(2)
    omega, shares = (torch.rand(2, size, generator=generator, dtype=DOUBLE) + 0.01 for size in (n, p))
    z = torch.randn(2, n, generator=generator, dtype=DOUBLE)
    tau = torch.tensor([0.6, 4.0], dtype=DOUBLE)
    rows = WeightedRows(omega, scale)
    given = Factors(x, rows.forth(z), shares, rows=rows)
    diagonal, solved = linear_loo._precision(given, tau)
    quadratic, half_log_det = given.energy(tau, given.factor(tau))
    for k in range(2):
        covariance = torch.diag(1 / omega[k]) + tau[k] ** 2 * (x * shares[k]) @ x.T + scale**2
        inverse = torch.linalg.inv(covariance)
        torch.testing.assert_close(diagonal[k], inverse.diagonal())
        torch.testing.assert_close(solved[k], inverse @ z[k])
        torch.testing.assert_close(quadratic[k], z[k] @ inverse @ z[k])
        prior = torch.diag(1 / omega[k]) + scale**2
        torch.testing.assert_close(half_log_det[k], (covariance.logdet() - prior.logdet()) / 2)


@pytest.mark.parametrize("logits", [1, 3])
def test_class_moments_leave_the_row_out(logits):
    """A row's label has no effect on its own moments beyond that on its Polya-Gamma variable, which they leave out."""
    x, generator = design(6, 4), torch.Generator().manual_seed(3)
    hyper = class_hyper(R2D2(a_pi=0.5))
    hits = torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 0, 1, 2]) % max(2, logits), max(2, logits)).T[-logits:]
    problem = linear_classes.class_problem(x, hits[None], intercept=False)
    linear = linear_sweep.first_chains(hyper, 2 * logits, 4, generator)
    chains = linear_classes.ClassChains(linear, torch.zeros(2 * logits, dtype=DOUBLE))
    chains = linear_classes.sweep(problem, hyper, chains, generator)
    moments = linear_loo.class_moments(problem, hyper, chains, torch.Generator().manual_seed(4))
    changed = problem.hits.clone()
    changed[..., 0] = 1 - changed[..., 0] if logits == 1 else changed[..., 0]
    other = linear_loo.class_moments(problem._replace(hits=changed), hyper, chains, torch.Generator().manual_seed(4))
    assert moments.mean.shape == (2, 6)
    assert bool((moments.variance > 0).all())
    sign = -1 if logits == 1 else 1
    torch.testing.assert_close(other.mean[:, 0], sign * moments.mean[:, 0])
    torch.testing.assert_close(other.variance[:, 0], moments.variance[:, 0])
    assert math.isfinite(float(moments.mean.sum()))
