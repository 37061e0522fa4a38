"""One sweep of Gibbs sampling for linear classes, by Polya-Gamma variables, under a scale mixture and a prior on R2.

    f_ik = b_k + x_i' w_k,    P(y_i = k) = e^(f_ik) / sum_l e^(f_il),    w_kj ~ N(0, g^2 v_kj(s_k)),    b_k ~ N(0, s^2)
    tau^2 = g^2 mean_k sum_j v_kj mean(x_j^2),      R2 = tau^2 / (tau^2 + pi^2 / 3) ~ Beta(a, b)

Two classes have one logit, f_i = log odds of the second. pi^2 / 3 is the variance of the logistic noise of the latent
utility whose sign is the class: R2 is the share of the utility's variance that the layer explains. All classes have one
g: with one for each, any class may become the one with small weights, and chains get stuck at their first choice.

Given the other classes, class k is a logistic regression (C. Holmes and L. Held, Bayesian Analysis 1, 2006), which is
normal given Polya-Gamma variables (N. Polson, J. Scott and J. Windle, JASA 108, 2013):

    c_i = log sum_{l != k} e^(f_il)  (0 for two classes),      omega_i ~ PG(1, f_ik - c_i)
    z_i = c_i + (1[y_i = k] - 1/2) / omega_i  ~  N(b_k + x_i' w_k, 1 / omega_i)

A sweep leaves p(w, b, log g, s | y) invariant. For each class in turn, given the others as they are by then,

1. omega | w, b;   2. for two classes, log g | omega, s with w and b integrated out;   3. w_k, then b_k, given these.

Then the moves of `linear_class_moves`, which need no omega: log g at constant w / g, the difference of two classes,
log g at constant w, and what is common to all classes. Last the scales s | w, g, a Metropolis step as in
`linear_sweep`, for all classes of a chain.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.distributions.polya_gamma_sampler import sample_polya_gamma
from r2d2net.inference import linear_sweep
from r2d2net.inference.linear_class_moves import log_others, rescale_outputs, rescale_prior, shift_all, stretch_pairs
from r2d2net.inference.linear_problem import EXACT, Factors
from r2d2net.inference.linear_rows import WeightedRows, fitted_values
from r2d2net.inference.linear_sweep import Chains, Hyper, move_scale, parts_of
from r2d2net.priors import Gaussian

GAUSSIAN_SWEEPS = 10  # at the start, under a Gaussian prior


class ClassProblem(NamedTuple):
    """Data of a linear classification, in float64; or of one for each chain (`linear_members`).

    Attributes:
        x: Inputs, (n, p), centred if there is an intercept; (chains, n, p) where each chain has its own.
        hits: Whether a row is of the class of a logit, 0 or 1: (1, logits, n), or (chains, logits, n) if each chain has
            labels of its own.
        x_mean: Means that were taken off the inputs, (p,); then (rows of weights, p).
        mean_square: Mean of x_j^2, (p,), ones where no input varies at all; then (rows of weights, p).
    """

    x: Tensor
    hits: Tensor
    x_mean: Tensor
    mean_square: Tensor


class ClassChains(NamedTuple):
    """Where the chains stand.

    Attributes:
        linear: Weights and scales; row i is for logit i % logits. All rows of a chain have the same log g.
        intercept: b, (chains * logits,).
    """

    linear: Chains
    intercept: Tensor


def class_problem(x: Tensor, hits: Tensor, *, intercept: bool) -> ClassProblem:
    """Prepare the data of a linear classification.

    Args:
        x: Inputs, (n, p).
        hits: Whether a row is of the class of a logit, (1 or chains, logits, n).
        intercept: Whether there is an intercept.

    Returns:
        The problem.
    """
    x = x.to(EXACT)
    x_mean = float(intercept) * x.mean(0)
    x = x - x_mean
    mean_square = x.square().mean(0)
    if not bool(mean_square.sum() > 0):
        mean_square = torch.ones_like(mean_square)
    return ClassProblem(x, hits.to(EXACT), x_mean, mean_square)


def start(problem: ClassProblem, hyper: Hyper, chains: ClassChains, generator: torch.Generator) -> ClassChains:
    """Start from some sweeps under a Gaussian prior, then sweeps of the scales.

    Args:
        problem: The data.
        hyper: The prior.
        chains: Chains with scales from the prior, all else zero.
        generator: Source of randomness.

    Returns:
        The chains before their first sweep.
    """
    scales = chains.linear.scales
    plain = hyper._replace(prior=Gaussian())
    rows, inputs = chains.linear.weights.shape
    linear = linear_sweep.first_chains(plain, rows, inputs, generator)
    linear = linear._replace(log_g=_of_rows(-class_log_total(problem, plain, linear.scales) / 2, problem))
    chains = chains._replace(linear=linear)
    for _ in range(GAUSSIAN_SWEEPS):
        chains = sweep(problem, plain, chains, generator, 0.5)
    linear = chains.linear
    log_tau = linear.log_g + _of_rows(class_log_total(problem, plain, linear.scales) / 2, problem)
    for _ in range(linear_sweep.START_SWEEPS):
        scales = hyper.prior.gibbs(linear.weights * torch.exp(-linear.log_g).unsqueeze(-1), scales, generator)
    log_g = log_tau - _of_rows(class_log_total(problem, hyper, scales) / 2, problem)
    return chains._replace(linear=linear._replace(scales=scales, log_g=log_g))


def sweep(
    problem: ClassProblem, hyper: Hyper, chains: ClassChains, generator: torch.Generator, learning_rate: float = 0.0
) -> ClassChains:
    """Take one sweep.

    Args:
        problem: The data.
        hyper: The prior.
        chains: The chains before the sweep.
        generator: Source of randomness.
        learning_rate: Speed at which the step size of the Metropolis step is learnt; 0 after the burn-in.

    Returns:
        The chains after the sweep.
    """
    logits = problem.hits.shape[1]
    linear = chains.linear
    half_total = class_log_total(problem, hyper, linear.scales) / 2
    log_variance = _by_chain(hyper.prior.variance(linear.scales).log(), logits)
    shares = torch.exp(log_variance - 2 * half_total[:, None, None])
    log_tau, log_step = _by_chain(linear.log_g, logits)[:, 0] + half_total, _by_chain(linear.log_step, logits)[:, 0]
    weights, intercept = _by_chain(linear.weights, logits), _by_chain(chains.intercept, logits)
    fitted = weights @ problem.x.mT
    log_prior = partial(linear_sweep.log_density, hyper)
    for part in parts_of(problem.x, len(weights)):
        hits = problem.hits[part] if len(problem.hits) > 1 else problem.hits
        given = problem._replace(hits=hits, x=problem.x if problem.x.dim() == 2 else problem.x[part])
        for k in range(logits):
            at = Row(fitted[part], intercept[part], shares[part, k], log_tau[part], log_step[part])
            row = draw_class(given, hyper, at, k, generator, learning_rate)
            weights[part, k], intercept[part, k], log_tau[part], log_step[part] = row
            fitted[part, k] = fitted_values(given.x, weights[part, k])
        for scale in (0.0, hyper.intercept_scale):
            at_part = (fitted[part], intercept[part], log_tau[part])
            log_c = rescale_outputs(hits, *at_part, log_prior, generator, scale)
            log_tau[part] += log_c
            weights[part] *= log_c.exp()[:, None, None]
            fitted[part] *= log_c.exp()[:, None, None]
            intercept[part] *= log_c.exp().unsqueeze(-1) if scale > 0 else 1
        if logits > 1:
            layer = (weights[part], intercept[part], fitted[part])
            wide = log_variance[part] + 2 * (log_tau - half_total)[part, None, None]
            stretch_pairs(hits, layer, wide, hyper.intercept_scale, generator)
    log_tau += rescale_prior(weights, shares, log_tau, log_prior, generator)
    log_g = log_tau - half_total
    if logits > 1:
        log_variance = 2 * log_g[:, None, None] + log_variance
        weights, intercept = shift_all(weights, log_variance, intercept, hyper.intercept_scale, generator)
    linear = linear._replace(
        weights=weights.flatten(0, 1),
        log_g=_of_rows(log_g, problem),
        log_step=_of_rows(log_step, problem),
    )
    return ClassChains(linear._replace(scales=draw_scales(problem, hyper, linear, generator)), intercept.flatten())


def class_log_total(problem: ClassProblem, hyper: Hyper, scales: Any) -> Tensor:
    """Compute log mean_k sum_j v_kj mean(x_j^2), which is log tau^2 at g = 1, in units of the noise.

    Args:
        problem: The data.
        hyper: The prior.
        scales: The prior's scales of all rows of weights.

    Returns:
        The logarithm of each chain, (chains,).
    """
    logits = problem.hits.shape[1]
    return _by_chain(linear_sweep.log_total(problem, hyper, scales), logits).logsumexp(1) - math.log(logits)


def draw_scales(problem: ClassProblem, hyper: Hyper, linear: Chains, generator: torch.Generator) -> Any:
    """Draw the scales of all classes given all else, as `linear_sweep.draw_scales` does for one row of weights.

    Args:
        problem: The data.
        hyper: The prior.
        linear: The chains.
        generator: Source of randomness.

    Returns:
        The new scales.
    """
    scales, logits = linear.scales, problem.hits.shape[1]
    if not hyper.prior.has_scales:
        return scales
    proposal = linear_sweep.propose_scales(hyper, linear, generator)
    log_g = _by_chain(linear.log_g, logits)[:, 0]
    log_p, new_log_p = (
        linear_sweep.log_density(hyper, log_g + class_log_total(problem, hyper, values) / 2)
        for values in (scales, proposal)
    )
    takes = torch.empty_like(log_g).uniform_(generator=generator).log() < new_log_p - log_p
    return linear_sweep.choose_scales(_of_rows(takes, problem), proposal, scales)


class Row(NamedTuple):
    """What a draw of one class starts from, for each chain.

    Attributes:
        fitted: x_i' w_k of all classes, (chains, logits, n).
        intercept: b of all classes, (chains, logits).
        shares: q of the class, (chains, p).
        log_tau: log tau in its unit, (chains,).
        log_step: Logarithm of the Metropolis step, (chains,).
    """

    fitted: Tensor
    intercept: Tensor
    shares: Tensor
    log_tau: Tensor
    log_step: Tensor


def draw_class(
    problem: ClassProblem, hyper: Hyper, at: Row, k: int, generator: torch.Generator, learning_rate: float = 0.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw omega, log tau if there are two classes, the weights and the intercept of one class given the other classes.

    Args:
        problem: The data.
        hyper: The prior.
        at: Where the chains stand.
        k: The class.
        generator: Source of randomness.
        learning_rate: Speed at which the step size of the Metropolis step is learnt.

    Returns:
        Weights (chains, p), intercept, log tau and log step (chains,).
    """

    def log_target(quadratic: Tensor, half_log_det: Tensor, log_tau: Tensor) -> Tensor:
        return -half_log_det - quadratic / 2 + linear_sweep.log_density(hyper, log_tau)

    outputs = at.fitted + at.intercept.unsqueeze(-1)
    others = log_others(outputs, k)
    omega = sample_polya_gamma(outputs[:, k] - others, generator)
    pull = problem.hits[:, k] - 0.5
    rows = WeightedRows(omega, hyper.intercept_scale)
    targets = rows.forth(others + pull / omega)

    data = (problem.x, targets, at.shares)
    log_tau, log_step, ones = at.log_tau, at.log_step, torch.ones_like(at.log_tau)
    if outputs.shape[1] > 1:
        factors = Factors(*data, rows=rows)
        tau = log_tau.exp()
        weights = factors.draw(tau, factors.factor(tau), ones, generator)
    else:
        moved = move_scale(data, log_tau, log_step, log_target, generator, learning_rate, rows=rows)
        weights, log_tau, log_step = moved.draw(ones), moved.log_tau, moved.log_step
    intercept = torch.zeros_like(at.log_tau)
    if hyper.intercept_scale > 0:
        precision = hyper.intercept_scale**-2 + omega.sum(-1)
        center = (pull + omega * (others - fitted_values(problem.x, weights))).sum(-1) / precision
        intercept = center + torch.empty_like(center).normal_(generator=generator) / precision.sqrt()
    return weights, intercept, log_tau, log_step


def _by_chain(values: Tensor, logits: int) -> Tensor:
    """Split the first dimension into chains and logits; the result may be changed in place."""
    return values.clone().unflatten(0, (-1, logits))


def _of_rows(values: Tensor, problem: ClassProblem) -> Tensor:
    """Repeat what each chain has for each of its rows of weights."""
    return values.repeat_interleave(problem.hits.shape[1])
