"""The largest curvature that a step meets, by power iteration on differences of gradients.

    kappa = max |eigenvalue of P^1/2 H P^1/2|,      H the Hessian of a batch's mean loss, P a diagonal metric

A step of size lr P is stable along every eigenvector as long as lr kappa stays below a number of the integrator: 2 for
gradient descent and SGLD, 4 for the leapfrog of SGHMC. A diagonal metric does not see that kappa grows with the number
of inputs: on a linear layer of p standardised inputs and n < p rows it is about p / n times that of a single weight.

With g the gradient, a product with H is the difference

    H d  ~  (g(w + e d) - g(w)) / e,      e such that w moves by `NUDGE` in units of He's deviation,

exact where the loss is quadratic. It costs one more gradient of the same batch, asks nothing of the network but what
training asks (no forward-mode or double differentiation, which fused attention and recurrent kernels lack), and needs
no host round trip. The iteration starts at P^1/2 g: a gradient lies mostly along the directions of large curvature, and
no randomness is used up. |H d| of unit vectors d approaches kappa from below, so callers leave a margin.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ITERATIONS = 4
NUDGE = 0.1


def largest_curvature(
    gradient: Callable[[Tensor], Tensor], here: Tensor, metric: Tensor, unit: Tensor, iterations: int = ITERATIONS
) -> Tensor:
    """Compute the largest |eigenvalue| of P^1/2 H P^1/2.

    Args:
        gradient: Gradient of the loss at the present point moved by a vector, (..., parameters); all problems of a
            batch are moved and differentiated at once.
        here: The gradient at the present point, (..., parameters).
        metric: The diagonal of P, (..., parameters).
        unit: Units in which the size of a move is measured, (parameters,).
        iterations: Products with H.

    Returns:
        The eigenvalue, (...), from below; 0 where the gradient is zero.

    Example:
        >>> H = torch.diag(torch.tensor([1.0, 5.0, 2.0]))
        >>> gradient = lambda shift: H @ (torch.ones(3) + shift)
        >>> round(float(largest_curvature(gradient, gradient(torch.zeros(3)), torch.ones(3), torch.ones(3))), 2)
        5.0
    """
    root, tiny = metric.sqrt(), torch.finfo(metric.dtype).tiny
    product = root * here
    for _ in range(iterations):
        shift = root * (product / torch.linalg.vector_norm(product, dim=-1, keepdim=True).clamp(min=tiny))
        size = NUDGE / torch.linalg.vector_norm(shift / unit, dim=-1, keepdim=True).clamp(min=tiny)
        product = root * (gradient(shift * size) - here) / size
    return torch.linalg.vector_norm(product, dim=-1)


def random_states(device: torch.device) -> list[Tensor]:
    """Return the states of the global generators of the CPU and the device, from which Dropout draws its masks."""
    on_device = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.random.get_rng_state(), *on_device]


def restore_random(states: list[Tensor], device: torch.device) -> None:
    """Put the global generators back into the states that `random_states` returned."""
    torch.random.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1], device)
