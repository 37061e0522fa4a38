"""Moves of the scale log tau of linear weights, with the weights integrated out.

The target is any density of (y' M^-1 y, log|M| / 2, log tau), where M = I + tau^2 X diag(q) X' (`linear_problem`).

`move_on_lattice` draws one point of the lattice log tau + h k, k = ..., -1, 0, 1, ... in |log tau| < 12. The lattice
goes through the current value, and its spacing h ~ U(0.08, 0.12) is drawn anew, so every value can be reached: a draw
on the line and no approximation. `step_of_metropolis` proposes log tau + N(0, step^2); it needs one Cholesky factor
where the lattice needs all eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.linear_problem import EXACT, Factors, Spectrum

LARGEST_LOG_TAU = 12.0
SPACING = (0.08, 0.12)
TARGET_ACCEPTANCE = 0.4  # of the Metropolis step

LogTarget = Callable[[Tensor, Tensor, Tensor], Tensor]  # of y' M^-1 y, log|M| / 2 and log tau


class Moved(NamedTuple):
    """The scale after a move.

    Attributes:
        log_tau: log tau of each chain, (chains,).
        quadratic: y' M^-1 y there, (chains,).
        log_step: Logarithm of the Metropolis step, (chains,).
        draw: Draws the weights given the noise variance of each chain.
    """

    log_tau: Tensor
    quadratic: Tensor
    log_step: Tensor
    draw: Callable[[Tensor], Tensor]


def move_on_lattice(
    given: Spectrum, log_tau: Tensor, log_step: Tensor, log_target: LogTarget, generator: torch.Generator
) -> Moved:
    """Draw log tau from the lattice through its value.

    Args:
        given: The problem by its eigenvalues.
        log_tau: log tau of each chain, (chains,).
        log_step: Passed through.
        log_target: Log density up to a constant.
        generator: Source of randomness.

    Returns:
        The scale after the move.
    """
    low, high = SPACING
    spacing = torch.empty_like(log_tau).uniform_(low, high, generator=generator)
    below = torch.floor((log_tau + LARGEST_LOG_TAU) / spacing)
    steps = torch.arange(math.ceil(2 * LARGEST_LOG_TAU / low), dtype=EXACT, device=log_tau.device)
    lattice = log_tau.unsqueeze(-1) + spacing.unsqueeze(-1) * (steps - below.unsqueeze(-1))
    quadratic, half_log_det = given.energy(lattice.clamp(max=LARGEST_LOG_TAU).exp())
    log_p = log_target(quadratic, half_log_det, lattice)
    index = torch.multinomial(torch.softmax(log_p, -1), 1, generator=generator)
    log_tau, quadratic = lattice.gather(-1, index).squeeze(-1), quadratic.gather(-1, index).squeeze(-1)
    return Moved(log_tau, quadratic, log_step, lambda variance: given.draw(log_tau.exp(), variance, generator))


def step_of_metropolis(
    given: Factors,
    log_tau: Tensor,
    log_step: Tensor,
    log_target: LogTarget,
    generator: torch.Generator,
    learning_rate: float = 0.0,
) -> Moved:
    """Take one Metropolis step of log tau.

    Args:
        given: The problem by Cholesky factors.
        log_tau: log tau of each chain, (chains,).
        log_step: Logarithm of the step size of each chain, (chains,).
        log_target: Log density up to a constant.
        generator: Source of randomness.
        learning_rate: Speed at which the step size is learnt; 0 after the burn-in.

    Returns:
        The scale after the step.
    """

    def evaluate(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        tau = values.clamp(-LARGEST_LOG_TAU, LARGEST_LOG_TAU).exp()
        factor = given.factor(tau)
        quadratic, half_log_det = given.energy(tau, factor)
        return factor, quadratic, log_target(quadratic, half_log_det, values)

    factor, quadratic, log_p = evaluate(log_tau)
    proposal = log_tau + log_step.exp() * torch.empty_like(log_tau).normal_(generator=generator)
    new_factor, new_quadratic, new_log_p = evaluate(proposal)
    accepting = (new_log_p - log_p).exp().clamp(max=1)
    takes = torch.empty_like(log_tau).uniform_(generator=generator) < accepting
    factor[takes] = new_factor[takes]
    log_tau, quadratic = torch.where(takes, proposal, log_tau), torch.where(takes, new_quadratic, quadratic)
    log_step = log_step + learning_rate * (accepting - TARGET_ACCEPTANCE)
    return Moved(log_tau, quadratic, log_step, lambda variance: given.draw(log_tau.exp(), factor, variance, generator))
