"""Several runs of one algorithm on one small perceptron, advanced side by side: restarts, members of an ensemble.

Chains of SGLD and SGHMC have a file of their own, `langevin_members`.

The vectors of all K states are the rows of matrices (K, weights), of which every state has its row as a view: a step
changes the matrices by the operations of one (`joint_step`), and each state is at any time an ordinary one, to be
scored, stored or finished by itself. Each run draws from its own generator in the order of a run by itself, so it
equals that run up to the rounding of batched products and of elementwise functions. A run that diverges has numbers
that are not finite in its own row alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.adam import Moments
from r2d2net.inference.base import Trainer
from r2d2net.inference.deep_ensemble import Member
from r2d2net.inference.joint_step import Matrices, vectors_of
from r2d2net.inference.langevin import Langevin
from r2d2net.inference.langevin_members import LangevinMembers
from r2d2net.inference.layered_pass import standard_normal
from r2d2net.inference.mean_field_family import NormalNoise
from r2d2net.inference.point import Point
from r2d2net.inference.scale_updates import Known, Sweep, refresh_jointly
from r2d2net.inference.variational import MeanField

SMALL = 10**6  # rows of a batch times weights: above, products cost more than their calls and nothing is gained

TAKEN = MeanField, Point, Member, Langevin  # trainers whose runs can be advanced side by side


def are_alike(trainers: Sequence[Trainer[Any]], rows: int) -> bool:
    """Tell whether runs can be advanced side by side, with a gain.

    Args:
        trainers: The trainers of the runs.
        rows: Rows of a batch.

    Returns:
        True for the same algorithm with the same settings, on networks of one architecture that `JointStep` takes and
        whose products are small; their priors may differ.
    """
    first: Any = trainers[0]
    if type(first) not in TAKEN or first.joint is None or rows * first.model.size > SMALL:
        return False
    return all(type(other) is type(first) and _is_like(first, other) for other in trainers)


def _is_like(one: Any, other: Any) -> bool:
    if isinstance(one, MeanField) and one.graphed is not None:  # runs of their own
        return False
    if isinstance(one, MeanField) and one.scales.update != other.scales.update:  # SVGI averages for some priors alone
        return False

    def places(trainer: Any) -> list[tuple[Any, ...]]:
        model = trainer.model
        learns = [slot.prior is not None and slot.prior.has_scales for slot in (*model.bayesian, *model.fixed)]
        slots = [(slot.name, slot.shape, slot.start) for slot in (*model.bayesian, *model.fixed)]
        return list(zip(slots, learns, strict=True))

    sizes = [(run.descent.n, run.descent.steps) for run in (one, other)]
    same_model = str(one.model.net) == str(other.model.net) and one.model.likelihood == other.model.likelihood
    return same_model and places(one) == places(other) and one.settings == other.settings and sizes[0] == sizes[1]


class Members(ABC):
    """States that are advanced together.

    Args:
        trainers: The trainers of the runs.
        states: Their states, which are copied.

    Attributes:
        states: The states, views of the matrices.
    """

    def __init__(self, trainers: Sequence[Any], states: Sequence[Any]) -> None:
        self.trainers = list(trainers)
        self.trainer = self.trainers[0]
        self.steps = torch.stack([state.step for state in states])
        vectors = zip(*(vectors_of(state) for state in states), strict=True)
        self.matrices = Matrices(*(torch.stack(rows) for rows in vectors))
        self.noise = {name: torch.stack([state.noise[name] for state in states]) for name in states[0].noise}
        self.states = [self._viewed(k, state) for k, state in enumerate(states)]

    def _viewed(self, k: int, state: Any) -> Any:
        """Return a state whose vectors are rows of the matrices."""
        rows: list[Any] = [None if matrix is None else matrix[k] for matrix in self.matrices]
        own = Matrices(*rows)
        moments = {"mean": Moments(own.first, own.second), "fixed": Moments(own.fixed_first, own.fixed_second)}
        changed: dict[str, Any] = {"mean": own.mean, "fixed": own.fixed, "precision": own.precision}
        if own.rho is not None:
            moments["rho"] = Moments(own.rho_first, own.rho_second)
            changed["rho"] = own.rho
        ordered = {name: moments[name] for name in state.moments}
        noise = {name: tensor[k] for name, tensor in self.noise.items()}
        scales = dict(state.scales)
        return state._replace(step=self.steps[k], moments=ordered, noise=noise, scales=scales, **changed)

    def step(self, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]) -> list[float]:
        """Take one step of all runs, in place.

        Args:
            batch: Inputs (runs, rows, inputs) and targets (runs, rows, ...).
            generators: Source of randomness of each run.

        Returns:
            The loss of each run.
        """
        t = int(self.steps[0]) + 1
        drawn, noise, nll = self._descend(t, batch, generators)
        for name, tensor in noise.items():
            self.noise[name].copy_(tensor)
        self.steps.add_(1)
        losses: list[float] = nll.tolist()
        if t % self.trainer.settings.sweep_every == 0:
            self._sweep(drawn, nll, generators)
        return losses

    @property
    @abstractmethod
    def temperature(self) -> float:
        """Weight of the KL or the prior in the last step."""

    @abstractmethod
    def _descend(
        self, t: int, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]
    ) -> tuple[Tensor | None, dict[str, Tensor], Tensor]:
        """Take step t of the weights; return drawn weights if there are any, the new noise and the losses."""

    @abstractmethod
    def _sweep(self, drawn: Tensor | None, nll: Tensor, generators: Sequence[torch.Generator]) -> None:
        """Refresh the scales of the runs that have not diverged."""

    def _refresh(
        self, weights: Tensor, second: Tensor | None, finite: Tensor, generators: Sequence[torch.Generator]
    ) -> None:
        sweeps = [
            Sweep(
                trainer.model,
                state.scales,
                state.precision,
                Known(weights[k], None if second is None else second[k]),
                generators[k],
            )
            for k, (trainer, state, is_finite) in enumerate(
                zip(self.trainers, self.states, finite.tolist(), strict=True)
            )
            if is_finite
        ]
        if sweeps:
            refresh_jointly(self.trainer.scales.update, sweeps)


class MeanFieldMembers(Members):
    """Mean-field posteriors that are advanced together."""

    trainer: MeanField

    @property
    def temperature(self) -> float:
        return self.trainer.temperature(int(self.steps[0]))

    def _descend(
        self, t: int, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]
    ) -> tuple[Tensor | None, dict[str, Tensor], Tensor]:
        trainer = self.trainer
        assert trainer.joint is not None
        sizes, local = trainer.sizes(t, batch[0].shape[1]), trainer.local is not None
        moves = trainer.joint.moves(sizes)
        return trainer.joint.mean_field(
            trainer.family, self.matrices, self.noise, batch, generators, moves, local=local
        )

    def _sweep(self, drawn: Tensor | None, nll: Tensor, generators: Sequence[torch.Generator]) -> None:
        family, matrices = self.trainer.family, self.matrices
        finite = torch.isfinite(nll + matrices.mean.sum(1) + matrices.rho.sum(1))
        scale = family.form.deviation(torch.empty_like(matrices.rho), matrices.rho, matrices.precision)
        update, second = self.trainer.scales.update, None
        if not update.needs_draw:
            second = scale.square_().addcmul_(matrices.mean, matrices.mean)
            self._refresh(matrices.mean, second, finite, generators)
            return
        if update.averaging < 1:
            drawn, second = None, scale.square().addcmul_(matrices.mean, matrices.mean)  # a new draw, as in `MeanField`
        if drawn is None:
            if isinstance(family.noise, NormalNoise):
                noise = standard_normal(matrices.mean, generators)
            else:
                noise = torch.stack([family.noise.draw(self.trainer.model, generator) for generator in generators])
            drawn = torch.addcmul(matrices.mean, noise, scale)
        self._refresh(drawn, second, finite, generators)


class PointMembers(Members):
    """Point estimates that are advanced together."""

    trainer: Point

    @property
    def temperature(self) -> float:
        return self.trainer.settings.temperature

    def _descend(
        self, t: int, batch: tuple[Tensor, Tensor], generators: Sequence[torch.Generator]
    ) -> tuple[Tensor | None, dict[str, Tensor], Tensor]:
        assert self.trainer.joint is not None
        return None, *self.trainer.joint.point(
            self.matrices, self.noise, batch, self.trainer.sizes(t, batch[0].shape[1])
        )

    def _sweep(self, drawn: Tensor | None, nll: Tensor, generators: Sequence[torch.Generator]) -> None:
        mean = self.matrices.mean
        self._refresh(mean, None, torch.isfinite(mean).all(1), generators)


def members_of(trainers: Sequence[Any], states: Sequence[Any]) -> Members | LangevinMembers:
    """Put states side by side.

    Args:
        trainers: The trainers of the runs, for which `are_alike` is True.
        states: Their states, which are copied.

    Returns:
        The states side by side.
    """
    if isinstance(trainers[0], Langevin):
        return LangevinMembers(trainers, states)
    return (MeanFieldMembers if isinstance(trainers[0], MeanField) else PointMembers)(trainers, states)
