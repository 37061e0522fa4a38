"""Microcanonical Langevin Monte Carlo (Robnik et al., 2023): one leapfrog step of a batch of chains, and its step size.

A chain has a position w with density exp(-U(w)) and a direction u of unit length in d dimensions. With w = A z (a fixed
map, see `chain_metric`, such that the target is about as wide in every direction of z) the dynamics are

    dz = u dt,      du = -(I - u u') grad U / (d - 1) dt + noise that keeps |u| = 1,

which leave exp(-U(w)) times the uniform distribution of u invariant: the speed never changes, only the direction.
A step of length e is half a turn, a motion, half a turn; with g the gradient in z, t = e |g| / (2 (d - 1)) and
r = -g / |g| a half turn is

    u <- (u + r (sinh t + r'u (cosh t - 1))) / (cosh t + r'u sinh t),      K <- K + (d - 1) log(cosh t + r'u sinh t),

and then the direction forgets itself over a length L: u <- (u + nu N(0, I)) / |...|, nu^2 = (exp(2 e / L) - 1) / d.
The change of U + K over a step is its error: 0 for e -> 0. K is also the logarithm of the map's Jacobian on the sphere,
so that a Metropolis step on exp(-(U + K)) at the end of a trajectory makes the target exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.chain_metric import Metric
from r2d2net.inference.layered_pass import standard_normal

LARGEST_ERROR, LEAST_LIMIT = 20.0, 10.0  # a step is not taken beyond so many deviations of its error, and so many nats
FORGETTING = 0.98  # of the steps before, in the choice of the step size
SPREAD = 1.5  # of log errors, beyond which a step counts little in that choice
ORDER = 6  # the squared energy error grows as the step size to this power
LEAST_STEP, LARGEST_STEP = 1e-4, 1.0  # step sizes in units of sqrt(d)


class Point(NamedTuple):
    """Where chains stand.

    Attributes:
        position: w, (chains, d).
        energy: U(w), (chains,), float64.
        gradient: Gradient of U in w, (chains, d).
        output: What the potential returns beside them, (chains, ...).
    """

    position: Tensor
    energy: Tensor
    gradient: Tensor
    output: Tensor


Potential = Callable[[Tensor], Point]


class StepSize(NamedTuple):
    """Step sizes of chains and the running sums by which they are chosen.

    Attributes:
        value: e of each chain, (chains,).
        errors: Weighted sum of squared energy errors over e^6, (chains,).
        weights: Sum of the weights, (chains,).
    """

    value: Tensor
    errors: Tensor
    weights: Tensor


def first_step_size(chains: int, d: int, like: Tensor) -> StepSize:
    """Return small step sizes to begin with.

    Args:
        chains: Number of chains.
        d: Number of dimensions.
        like: Tensor whose dtype and device are used.

    Returns:
        The step sizes.
    """
    zeros = like.new_zeros(chains)
    return StepSize(zeros + 0.1 * math.sqrt(d), zeros, zeros.clone())


def learn(step_size: StepSize, error: Tensor, d: int, target: float) -> StepSize:
    """Choose the step size at which the energy error of a step has a given variance for each dimension.

    Args:
        step_size: Step sizes of the last step.
        error: Energy error of the last step, (chains,).
        d: Number of dimensions.
        target: Variance of the energy error that is aimed at, for each dimension.

    Returns:
        The new step sizes and sums.
    """
    excess = (error.square() / (d * target)).clamp(1e-8, 1e8).to(step_size.value.dtype)
    weight = torch.exp(-0.5 * (excess.log() / (ORDER * SPREAD)).square())
    errors = FORGETTING * step_size.errors + weight * excess / step_size.value**ORDER
    weights = FORGETTING * step_size.weights + weight
    value = (weights / errors.clamp(min=torch.finfo(errors.dtype).tiny)) ** (1 / ORDER)
    root = math.sqrt(d)
    return StepSize(value.clamp(LEAST_STEP * root, LARGEST_STEP * root), errors, weights)


def any_direction(like: Tensor, generator: torch.Generator) -> Tensor:
    """Draw directions uniformly from the sphere.

    Args:
        like: Tensor of shape (chains, d).
        generator: Source of randomness.

    Returns:
        Unit vectors, (chains, d).
    """
    return _unit(torch.empty_like(like).normal_(generator=generator))


def leapfrog(
    potential: Potential, point: Point, direction: Tensor, metric: Metric, length: Tensor
) -> tuple[Point, Tensor, Tensor]:
    """Take half a turn, a motion and half a turn.

    Args:
        potential: U with its gradient.
        point: Where the chains stand.
        direction: u, (chains, d).
        metric: The map w = A z of each chain.
        length: e of each chain, (chains,).

    Returns:
        The new points, the new directions, and the energy error U + K of the step, (chains,) in float64.
    """
    direction, before = _turn(direction, metric.to_gradient(point.gradient), length / 2)
    moved = potential(point.position + length.unsqueeze(-1) * metric.to_weights(direction))
    direction, after = _turn(direction, metric.to_gradient(moved.gradient), length / 2)
    return moved, direction, before + after + moved.energy - point.energy


def refuse_runaways(
    old: tuple[Point, Tensor], new: tuple[Point, Tensor], error: Tensor, deviation: float
) -> tuple[Point, Tensor, Tensor, Tensor]:
    """Undo moves whose energy error is not finite, or far beyond what it should be; those chains turn back.

    Args:
        old: Points and directions before the move.
        new: Points and directions after it.
        error: Energy errors of the move.
        deviation: Standard deviation that the error should have.

    Returns:
        Points and directions, energy errors with 0 for moves undone, and which were undone.
    """
    undone = ~(error.abs() < max(LEAST_LIMIT, LARGEST_ERROR * deviation))
    if not bool(undone.any()):
        return *new, error, undone
    (before, u), (after, v) = old, new
    return chosen(undone, before, after), _where(undone, -u, v), error.masked_fill(undone, 0), undone


def chosen(which: Tensor, first: Point, second: Point) -> Point:
    """Combine points of two sets.

    Args:
        which: Which chains take the first, (chains,).
        first: Points to take there.
        second: Points to take elsewhere.

    Returns:
        The points.
    """
    return Point(*(_where(which, a, b) for a, b in zip(first, second, strict=True)))


def forget(direction: Tensor, share: Tensor, *generators: torch.Generator) -> Tensor:
    """Let the directions forget themselves partly.

    Args:
        direction: u, (chains, d).
        share: e / L, the length of the step in units of that over which a direction is forgotten, (chains,).
        *generators: Sources of randomness, one for each run of as many chains.

    Returns:
        The new directions.
    """
    spread = (torch.expm1(2 * share) / direction.shape[-1]).sqrt().unsqueeze(-1)
    noise = standard_normal(direction.unflatten(0, (len(generators), -1)), generators).flatten(0, 1)
    return _unit(direction + spread * noise)


def _turn(direction: Tensor, gradient: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Turn directions against the gradient; return them and the change of K."""
    tiny, d = torch.finfo(gradient.dtype).tiny, direction.shape[-1]
    size = torch.linalg.vecdot(gradient, gradient).sqrt().clamp(min=tiny)
    along = (torch.linalg.vecdot(gradient, direction) / -size).clamp(-1, 1)
    t = length * size / (d - 1)
    z = torch.exp(-t)  # cosh and sinh are taken times 2 z, which does not overflow
    grown = (1 + along + (1 - along) * z * z).clamp(min=tiny)
    downhill = (z - 1) * (1 + z + along * (1 - z)) / (grown * size)
    turned = torch.addcmul(direction * (2 * z / grown).unsqueeze(-1), gradient, downhill.unsqueeze(-1))
    return turned, (t - math.log(2) + grown.log()).to(torch.float64) * (d - 1)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)


def _where(which: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.where(which.reshape(-1, *[1] * (first.dim() - 1)), first, second)
