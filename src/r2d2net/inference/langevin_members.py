"""Several chains of SGLD or SGHMC on one small perceptron, advanced side by side.

The vectors of all K chains are the rows of matrices (K, weights), of which every state has its row as a view: one
batched pass gives all gradients (`joint_step`), and the integrators, which are elementwise, move whole matrices. Each
chain draws from its own generator in the order of a chain by itself, has its own step sizes, curvature and scales, and
stores its own draws; so it equals that chain up to the rounding of batched products, which the dynamics magnify as they
go on. A chain that diverges has numbers that are not finite in its own row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.collection import keep
from r2d2net.inference.curvature import largest_curvature
from r2d2net.inference.joint_step import JointStep
from r2d2net.inference.langevin import Gradients, Langevin, LangevinState
from r2d2net.inference.layered_pass import standard_normal
from r2d2net.inference.output_gradients import Loss
from r2d2net.inference.scale_updates import Known, Sweep, refresh_jointly
from r2d2net.inference.stability import seen

STACKED = "weights", "fixed", "velocity", "precision", "squares", "coefficients", "noise", "watch"


class LangevinMembers:
    """Chains that are advanced together.

    Args:
        trainers: The trainers of the chains, for which `members.are_alike` is True.
        states: Their states, which are copied but for the draws that they have stored.

    Attributes:
        states: The states, views of the matrices.
    """

    def __init__(self, trainers: Sequence[Langevin], states: Sequence[LangevinState]) -> None:
        self.trainers, self.trainer = list(trainers), trainers[0]
        self.steps = torch.stack([state.step for state in states])
        own = {name: _stacked([getattr(state, name) for state in states]) for name in STACKED}
        self.all = states[0]._replace(**own)  # matrices: a row for each chain; the other fields are not used
        self.states = [
            state._replace(
                step=self.steps[k],
                scales=dict(state.scales),
                **{name: _row(stack, k) for name, stack in own.items()},
            )
            for k, state in enumerate(states)
        ]

    @property
    def temperature(self) -> float:
        """Weight of the prior."""
        return self.trainer.settings.temperature

    def step(self, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]) -> list[float]:
        """Take one step of all chains, in place.

        Args:
            batch: Inputs (chains, rows, inputs) and targets (chains, rows, ...).
            generators: Source of randomness of each chain.

        Returns:
            The loss of each chain.
        """
        trainer, t = self.trainer, int(self.steps[0]) + 1
        rate = trainer.descent.noise_rate(batch[1].shape[1], t)
        loss, gradients = self._gradients(self.all.weights, self.all.fixed, batch, rate)
        trainer.learn_metric(self.all, gradients, t)
        if trainer.measures_curvature(t):
            self.all.watch.curvature.copy_(self._curvature(gradients, batch))
        if trainer.is_due(t):
            if trainer.sweeps(t):
                self._sweep(loss.nll, generators)
            trainer.prepare(self.all, t)
        trainer.kernel(t).move(self.all, gradients, standard_normal(self.all.weights, generators))
        self.steps.add_(1)
        self._note(loss, t)
        self._keep(t)
        losses: list[float] = loss.nll.tolist()
        return losses

    @property
    def _joint(self) -> JointStep:
        assert self.trainer.joint is not None
        return self.trainer.joint

    def _gradients(
        self, weights: Tensor, fixed: Tensor, batch: tuple[Tensor, Tensor], rate: float
    ) -> tuple[Loss, Gradients]:
        loss, g_weights, g_fixed = self._joint.gradients(weights, fixed, self.all.noise, batch, rate)
        return loss, {"weights": [g_weights], "fixed": [g_fixed] if self.trainer.model.fixed_size else []}

    def _curvature(self, gradients: Gradients, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Return the largest curvature of each chain's loss under its metric, (chains,)."""
        trainer, now, size = self.trainer, self.all, self.trainer.model.size

        def together(parts: Gradients) -> Tensor:
            return torch.cat([*parts["weights"], *parts["fixed"]], -1)

        def gradient(shift: Tensor) -> Tensor:
            return together(self._gradients(now.weights + shift[:, :size], now.fixed + shift[:, size:], batch, 1.0)[1])

        sizes = trainer.step_sizes(now, 1.0)
        unit = torch.cat([trainer.model.he_scale(), trainer.model.fixed_he_scale()])
        metric = torch.cat([sizes["weights"], sizes["fixed"]], -1)
        return largest_curvature(gradient, together(gradients), metric, unit)

    def _sweep(self, nll: Tensor, generators: Sequence[torch.Generator]) -> None:
        """Refresh the scales of the chains that have not diverged."""
        is_finite = torch.isfinite(nll + self.all.weights.sum(1)).tolist()
        sweeps = [
            Sweep(trainer.model, state.scales, state.precision, Known(state.weights), generator)
            for trainer, state, generator, fine in zip(self.trainers, self.states, generators, is_finite, strict=True)
            if fine
        ]
        if sweeps:
            refresh_jointly(self.trainer.scales.update, sweeps)

    def _note(self, loss: Loss, t: int) -> None:
        """Write what the likelihood has learnt and what is known of the chains' stability."""
        for name, tensor in loss.noise.items():
            self.all.noise[name].copy_(tensor)
        watch = self.all.watch
        found = seen(watch, loss.nll, loss.noise, t)
        for old, new in zip(watch, found, strict=True):
            if new is not old:
                old.copy_(new)

    def _keep(self, t: int) -> None:
        """Store the weights of all chains if a draw is due."""
        if self.trainer.times.explores(t):
            return
        place = self.trainer.times.sampled(t)
        for k, (trainer, state) in enumerate(zip(self.trainers, self.states, strict=True)):
            if place % int(state.kept.every) == 0:
                self.states[k] = state._replace(kept=keep(state.kept, trainer.present(state), place))


def _stacked(trees: Sequence[Any]) -> Any:
    """Stack trees of tensors, of the same form."""
    first = trees[0]
    if isinstance(first, Tensor):
        return torch.stack(list(trees))
    if isinstance(first, dict):
        return {name: _stacked([tree[name] for tree in trees]) for name in first}
    return type(first)(*(_stacked(parts) for parts in zip(*trees, strict=True)))


def _row(tree: Any, k: int) -> Any:
    """Return one row of all tensors of a tree, as views."""
    if isinstance(tree, Tensor):
        return tree[k]
    if isinstance(tree, dict):
        return {name: _row(tensor, k) for name, tensor in tree.items()}
    return type(tree)(*(_row(tensor, k) for tensor in tree))
