"""The mean-field family q(w): deviations and how a step moves them, draws, moments and the KL.

    w_j = mu_j + s_j e_j,    e of mean 0 and variance 1: normal, or radial (see `radial`)

The deviation s_j follows from the parameter rho_j and the prior's precision c_j by a `Form`; a `Family` is a form and
the distribution of e. The functions of a form work on a block of the weights, in place; they are plain ones, so that
torch can compile each once, whatever network and algorithm call it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.cache_blocks import Blocks
from r2d2net.inference.adam import Moments, Step, adam_step, add_product_, proximal_step
from r2d2net.inference.base import Draws, DrawSource
from r2d2net.inference.normal_rows import normal_rows
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors


class Piece(NamedTuple):
    """A block of weights: all that a step changes of them, and their gradients."""

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
        """Adam's moments of the gradients with respect to the means."""
        return Moments(self.mean_first, self.mean_second)

    @property
    def rho_moments(self) -> Moments:
        """Adam's moments of the gradients with respect to rho."""
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
    """Compute w = mu + s e of a block in place of its noise e, and write s to ``scale``."""
    torch.addcmul(mean, weights, form.deviation(scale, rho, precision), out=weights)


def in_log_scale(drawn: Tensor, mean: Tensor, gradient: Tensor, room: Tensor | None) -> Tensor:
    """Compute g (w - mu), the gradient with respect to log s at a draw w, in the memory ``room``."""
    return torch.sub(drawn, mean, out=room).mul_(gradient)


def update_by_numbers(form: Form, piece: Piece, unit: Tensor, numbers: Tensor) -> None:
    """Update a block with two steps and beta given as one tensor; ``unit`` multiplies the step size of the means."""
    *steps, beta = numbers.unbind()
    t, lr, *corrections = steps[:4]
    form.update(piece, Step(t, lr * unit, *corrections), Step(*steps[4:]), beta)


class VariationalState(NamedTuple):
    """State of variational inference: all that changes in training.

    Attributes:
        step: Number of steps taken, an int64 scalar on the CPU.
        mean: Means mu of the weights, (weights,).
        rho: Parameters from which the standard deviations follow, (weights,).
        fixed: Deterministic parameters.
        precision: Prior precision 1 / v of the weights, (weights,).
        moments: Adam's moments by the name of the parameter vector.
        scales: The prior's scales by the name of the parameter tensor.
        noise: Learnt parameters of the likelihood.
        buffers: Buffers of the network.
    """

    step: Tensor
    mean: Tensor
    rho: Tensor
    fixed: Tensor
    precision: Tensor
    moments: dict[str, Moments]
    scales: dict[str, Any]
    noise: Noise
    buffers: Tensors


class UnitNoise(Protocol):
    """The distribution of e = (w - mu) / s, of mean 0 and variance 1."""

    def draw(self, model: BayesianModel[Any], generator: torch.Generator | None, *draws: int) -> Tensor:
        """Draw e of all weights, (*draws, weights)."""

    def blocks(self, model: BayesianModel[Any], generator: torch.Generator | None, draws: int) -> Iterator[Tensor]:
        """Yield what `draw` gives for so many draws, some of them at a time."""

    def entropy(self, model: BayesianModel[Any], deviation: Tensor) -> Tensor:
        """Return the entropy of q(w) in nats, where s is ``deviation``."""


class NormalNoise:
    """Independent standard normal numbers."""

    def draw(self, model: BayesianModel[Any], generator: torch.Generator | None, *draws: int) -> Tensor:
        return torch.empty(*draws, model.size, dtype=model.dtype, device=model.device).normal_(generator=generator)

    def blocks(self, model: BayesianModel[Any], generator: torch.Generator | None, draws: int) -> Iterator[Tensor]:
        return normal_rows(draws, model.size, generator, dtype=model.dtype, device=model.device)

    def entropy(self, model: BayesianModel[Any], deviation: Tensor) -> Tensor:
        return 0.5 * (math.log(2 * math.pi) + 1) * deviation.numel() + torch.log(deviation).sum()


class Family(NamedTuple):
    """The family of q(w): how s follows from rho, and the distribution of (w - mu) / s."""

    form: Form
    noise: UnitNoise = NormalNoise()

    def deviation(self, state: VariationalState, blocks: Blocks) -> Tensor:
        """Return s, the standard deviation of each weight under q."""
        scale = torch.empty_like(state.rho)
        for block in zip(*map(blocks.of, (scale, state.rho, state.precision)), strict=True):
            self.form.deviation(*block)
        return scale

    def deviations(self, state: VariationalState, blocks: Blocks) -> Iterator[Tensor]:
        """Yield s block by block."""
        for rho, precision in zip(*map(blocks.of, (state.rho, state.precision)), strict=True):
            yield self.form.deviation(torch.empty_like(rho), rho, precision)

    def second_moment(self, state: VariationalState, blocks: Blocks) -> Tensor:
        """Return E w^2 under q."""
        moment = torch.empty_like(state.rho)
        vectors = moment, state.rho, state.precision, state.mean
        for room, rho, precision, mean in zip(*map(blocks.of, vectors), strict=True):
            self.form.deviation(room, rho, precision).square_().addcmul_(mean, mean)
        return moment


class MeanFieldDraws(DrawSource[VariationalState]):
    """A mean-field posterior.

    Args:
        model: The model.
        state: The variational parameters.
        family: The family of q(w).
        blocks: How vectors of weights are cut (see `cache_blocks`).
    """

    def __init__(self, model: BayesianModel[Any], state: VariationalState, family: Family, blocks: Blocks) -> None:
        super().__init__(model, state)
        self.family, self.blocks = family, blocks

    def deviation(self) -> Tensor:
        """Return s, the standard deviation of each weight under q."""
        return self.family.deviation(self.state, self.blocks)

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        state, deviation = self.state, self.deviation()
        for start in range(0, n, n if at_once is None else at_once):
            count = min(n - start, n if at_once is None else at_once)
            for noise in self.family.noise.blocks(self.model, generator, count):
                weights = noise.mul_(deviation).add_(state.mean)
                yield Draws.sharing(weights, state.fixed, state.buffers, state.noise)

    def center(self) -> Draws:
        state = self.state
        return Draws.sharing(state.mean[None], state.fixed, state.buffers, state.noise)

    def kl(self) -> Tensor:
        """Return KL(q(w) q(scales) || p(w, scales)) in nats, over all weights and scale variables.

        q(scales) is the coordinate-ascent factor at the present q(w), so -nll N - kl is a true lower bound of the
        evidence in every mode.
        """
        total = -self.family.noise.entropy(self.model, self.deviation())
        moment = self.family.second_moment(self.state, self.blocks)
        for slot in self.model.bayesian:
            assert slot.prior is not None
            second = slot.of(moment)
            total = total - slot.prior.cavi(second, self.state.scales[slot.name]).bound(second)
        return total
