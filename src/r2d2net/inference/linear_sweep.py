"""One sweep of collapsed, blocked Gibbs for linear regression under a scale mixture and a prior on R2.

    y = X w + e,      e_i ~ N(0, sigma^2),      w_j ~ N(0, sigma^2 g^2 v_j(s)),      s ~ the prior's scales
    tau^2 = g^2 sum_j v_j mean(x_j^2),      R2 = tau^2 / (1 + tau^2) ~ Beta(a, b),      sigma^2 ~ IG(a0, b0)

Given s, log g and log tau differ by a constant, and with t = log tau^2 the density of log g is that of log tau,

    log p(log g | s) = a t - (a + b) log(1 + e^t)      on |log tau| < 12, that is 4e-11 < R2 < 1 - 4e-11

A sweep leaves p(w, sigma^2, log g, s | y) invariant:

1. log g | s, y with w and sigma^2 integrated out. Up to 110 rows or columns (`LARGEST_SPECTRUM`) all densities on the
   lattice log g + h k, k = ..., -1, 0, 1, ..., cost little: one of these points is drawn. A lattice through the current
   value whose spacing h is drawn anew, h ~ U(0.08, 0.12), reaches every value, so this is a draw on the line and no
   approximation. Beyond 110 a Metropolis step.
2. sigma^2 | log g, s, y with w integrated out.
3. w | sigma^2, log g, s, y.
4. s | w, sigma^2, log g. The prior's own sweep leaves p0(s) ∝ p(s) prod_j N(w_j / (sigma g) | 0, v_j) invariant, and
   the target is p0(s) p(log g | s): the sweep is a proposal s', accepted with probability
   min(1, p(log g | s') / p(log g | s)). That is Metropolis' rule only if the proposal is reversible, which a scan
   through several scales in a fixed order is not; so it runs forwards (`gibbs`) or backwards (`gibbs_reversed`) with
   probability 1/2 each.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.distributions import standard_gamma
from r2d2net.inference.linear_problem import EXACT, Factors, LinearProblem, Spectrum
from r2d2net.inference.linear_scale import LARGEST_LOG_TAU, LogTarget, Moved, move_on_lattice, step_of_metropolis
from r2d2net.model import AnyPrior
from r2d2net.priors.base import positive_finite

LARGEST_SPECTRUM = 110  # rows or columns up to which eigenvalues are cheaper than two Cholesky factors and a worse move
START_SWEEPS = 5
AT_ONCE = 1 << 23  # numbers of a batch of chains in memory at a time


class HasMeanSquare(Protocol):
    """Data whose inputs have means of squares."""

    @property
    def mean_square(self) -> Tensor: ...  # (p,), or of each row of weights


class Hyper(NamedTuple):
    """The prior of everything.

    Attributes:
        prior: Prior of the weights, whose scales share out the variance.
        a: First shape of R2 ~ Beta(a, b).
        b: Second shape.
        noise_shape: a0 of sigma^2 ~ IG(a0, b0).
        noise_rate: b0.
        log_unit: Logarithm of the unit of tau, the standard deviation of the noise at sigma = 1: 0, or for classes that
            of the logistic distribution's.
        intercept_scale: For classes, standard deviation of the intercept's prior; 0 without an intercept.
    """

    prior: AnyPrior
    a: float
    b: float
    noise_shape: float
    noise_rate: float
    log_unit: float = 0.0
    intercept_scale: float = 0.0


class Chains(NamedTuple):
    """Where the chains stand; chain i is for column i % outputs of y.

    Attributes:
        weights: w, (chains, p).
        variance: sigma^2, (chains,).
        log_g: log g, (chains,).
        scales: The prior's scales, local ones (chains, p) and global ones (chains, 1).
        log_step: Logarithm of the step size of the Metropolis step, (chains,).
    """

    weights: Tensor
    variance: Tensor
    log_g: Tensor
    scales: Any
    log_step: Tensor


def first_chains(hyper: Hyper, chains: int, inputs: int, generator: torch.Generator) -> Chains:
    """Draw the scales from the prior; all else waits for `start`.

    Args:
        hyper: The prior.
        chains: Number of chains.
        inputs: Number of weights of each.
        generator: Source of randomness.

    Returns:
        The chains.
    """
    device = generator.device
    scales = hyper.prior.init_scales((chains, inputs), generator, groups=(chains, 1), dtype=EXACT, device=device)
    zeros = torch.zeros(chains, dtype=EXACT, device=device)
    return Chains(zeros.new_zeros(chains, inputs), zeros + 1, zeros, scales, zeros + math.log(0.3))


def start(problem: LinearProblem, hyper: Hyper, chains: Chains, generator: torch.Generator) -> Chains:
    """Start from ridge regression: a draw of w at the likeliest tau under equal shares, then sweeps of the scales.

    Args:
        problem: The data.
        hyper: The prior.
        chains: What `first_chains` returned.
        generator: Source of randomness.

    Returns:
        The chains before their first sweep.
    """
    outputs = _outputs(problem, chains)
    equal = torch.ones_like(chains.weights[:1]) / problem.mean_square.sum()
    taus = torch.linspace(-8, 8, 81, dtype=EXACT, device=equal.device).exp()
    weights, variance, log_tau = [], [], []
    for output in range(problem.y.shape[1]):
        ridge = Spectrum(problem.x, problem.y.T[output : output + 1], equal, gram=problem.gram)
        quadratic, half_log_det = ridge.energy(taus[None])
        best = int(_log_evidence(problem, hyper, quadratic, half_log_det).argmax())
        shape, rate = _noise_posterior(problem, hyper, quadratic[0, best])
        variance.append(rate / shape)
        log_tau.append(taus[best].log())
    variances, log_taus = (torch.stack(values)[outputs] for values in (variance, log_tau))
    for part in parts_of(problem.x, len(outputs)):
        targets, shares = problem.y.T[outputs[part]], equal.expand(len(outputs), -1)[part]
        ridge = Spectrum(problem.x, targets, shares, gram=problem.gram)
        weights.append(ridge.draw(log_taus[part].exp(), variances[part], generator))
    drawn, scales = torch.cat(weights), chains.scales
    log_g = log_taus - problem.mean_square.sum().log() / 2
    standard = _standardized(drawn, variances, log_g)
    for _ in range(START_SWEEPS):
        scales = hyper.prior.gibbs(standard, scales, generator)
    log_g = log_taus - log_total(problem, hyper, scales) / 2
    return chains._replace(weights=drawn, variance=variances, log_g=log_g, scales=scales)


def sweep(
    problem: LinearProblem, hyper: Hyper, chains: Chains, generator: torch.Generator, learning_rate: float = 0.0
) -> Chains:
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
    chains = draw_weights(problem, hyper, chains, generator, learning_rate)
    return chains._replace(scales=draw_scales(problem, hyper, chains, generator))


def draw_weights(
    problem: LinearProblem, hyper: Hyper, chains: Chains, generator: torch.Generator, learning_rate: float = 0.0
) -> Chains:
    """Draw log g, sigma^2 and w given the scales; the arguments are those of `sweep`.

    Returns:
        The chains with their new values.
    """
    outputs, variance = _outputs(problem, chains), hyper.prior.variance(chains.scales)
    half_total = log_total(problem, hyper, chains.scales) / 2
    shares = torch.exp(variance.log() - 2 * half_total.unsqueeze(-1))
    log_tau, log_step = chains.log_g + half_total, chains.log_step
    moved, own = [], problem.x.dim() == 3
    for k in parts_of(problem.x, len(outputs)):
        x, gram = (
            (problem.x[k], None if problem.gram is None else problem.gram[k]) if own else (problem.x, problem.gram)
        )
        data = (x, problem.y.T[outputs[k]], shares[k])
        moved.append(_move(problem, hyper, data, gram, (log_tau[k], log_step[k]), generator, learning_rate))
    log_tau, sigma2, weights, log_step = (torch.cat(values) for values in zip(*moved, strict=True))
    return chains._replace(weights=weights, variance=sigma2, log_g=log_tau - half_total, log_step=log_step)


def _move(
    problem: LinearProblem,
    hyper: Hyper,
    data: tuple[Tensor, Tensor, Tensor],
    gram: Tensor | None,
    at: tuple[Tensor, Tensor],
    generator: torch.Generator,
    learning_rate: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw log tau, sigma^2 and w of chains with these inputs, targets and shares, and learn the step size."""

    def log_target(quadratic: Tensor, half_log_det: Tensor, values: Tensor) -> Tensor:
        return _log_evidence(problem, hyper, quadratic, half_log_det) + log_density(hyper, values)

    moved = move_scale(data, *at, log_target, generator, learning_rate, gram=gram)
    variance = _draw_variance(problem, hyper, moved.quadratic, generator)
    return moved.log_tau, variance, moved.draw(variance), moved.log_step


def move_scale(
    data: tuple[Tensor, Tensor, Tensor],
    log_tau: Tensor,
    log_step: Tensor,
    log_target: LogTarget,
    generator: torch.Generator,
    learning_rate: float = 0.0,
    **rows: Any,
) -> Moved:
    """Move log tau on a lattice, or by a Metropolis step where eigenvalues would be dear.

    Args:
        data: Inputs (n, p) or (chains, n, p), targets (chains, n) and shares (chains, p).
        log_tau: log tau of each chain, (chains,).
        log_step: Logarithm of the step size of each chain, (chains,).
        log_target: Log density up to a constant.
        generator: Source of randomness.
        learning_rate: Speed at which the step size is learnt.
        **rows: The other arguments of `ByShares`.

    Returns:
        The scale after the move.
    """
    if min(data[0].shape[-2:]) <= LARGEST_SPECTRUM:
        return move_on_lattice(Spectrum(*data, **rows), log_tau, log_step, log_target, generator)
    return step_of_metropolis(Factors(*data, **rows), log_tau, log_step, log_target, generator, learning_rate)


def draw_scales(problem: HasMeanSquare, hyper: Hyper, chains: Chains, generator: torch.Generator) -> Any:
    """Draw the scales given all else: the prior's sweep in a drawn direction, accepted by Metropolis' rule.

    Args:
        problem: The data.
        hyper: The prior.
        chains: The chains.
        generator: Source of randomness.

    Returns:
        The new scales.
    """
    scales, log_g = chains.scales, chains.log_g
    if not hyper.prior.has_scales:
        return scales
    proposal = propose_scales(hyper, chains, generator)
    log_p, new_log_p = (
        log_density(hyper, log_g + log_total(problem, hyper, values) / 2) for values in (scales, proposal)
    )
    takes = torch.empty_like(log_g).uniform_(generator=generator).log() < new_log_p - log_p
    return choose_scales(takes, proposal, scales)


def propose_scales(hyper: Hyper, chains: Chains, generator: torch.Generator) -> Any:
    """Take the prior's sweep of the scales in a drawn direction.

    Args:
        hyper: The prior.
        chains: The chains.
        generator: Source of randomness.

    Returns:
        The scales after it.
    """
    backwards = bool(torch.empty((), device=chains.log_g.device).uniform_(generator=generator) < 0.5)
    propose = hyper.prior.gibbs_reversed if backwards else hyper.prior.gibbs
    return propose(_standardized(chains.weights, chains.variance, chains.log_g), chains.scales, generator)


def choose_scales(takes: Tensor, proposal: Any, scales: Any) -> Any:
    """Select the proposed scales where they are taken.

    Args:
        takes: Whether each row of weights takes its proposal.
        proposal: The proposed scales.
        scales: The scales as they are.

    Returns:
        The scales after Metropolis' rule.
    """
    return type(scales)(
        *(torch.where(takes.unsqueeze(-1), new, old) for new, old in zip(proposal, scales, strict=True))
    )


def log_density(hyper: Hyper, log_tau: Tensor) -> Tensor:
    """Compute the log density of log tau up to a constant, -inf outside its range.

    Args:
        hyper: The prior.
        log_tau: Values of log tau.

    Returns:
        The log density of each.
    """
    t = 2 * log_tau
    inside = log_tau.abs() < LARGEST_LOG_TAU
    return torch.where(inside, hyper.a * t - (hyper.a + hyper.b) * softplus(t, threshold=60), -math.inf)


def log_total(problem: HasMeanSquare, hyper: Hyper, scales: Any) -> Tensor:
    """Compute log sum_j v_j mean(x_j^2), which is log tau^2 at g = 1, in units of the noise.

    Args:
        problem: The data, of which only mean(x_j^2) matters.
        hyper: The prior.
        scales: The prior's scales of a batch of chains.

    Returns:
        The logarithm of each chain, (chains,).
    """
    return (hyper.prior.variance(scales).log() + problem.mean_square.log()).logsumexp(-1) - 2 * hyper.log_unit


def _noise_posterior(problem: LinearProblem, hyper: Hyper, quadratic: Tensor) -> tuple[float, Tensor]:
    """Shape and rate of sigma^2 | tau, y."""
    return hyper.noise_shape + problem.degrees / 2, hyper.noise_rate + quadratic / 2


def _draw_variance(problem: LinearProblem, hyper: Hyper, quadratic: Tensor, generator: torch.Generator) -> Tensor:
    shape, rate = _noise_posterior(problem, hyper, quadratic)
    return positive_finite(rate / standard_gamma(torch.full_like(rate, shape), generator))


def _log_evidence(problem: LinearProblem, hyper: Hyper, quadratic: Tensor, half_log_det: Tensor) -> Tensor:
    shape, rate = _noise_posterior(problem, hyper, quadratic)
    return -half_log_det - shape * rate.log()


def _standardized(weights: Tensor, variance: Tensor, log_g: Tensor) -> Tensor:
    """w / (sigma g), whose variance is the prior's own v."""
    return weights * torch.exp(-variance.log() / 2 - log_g).unsqueeze(-1)


def _outputs(problem: LinearProblem, chains: Chains) -> Tensor:
    return torch.arange(len(chains.log_g), device=chains.log_g.device) % problem.y.shape[1]


def parts_of(x: Tensor, chains: int) -> list[slice]:
    """Cut a batch of chains into parts small enough for the memory.

    Args:
        x: Inputs, (n, p) or (chains, n, p).
        chains: Number of chains.

    Returns:
        The parts.
    """
    n, p = x.shape[-2:]
    numbers = min(n, p) ** 2 + (n * p if n < p else 0) + min(n, p) * 300 * (min(n, p) <= LARGEST_SPECTRUM)
    size = max(1, AT_ONCE // max(1, numbers))
    return [slice(first, min(first + size, chains)) for first in range(0, chains, size)]
