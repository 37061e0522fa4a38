"""Training to one point: Adam on the likelihood, the prior as a proximal step. The engine of MAP and what builds on it.

minimise per datum    -log p(y | x, w) - (temperature / N) log p(w).

The prior acts through its precision: -d log p(w) / dw = c w with c = E[1 / v | w], which is constant for a Gaussian and
which the coordinate-ascent factors at w^2 give for priors whose scales they find jointly (expectation maximisation). It
is refreshed every ``sweep_every`` steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from r2d2net.inference.adam import Moments, Step, adam_step, no_moments, proximal_step
from r2d2net.inference.base import Batch, Draws, DrawSource, Info, Trainer, require_priors
from r2d2net.inference.descent import Descent, Training, clip_gradients, flat, gradients_of, leaves_of, while_standing
from r2d2net.inference.joint_step import JointStep, Rows, Sizes, joint_step_of
from r2d2net.inference.scale_updates import CoordinateUpdate, Known, ScaleSweeps
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Tensors
from r2d2net.ranks import RowSplit


class PointState(NamedTuple):
    """State of a point estimate: all that changes in training."""

    step: Tensor  # number of steps taken, an int64 scalar on the CPU
    mean: Tensor  # the weights, (weights,)
    fixed: Tensor  # deterministic parameters
    precision: Tensor  # c, (weights,)
    moments: dict[str, Moments]
    scales: dict[str, Any]  # parameter name -> the prior's scales
    noise: Noise
    buffers: Tensors


class Loss(Protocol):
    """The loss that a step minimises besides the prior's term."""

    def __call__(self, output: Tensor, y: Tensor, noise: Noise, t: int) -> Tensor:
        """Return the mean loss of a batch at step t."""


class Point(Trainer[PointState]):
    """Training to one point, bound to a model.

    Args:
        settings: The algorithm's settings.
        model: The model.
        loss: What a step minimises, the prior apart; by default the negative log likelihood of a row.
        default_lr: Largest step size where the user gives none; by default that of `Training`.
        n: Number of training rows.
        steps: Number of steps of the whole run.
    """

    def __init__(
        self,
        settings: Training,
        model: BayesianModel[Any],
        loss: Loss | None = None,
        default_lr: float | None = None,
        *,
        n: int,
        steps: int,
    ) -> None:
        self.settings, self.model = settings, model
        self.loss = self.negative_log_likelihood if loss is None else loss
        self.descent = Descent(settings, model, n=n, steps=steps, default_lr=default_lr)
        name = type(settings).__name__
        require_priors(model, lambda prior: prior.has_finite_mode, name, "its density has no finite mode")
        self.scales = ScaleSweeps(model, CoordinateUpdate())
        is_plain = loss is None and type(self).forward is Point.forward
        self.joint: JointStep | None = joint_step_of(model, self.descent) if is_plain else None
        self.rows = Rows()

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> PointState:
        mean, fixed = self.descent.start_weights(generator)
        state = PointState(
            step=torch.zeros((), dtype=torch.int64),
            mean=mean,
            fixed=fixed,
            precision=torch.ones_like(mean),
            moments={"mean": no_moments(mean), "fixed": no_moments(fixed)},
            scales=self.scales.start(generator),
            noise=self.model.likelihood.init(y, unit),
            buffers=self.model.buffers(),
        )
        self.refresh_scales(state, generator)
        return state

    def split_rows(self, split: RowSplit) -> None:
        self.descent.split, self.joint = split, None

    def step(self, state: PointState, batch: Batch, generator: torch.Generator) -> tuple[PointState, Info]:
        t = int(state.step) + 1
        x, y = batch
        lr, temperature = self.descent.learning_rate(t), self.settings.temperature
        if self.joint is not None and self.joint.takes(x):
            rows = x.unsqueeze(0), y.unsqueeze(0)
            one = {name: tensor.unsqueeze(0) for name, tensor in state.noise.items()}
            one, losses = self.joint.point(self.rows.of(state), one, rows, self.sizes(t, len(y)))
            noise = {name: tensor.squeeze(0) for name, tensor in one.items()}
            return self._swept(state._replace(noise=noise), generator, t), Info(losses.squeeze(0), lr, temperature)
        output, (g_mean, g_fixed, nll) = self._gradients(state, x, y, generator, t)
        noise = self.descent.observe(output, y, state.noise, self.descent.noise_rate(len(y), t))
        if self.settings.clip is not None:
            clip_gradients([g_mean, g_fixed], self.settings.clip)
        vectors = state.mean, state.precision, g_mean, *state.moments["mean"]
        blocks = self.descent.blocks
        for mean, precision, g, *moments, unit in zip(*map(blocks.of, vectors), blocks.units, strict=True):
            size = Step.at(t, lr * unit)
            adam_step(mean, g, Moments(*moments), size)
            proximal_step(mean, Moments(*moments), size, precision, temperature / self.descent.n)
        self.descent.step_fixed(state.fixed, g_fixed, state.moments["fixed"], t, lr)
        return self._swept(state._replace(noise=noise), generator, t), Info(nll, lr, temperature)

    def draws_globally(self, batch: Batch) -> bool:
        return self.joint is None or not self.joint.takes(batch[0])

    def sizes(self, t: int, rows: int) -> Sizes:
        """Return the sizes of step t, of a batch of so many rows."""
        lr, beta = self.descent.learning_rate(t), self.settings.temperature / self.descent.n
        return Sizes(t, lr, 0.0, beta, self.descent.noise_rate(rows, t))

    def _swept(self, state: PointState, generator: torch.Generator, t: int) -> PointState:
        """Return the state after step t, with fresh scales where they are due."""
        if t % self.settings.sweep_every == 0 and bool(torch.isfinite(state.mean).all()):
            self.refresh_scales(state, generator)
        return state._replace(step=state.step + 1)

    @while_standing
    @torch.enable_grad()
    def _gradients(
        self, state: PointState, x: Any, y: Tensor, generator: torch.Generator, t: int
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Return the output, the gradients of the loss in weights and deterministic parameters, and the loss."""
        model = self.model
        groups = leaves_of(model.bayesian, state.mean), leaves_of(model.fixed, state.fixed)
        names = [slot.name for slot in (*model.bayesian, *model.fixed)]
        with self.descent.autocast():
            rows = self.descent.row_generator(generator, t)
            output = self.forward(dict(zip(names, chain(*groups), strict=True)), state.buffers, x, rows)
        output = output.to(state.mean.dtype)
        loss = self.loss(output, y, state.noise, t)
        nll, gradients = self.descent.shared(loss.detach(), gradients_of(loss, groups), state.buffers, len(y))
        g_mean, g_fixed = (flat(parts, nll) for parts in gradients)
        return output.detach(), (g_mean, g_fixed, nll)

    def forward(self, parameters: Tensors, buffers: Tensors, x: Any, generator: torch.Generator) -> Tensor:
        """Compute the network's output in training mode."""
        self.model.train(self.model.net)
        return self.model.call(self.model.net, {**parameters, **buffers}, x)

    def negative_log_likelihood(self, output: Tensor, y: Tensor, noise: Noise, t: int) -> Tensor:
        """Return the mean negative log likelihood of a row."""
        return -self.model.likelihood.log_prob(output, y, noise).mean()

    def refresh_scales(self, state: PointState, generator: torch.Generator) -> None:
        """Refresh the scales and the precision at the present weights, in place."""
        self.scales.refresh(state.scales, state.precision, Known(state.mean), generator)

    def source(self, state: PointState) -> DrawSource[PointState]:
        return PointDraw(self.model, state)


class PointDraw(DrawSource[PointState]):
    """A point mass: every draw is the same network."""

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        state, size = self.state, n if at_once is None else at_once
        for start in range(0, n, size):
            weights = state.mean.expand(min(size, n - start), -1)
            yield Draws.sharing(weights, state.fixed, state.buffers, state.noise)

    def center(self) -> Draws:
        state = self.state
        return Draws.sharing(state.mean[None], state.fixed, state.buffers, state.noise)

    @property
    def available(self) -> int | None:
        return 1
