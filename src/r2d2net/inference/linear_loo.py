"""Leave-one-out moments of a linear layer given the scales, without fitting again.

    T y ~ N(0, v M),   M = I + tau^2 T X diag(q) X' T',     A = T' M^-1 T     (T of `linear_rows`, T = I for regression)

A normal vector of precision A has, given all its other entries, mean y_i - (A y)_i / A_ii and variance v / A_ii. So

    regression   y_i | y_-i ~ N(y_i - (A y)_i / d_i, sigma^2 / d_i),     d_i = A_ii - 1 / n  (A_ii without an intercept)
    classes      f_ik - c_i | y_-i ~ N(z_i - c_i - (A z)_i / A_ii, 1 / A_ii - 1 / omega_i),     k = y_i the row's class

for a fixed tau, sigma^2, scales, and Polya-Gamma variables of the other rows. The flat intercept of a regression takes
1 / n off, since M 1 = 1 for centred inputs. With weights proportional to 1 / p(y_i | y_-i, all these) draws of the
posterior stand for those of the posterior without row i: that is exact, and mild, since w is integrated out. For
classes p(y_i | ...) = E sigmoid(f_ik - c_i), with the other classes' weights held as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.distributions.polya_gamma_sampler import sample_polya_gamma
from r2d2net.inference.linear_class_moves import log_others
from r2d2net.inference.linear_classes import ClassChains, ClassProblem, class_log_total
from r2d2net.inference.linear_problem import Factors, LinearProblem
from r2d2net.inference.linear_rows import WeightedRows
from r2d2net.inference.linear_sweep import Chains, Hyper, log_total, parts_of

LEAST_VARIANCE = 1e-12


class Moments(NamedTuple):
    """Leave-one-out mean and variance of each row, given all but the weights.

    Attributes:
        mean: Means, (chains * outputs, n), or (chains, n) for classes.
        variance: Variances of the same shape.
    """

    mean: Tensor
    variance: Tensor


def regression_moments(problem: LinearProblem, hyper: Hyper, chains: Chains) -> Moments:
    """Compute the moments of y_i given the other rows.

    Args:
        problem: The data.
        hyper: The prior.
        chains: The chains.

    Returns:
        The moments, in units of the target.
    """
    outputs = torch.arange(len(chains.log_g), device=chains.log_g.device) % problem.y.shape[1]
    total = log_total(problem, hyper, chains.scales)
    shares = torch.exp(hyper.prior.variance(chains.scales).log() - total.unsqueeze(-1))
    tau = torch.exp(chains.log_g + total / 2)
    n, parts = len(problem.y), []
    for k in parts_of(problem.x, len(tau)):
        y = problem.y.T[outputs[k]]
        diagonal, solved = _precision(Factors(problem.x, y, shares[k], gram=problem.gram), tau[k])
        d = (diagonal - (n - problem.degrees) / n).clamp(min=LEAST_VARIANCE)
        parts.append((y - solved / d + problem.y_mean[outputs[k]].unsqueeze(-1), chains.variance[k].unsqueeze(-1) / d))
    return Moments(*(torch.cat(values) for values in zip(*parts, strict=True)))


def class_moments(problem: ClassProblem, hyper: Hyper, chains: ClassChains, generator: torch.Generator) -> Moments:
    """Compute the moments of f_ik - c_i of each row's own class k; of two classes, of f_i or -f_i.

    Args:
        problem: The data.
        hyper: The prior.
        chains: The chains, with intercepts for centred inputs.
        generator: Source of randomness of the Polya-Gamma variables.

    Returns:
        The moments.
    """
    logits = problem.hits.shape[1]
    linear = chains.linear
    total = class_log_total(problem, hyper, linear.scales)
    tau = torch.exp(linear.log_g.unflatten(0, (-1, logits)) + total.unsqueeze(-1) / 2)
    log_variance = hyper.prior.variance(linear.scales).log().unflatten(0, (-1, logits))
    shares = torch.exp(log_variance - total[:, None, None])
    outputs = linear.weights @ problem.x.T + chains.intercept.unsqueeze(-1)
    outputs = outputs.unflatten(0, (-1, logits))
    mean, variance = torch.zeros_like(outputs[:, 0]), torch.zeros_like(outputs[:, 0])
    for k in range(logits):
        others, hits = log_others(outputs, k), problem.hits[:, k]
        omega = sample_polya_gamma(outputs[:, k] - others, generator)
        z = others + (hits - 0.5) / omega
        for part in parts_of(problem.x, len(z)):
            rows = WeightedRows(omega[part], hyper.intercept_scale)
            given = Factors(problem.x, rows.forth(z[part]), shares[part, k], rows=rows)
            diagonal, solved = _precision(given, tau[part, k])
            diagonal = diagonal.clamp(min=LEAST_VARIANCE)
            center = z[part] - others[part] - solved / diagonal
            spread = (1 / diagonal - 1 / omega[part]).clamp(min=LEAST_VARIANCE)
            sign, own = (2 * hits - 1, torch.ones_like(hits)) if logits == 1 else (1.0, hits)
            mean[part] += own * sign * center
            variance[part] += own * spread
    return Moments(mean, variance)


def _precision(given: Factors, tau: Tensor) -> tuple[Tensor, Tensor]:
    """Diagonal of A and A y, (chains, n)."""
    factor = given.factor(tau)
    if given.by_rows:
        inverse = torch.cholesky_inverse(factor)
        solved = (inverse @ given.y.unsqueeze(-1)).squeeze(-1)
        if given.rows is None:
            return inverse.diagonal(dim1=-2, dim2=-1), solved
        return given.rows.diagonal_within(inverse), given.rows.back(solved)
    rows = given.x.expand(len(tau), -1, -1) if given.rows is None else given.rows.weigh(given.x)  # T'T X
    scaled = (tau.unsqueeze(-1) * given.roots).unsqueeze(-1) * rows.mT  # tau D X' T'T, (chains, p, n)
    half = torch.linalg.solve_triangular(factor, scaled, upper=False)
    whole = torch.ones_like(given.y) if given.rows is None else given.rows.square_diagonal()
    target = torch.linalg.solve_triangular(factor, (tau.unsqueeze(-1) * given.target).unsqueeze(-1), upper=False)
    back = given.y if given.rows is None else given.rows.back(given.y)
    return whole - half.square().sum(-2), back - (half * target).sum(-2)
