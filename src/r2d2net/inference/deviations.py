"""How the deviation s of a weight under q follows from its parameter rho, and how a step moves means and rho.

All works on some of the weights, in place; `Form` holds what a parametrisation consists of. Its functions are plain
ones, so that torch can compile each once, whatever network and algorithm call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.inference.adam import Moments, Step, adam_step, add_product_, proximal_step


class Piece(NamedTuple):
    """Some of the weights, all that a step changes of them, and what their gradients are."""

    scale: Tensor  # s
    mean: Tensor
    rho: Tensor
    precision: Tensor
    mean_first: Tensor
    mean_second: Tensor
    rho_first: Tensor
    rho_second: Tensor
    g_mean: Tensor
    g_rho: Tensor

    @property
    def mean_moments(self) -> Moments:
        """Of the means' gradients."""
        return Moments(self.mean_first, self.mean_second)

    @property
    def rho_moments(self) -> Moments:
        """Of rho's gradients."""
        return Moments(self.rho_first, self.rho_second)


class Form(NamedTuple):
    """A parametrisation of s.

    ``start`` gives the rho of deviations and precisions, ``deviation`` writes s to its first argument, given rho and
    precision. ``update`` moves means and rho by the likelihood's gradients in mu and log s and the KL's, of weight
    beta; it overwrites s and the gradient in log s.
    """

    start: Callable[[Tensor, Tensor], Tensor]
    deviation: Callable[[Tensor, Tensor, Tensor], Tensor]
    update: Callable[[Piece, Step, Step, float | Tensor], None]


# --- 1 / s^2 = c + exp(rho)


def _free_start(scale: Tensor, precision: Tensor) -> Tensor:
    return -2 * torch.log(scale)


def _free_deviation(out: Tensor, rho: Tensor, precision: Tensor) -> Tensor:
    return torch.exp(rho, out=out).add_(precision).rsqrt_()


def _free_update(piece: Piece, step: Step, rho_step: Step, beta: float | Tensor) -> None:
    # as s rises lambda falls, and c s^2 - 1 = -lambda s^2
    rise = add_product_(piece.g_rho, piece.scale.square_(), piece.precision, beta).sub_(beta)
    adam_step(piece.rho, rise, piece.rho_moments, rho_step, ascend=True)
    adam_step(piece.mean, piece.g_mean, piece.mean_moments, step)
    proximal_step(piece.mean, piece.mean_moments, step, piece.precision, beta)


FREE = Form(_free_start, _free_deviation, _free_update)


# --- s = softplus(rho) sqrt(v), whose KL in rho is that to a unit normal


def _scaled_start(scale: Tensor, precision: Tensor) -> Tensor:
    return torch.log(torch.expm1((scale * precision.sqrt()).clamp(1e-4, 10.0)))


def _scaled_deviation(out: Tensor, rho: Tensor, precision: Tensor) -> Tensor:
    return torch.div(softplus(rho), precision.sqrt(), out=out)


def _scaled_update(piece: Piece, step: Step, rho_step: Step, beta: float | Tensor) -> None:
    sigma, slope = softplus(piece.rho), torch.sigmoid(piece.rho)
    gradient = (piece.g_rho / sigma).add_(beta * (sigma - 1 / sigma)).mul_(slope)
    adam_step(piece.rho, gradient, piece.rho_moments, rho_step)
    adam_step(piece.mean, piece.g_mean, piece.mean_moments, step)
    proximal_step(piece.mean, piece.mean_moments, step, piece.precision, beta)


SCALED = Form(_scaled_start, _scaled_deviation, _scaled_update)


# --- what is compiled


def draw_by(form: Form, scale: Tensor, weights: Tensor, mean: Tensor, rho: Tensor, precision: Tensor) -> None:
    """w = mu + s e of some weights, in the place of their noise e; s is written to ``scale``."""
    torch.addcmul(mean, weights, form.deviation(scale, rho, precision), out=weights)


def in_log_scale(drawn: Tensor, mean: Tensor, gradient: Tensor, room: Tensor | None) -> Tensor:
    """g (w - mu), the gradient in log s at the draw w, in ``room``."""
    return torch.sub(drawn, mean, out=room).mul_(gradient)


def update_by_numbers(form: Form, piece: Piece, unit: Tensor, numbers: Tensor) -> None:
    """An update whose numbers, two steps and beta, are a tensor; ``unit`` multiplies the means' step size."""
    *steps, beta = numbers.unbind()
    t, lr, *corrections = steps[:4]
    form.update(piece, Step(t, lr * unit, *corrections), Step(*steps[4:]), beta)
