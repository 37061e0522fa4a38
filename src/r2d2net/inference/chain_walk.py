"""Microcanonical steps between two Gibbs sweeps: motions and forgetting, steps that run away undone, step sizes learnt.

    (w, u)  <-  leapfrog with step size e,      u  <-  partly forgotten over a length L,      sweep_steps times

All that a step does is done for each chain by itself, so that chains of several runs may walk together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.chain_metric import Metric
from r2d2net.inference.microcanonical import Point, Potential, StepSize, forget, leapfrog, learn, refuse_runaways

SMALLER = 0.8  # factor of the step size of a chain that runs away in an epoch, or in more than so many of its steps:
OFTEN = 0.1
EARLY_ERROR = 50.0  # deviation of a step's error that is borne in the burn-in, when chains may still be far away


class Pace(NamedTuple):
    """How far and how exactly chains walk.

    Attributes:
        steps: Steps between two sweeps.
        length: Length L over which a direction is forgotten, in units of the square root of the number of weights.
        energy_variance: Variance of a step's energy error for each weight at which the step size aims.
    """

    steps: int
    length: float
    energy_variance: float


class Walkers(NamedTuple):
    """Where chains stand.

    Attributes:
        point: Weights with their potential.
        direction: Direction in which each chain moves, (chains, weights).
        step_size: Step sizes and how they are learnt.
        divergences: Steps undone after the burn-in, (chains,), int64 on the CPU.
    """

    point: Point
    direction: Tensor
    step_size: StepSize
    divergences: Tensor


def walk(
    potential: Potential,
    metric: Metric,
    at: Walkers,
    pace: Pace,
    generators: Sequence[torch.Generator],
    *,
    learns: bool,
) -> Walkers:
    """Move chains given scales and noise.

    Args:
        potential: U with its gradient.
        metric: The map w = A z of each chain.
        at: Where the chains stand.
        pace: How far and how exactly they walk.
        generators: Sources of randomness, one for each run of as many chains.
        learns: Whether step sizes are learnt, as in the burn-in.

    Returns:
        Where they stand after it.
    """
    point, direction, step_size, divergences = at
    d = direction.shape[-1]
    turning, total = pace.length * math.sqrt(d), 0 * point.energy
    aimed = EARLY_ERROR if learns else math.sqrt(d * pace.energy_variance)
    for _ in range(pace.steps):
        moved, turned, error = leapfrog(potential, point, direction, metric, step_size.value)
        point, direction, error, undone = refuse_runaways((point, direction), (moved, turned), error, aimed)
        total = total + error
        if learns:
            step_size = learn(step_size, error, d, pace.energy_variance)
            step_size = step_size._replace(value=torch.where(undone, step_size.value / 2, step_size.value))
        else:
            divergences = divergences + undone.cpu()
        direction = forget(direction, step_size.value / turning, *generators)
    whole = math.inf if learns else aimed * math.sqrt(pace.steps)
    point, direction, _, undone = refuse_runaways((at.point, at.direction), (point, direction), total, whole)
    often = divergences - at.divergences > OFTEN * pace.steps
    undone = undone | often.to(undone.device)
    step_size = step_size._replace(value=torch.where(undone, step_size.value * SMALLER, step_size.value))
    return Walkers(point, direction, step_size, divergences)
