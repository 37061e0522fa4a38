"""One gradient step of several posteriors of one small perceptron at once: most often of one.

What belongs to posterior k of K is row k of every matrix (K, weights). The step is that of `variational` and `point`,
written for such matrices: the same random numbers, each posterior's from its own generator, and the same formulas in
another order of operations. So a step has the result of the general one up to rounding.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.cache_blocks import PIECE
from r2d2net.inference.adam import Moments, Step, adam_step, proximal_step
from r2d2net.inference.descent import Descent
from r2d2net.inference.layered_pass import LayeredPass, Room, standard_normal
from r2d2net.inference.mean_field_family import Family, NormalNoise, Piece
from r2d2net.inference.output_gradients import Loss, loss_of
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel


class Matrices(NamedTuple):
    """What a step changes in place of K posteriors, a row for each: (K, weights), or (K, deterministic parameters).

    Attributes:
        mean: Means, or the weights of point estimates.
        precision: Prior precision.
        first: Adam's running mean of the gradients in ``mean``.
        second: Adam's running mean of their squares.
        fixed: Deterministic parameters.
        fixed_first: Adam's running mean of the gradients in ``fixed``.
        fixed_second: Adam's running mean of their squares.
        rho: Parameters of the deviations; None for point estimates, as the next two.
        rho_first: Adam's running mean of the gradients in ``rho``.
        rho_second: Adam's running mean of their squares.
    """

    mean: Tensor
    precision: Tensor
    first: Tensor
    second: Tensor
    fixed: Tensor
    fixed_first: Tensor
    fixed_second: Tensor
    rho: Any = None
    rho_first: Any = None
    rho_second: Any = None


def vectors_of(state: Any) -> tuple[Tensor, ...]:
    """Return the vectors of a state, or the matrices of K states, in the order of `Matrices`."""
    moments = state.moments
    common = state.mean, state.precision, *moments["mean"], state.fixed, *moments["fixed"]
    return (*common, state.rho, *moments["rho"]) if "rho" in moments else common


class Rows:
    """The vectors of one state as matrices of one row: views, made anew when the vectors are others."""

    def __init__(self) -> None:
        self.vectors: tuple[Tensor, ...] = ()
        self.matrices: Matrices | None = None

    def of(self, state: Any) -> Matrices:
        """Return the matrices of a state."""
        vectors = vectors_of(state)
        known = len(vectors) == len(self.vectors) and all(map(operator.is_, vectors, self.vectors))
        if not known or self.matrices is None:
            self.vectors, self.matrices = vectors, Matrices(*(vector.unsqueeze(0) for vector in vectors))
        return self.matrices


class JointStep:
    """The step of a perceptron's posteriors.

    Args:
        model: The model.
        descent: Sizes and units of the steps.
        layers: The network's pass.
    """

    def __init__(self, model: BayesianModel[Any], descent: Descent, layers: LayeredPass) -> None:
        self.model, self.descent, self.layers = model, descent, layers
        self.unit, self.fixed_unit = descent.step_unit(), descent.fixed_step_unit()
        self.room: Room | None = None

    def takes(self, x: Any) -> bool:
        """Tell whether the pass is that of the network for these inputs, (rows, inputs)."""
        return isinstance(x, Tensor) and x.dim() == 2 and x.dtype == self.unit.dtype

    def mean_field(
        self,
        family: Family,
        state: Matrices,
        noise: Noise,
        batch: tuple[Tensor, Tensor],
        generators: Sequence[torch.Generator],
        moves: Moves,
        *,
        local: bool,
    ) -> tuple[Tensor | None, Noise, Tensor]:
        """Take a step of mean-field posteriors, in place.

        Args:
            family: The family of q(w).
            state: Means, deviations and what belongs to them.
            noise: Learnt parameters of the likelihood, (K, ...).
            batch: Inputs (K, rows, inputs) and targets (K, rows, ...).
            generators: Source of randomness of each posterior.
            moves: Steps of means, deviations and deterministic parameters; see `moves`.
            local: Whether activations are drawn and not state.

        Returns:
            The drawn weights, (K, weights), or None where activations were drawn; the new noise; the losses, (K,).
        """
        mean, scale = state.mean, torch.empty_like(state.mean)
        family.form.deviation(scale, state.rho, state.precision)
        x, y = batch
        drawn = None
        if local:
            variance = scale.square()
            room = self._room(2 * len(mean))
            means, variances = room.parameters.chunk(2)
            self._fill(means, mean, state.fixed)
            self._fill(variances, variance, None)
            output, tapes = self.layers.drawn(room, x, generators)
        else:
            room = self._room(len(mean))
            drawn = torch.addcmul(mean, self._unit_noise(family, mean, generators), scale)
            self._fill(room.parameters, drawn, state.fixed)
            output, tapes = self.layers.given(room, x)
        loss = loss_of(self.model.likelihood, output, y, noise, moves.noise_rate)
        g_mean, g_fixed = self._parts(self.layers.gradients(room, tapes, loss.gradient))
        if drawn is None:
            g_mean, g_rho = g_mean.chunk(2)
            g_rho.mul_(variance)
        else:
            g_rho = torch.sub(drawn, mean).mul_(g_mean)
        piece = Piece(
            scale,
            mean,
            state.rho,
            state.precision,
            state.first,
            state.second,
            state.rho_first,
            state.rho_second,
            g_mean,
            g_rho,
        )
        family.form.update(piece, moves.mean, moves.rho, moves.beta)
        self._step_fixed(state, g_fixed, moves.fixed)
        return drawn, loss.noise, loss.nll

    def point(self, state: Matrices, noise: Noise, batch: tuple[Tensor, Tensor], sizes: Sizes) -> tuple[Noise, Tensor]:
        """Take a step of point estimates, in place.

        Args:
            state: The weights and what belongs to them.
            noise: Learnt parameters of the likelihood, (K, ...).
            batch: Inputs (K, rows, inputs) and targets (K, rows, ...).
            sizes: Number and sizes of the step.

        Returns:
            The new noise and the losses, (K,).
        """
        loss, g_mean, g_fixed = self.gradients(state.mean, state.fixed, noise, batch, sizes.noise_rate)
        step, moments = Step.at(sizes.t, sizes.lr, self.unit), Moments(state.first, state.second)
        adam_step(state.mean, g_mean, moments, step)
        proximal_step(state.mean, moments, step, state.precision, sizes.beta)
        self._step_fixed(state, g_fixed, Step.at(sizes.t, sizes.lr, self.fixed_unit))
        return loss.noise, loss.nll

    def gradients(
        self, weights: Tensor, fixed: Tensor, noise: Noise, batch: tuple[Tensor, Tensor], noise_rate: float
    ) -> tuple[Loss, Tensor, Tensor]:
        """Compute the losses of networks whose weights are given, and their gradients.

        Args:
            weights: Bayesian weights, (K, weights).
            fixed: Deterministic parameters, (K, deterministic parameters).
            noise: Learnt parameters of the likelihood, (K, ...).
            batch: Inputs (K, rows, inputs) and targets (K, rows, ...).
            noise_rate: Weight of the batch in running means of what the likelihood learns.

        Returns:
            The losses, and their gradients in the weights and in the deterministic parameters: those in the former
            again where there are none of the latter.
        """
        x, y = batch
        room = self._room(len(weights))
        self._fill(room.parameters, weights, fixed)
        output, tapes = self.layers.given(room, x)
        loss = loss_of(self.model.likelihood, output, y, noise, noise_rate)
        return loss, *self._parts(self.layers.gradients(room, tapes, loss.gradient))

    def _unit_noise(self, family: Family, mean: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        if isinstance(family.noise, NormalNoise):
            return standard_normal(mean, generators)
        return torch.stack([family.noise.draw(self.model, generator) for generator in generators])

    def _room(self, networks: int) -> Room:
        """Return memory for the parameters of networks: that of the last step, if it was of as many."""
        if self.room is None or len(self.room.parameters) != networks:
            self.room = self.layers.room(networks, self.unit)
        return self.room

    def _fill(self, target: Tensor, weights: Tensor, fixed: Tensor | None) -> None:
        """Write Bayesian and deterministic parameters to rows; None for the latter stands for zeros."""
        if not self.model.fixed_size:
            target.copy_(weights)
            return
        target[:, : self.model.size].copy_(weights)
        target[:, self.model.size :].copy_(torch.zeros_like(self.fixed_unit) if fixed is None else fixed)

    def _parts(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients in the Bayesian and the deterministic parameters."""
        if not self.model.fixed_size:
            return gradient, gradient
        size = self.model.size
        return gradient[:, :size].contiguous(), gradient[:, size:].contiguous()

    def moves(self, sizes: Sizes) -> Moves:
        """Return the steps of mean-field posteriors.

        Args:
            sizes: Number and sizes of the step.

        Returns:
            The steps.
        """
        of_mean = Step.at(sizes.t, sizes.lr, self.unit)
        of_fixed = of_mean._replace(unit=self.fixed_unit)
        return Moves(of_mean, Step.at(sizes.t, sizes.lr_rho), of_fixed, sizes.beta, sizes.noise_rate)

    def _step_fixed(self, state: Matrices, gradient: Tensor, step: Step) -> None:
        if self.model.fixed_size:
            moments = Moments(state.fixed_first, state.fixed_second)
            adam_step(state.fixed, gradient[: len(state.fixed)], moments, step)


class Sizes(NamedTuple):
    """Number and sizes of a step.

    Attributes:
        t: Number of the step: 1, 2, ...
        lr: Step size of the means, in units of `Descent.step_unit`.
        lr_rho: Step size of rho.
        beta: Weight of the KL or the prior.
        noise_rate: Weight of the batch in running means of what the likelihood learns.
    """

    t: int
    lr: float
    lr_rho: float
    beta: float
    noise_rate: float


class Moves(NamedTuple):
    """What a step of mean-field posteriors is told; tensors where it is recorded (see `graphed_step`).

    Attributes:
        mean: Step of the means.
        rho: Step of rho.
        fixed: Step of the deterministic parameters.
        beta: Weight of the KL.
        noise_rate: Weight of the batch in running means of what the likelihood learns.
    """

    mean: Step
    rho: Step
    fixed: Step
    beta: float | Tensor
    noise_rate: float | Tensor


def joint_step_of(model: BayesianModel[Any], descent: Descent) -> JointStep | None:
    """Build the step of several posteriors, where there is one.

    Args:
        model: The model.
        descent: Sizes and units of the steps.

    Returns:
        The step of a perceptron as `LayeredPass.of` takes it, of no more weights than a cache holds; None for other
        networks, and where a step clips gradients or runs in another dtype.
    """
    settings = descent.settings
    if model.size > PIECE or settings.clip is not None or settings.autocast is not None:
        return None
    layers = LayeredPass.of(model)
    return None if layers is None else JointStep(model, descent, layers)
