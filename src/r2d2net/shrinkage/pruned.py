"""Posteriors of networks with weights that are exactly zero, and training that holds zeros.

    w_j = 0    where keep_j is False,      else as the posterior before the cut draws it

`prune` makes such posteriors. ``fit(model, data, Pruned(algorithm=CAVI(start="net")))`` trains a network whose zeros
stay: the weights of matrices and filters that are exactly zero in the model's network, whoever set them to zero. They
have left their layers, and scales that weights share are those of the weights that are left
(`r2d2net.inference.kept_weights`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from r2d2net.errors import CheckpointError, ParameterError, Shown, require
from r2d2net.inference.base import Batch, Draws, DrawSource, Info, Method, Trainer, flatten, part
from r2d2net.inference.kept_weights import KeptSweeps
from r2d2net.inference.mean_field_family import FREE
from r2d2net.inference.point import Point
from r2d2net.inference.scale_updates import START_SWEEPS, Known
from r2d2net.inference.variational import MeanField
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Slot, Tensors, norm_names
from r2d2net.posterior import Posterior
from r2d2net.run.prepare import data_digest
from r2d2net.specification import OUTSIDE, Specification, describe, method_from

NO_VARIANCE = 80.0  # of rho, where exp(rho) is the precision: a deviation of 4e-18


class PrunedState(NamedTuple):
    """The tensors of a posterior with zeros.

    Attributes:
        keep: Which weights may differ from zero, (weights,).
        inner: State of the posterior without the zeros, or of its run.
    """

    keep: Tensor
    inner: Any

    @property
    def step(self) -> Tensor:
        """Number of steps taken."""
        step: Tensor = self.inner.step
        return step

    @property
    def noise(self) -> Noise:
        """Learnt parameters of the likelihood."""
        noise: Noise = self.inner.noise
        return noise


class PrunedDraws(DrawSource[PrunedState]):
    """Draws of another source with some weights set to zero.

    Args:
        inner: The other source.
        keep: Which weights are left as they are, (weights,).
    """

    def __init__(self, inner: DrawSource[Any], keep: Tensor) -> None:
        super().__init__(inner.model, PrunedState(keep, inner.state))
        self.inner = inner
        self.draws_noise, self.are_chains = inner.draws_noise, inner.are_chains

    @property
    def keep(self) -> Tensor:
        """Which weights may differ from zero, (weights,)."""
        return self.state.keep

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        return map(self._cut, self.inner.draws(n, generator, at_once))

    def center(self) -> Draws:
        return self._cut(self.inner.center())

    @property
    def available(self) -> int | None:
        return self.inner.available

    def with_state(self, state: PrunedState) -> Self:
        return type(self)(self.inner.with_state(state.inner), state.keep)

    def with_noise_factor(self, factor: float) -> Self:
        return type(self)(self.inner.with_noise_factor(factor), self.keep)

    def _cut(self, drawn: Draws) -> Draws:
        return drawn._replace(weights=drawn.weights.masked_fill(~self.keep, 0.0))


@dataclass(frozen=True, kw_only=True)
class Pruned(Method):
    """An algorithm whose zeros stay zero.

    Args:
        algorithm: The algorithm: SVGI, CAVI, SVI, MFVI, Radial or MAP, as an object. It is kept as JSON.
    """

    algorithm: Method | Specification
    start: ClassVar[PrunedState | None] = None  # of an object made by `going_on`; no setting, as it is the run's start

    @classmethod
    def going_on(cls, posterior: Posterior[Any], algorithm: Method) -> Pruned:
        """Build the algorithm that goes on from where a posterior is: weights, deviations, noise and mask.

        Args:
            posterior: A mean-field posterior or a point, pruned or not, of the model that is to be fitted.
            algorithm: The algorithm.

        Returns:
            The algorithm; scales start anew, as their prior may be another.

        Raises:
            ParameterError: If the posterior is of stored draws, which no training goes on from.
        """
        source = posterior.source
        state = source.state if isinstance(source, PrunedDraws) else None
        if state is None:
            state = PrunedState(torch.ones(source.model.size, dtype=torch.bool), source.state)
        if not hasattr(state.inner, "mean"):
            problem, fix = "holds draws, from which no training goes on", "fit the model by svgi, cavi or map"
            raise ParameterError(problem, argument="posterior", fix=fix)
        method = cls(algorithm=algorithm)
        object.__setattr__(method, "start", state)  # frozen
        return method

    def __post_init__(self) -> None:
        if isinstance(self.algorithm, Method):
            object.__setattr__(self, "algorithm", describe(self.algorithm))  # frozen
        given: Any = self.algorithm
        require(isinstance(given, dict) and "type" in given, "algorithm", given, "give an object of r2d2net.inference")
        if given.get("origin") == OUTSIDE:
            fix = "prune posteriors of the algorithms of r2d2net.inference"
            name = Shown(str(given["type"]))
            raise ParameterError(
                "is from outside r2d2net, and could not be saved", argument="algorithm", value=name, fix=fix
            )

    @property
    def origin(self) -> str | None:
        return None if self.start is None else data_digest(*flatten(self.start).values())

    @property
    def inner(self) -> Method:
        """The algorithm as an object."""
        assert isinstance(self.algorithm, dict)
        return method_from(self.algorithm)

    def default_epochs(self, n: int) -> int:
        return self.inner.default_epochs(n)

    def require_batches(self, per_epoch: int) -> None:
        self.inner.require_batches(per_epoch)

    def settled(self, model: BayesianModel[Any]) -> Self:
        settled = type(self)(algorithm=self.inner.settled(model))
        object.__setattr__(settled, "start", self.start)
        return settled

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> ZerosHeld:
        inner = self.inner.build(model, n=n, steps=steps)
        if not isinstance(inner, (MeanField, Point)) or type(inner) not in (MeanField, Point):
            name = Shown(type(self.inner).__name__)
            fix = "use SVGI, CAVI, SVI, MFVI or MAP"
            raise ParameterError("cannot hold weights at zero", argument="algorithm", value=name, fix=fix)
        return ZerosHeld(inner, self.start)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> PrunedDraws:
        keep = saved.get("keep")
        if keep is None or keep.shape != (model.size,) or keep.dtype != torch.bool:
            fix = "it was made for another net or algorithm"
            raise CheckpointError("the saved run lacks a mask of its weights", fix=fix)
        inner = self.inner.read(part(saved, "inner/"), model, n=n, steps=steps)
        return PrunedDraws(inner, keep.to(model.device))


class ZerosHeld(Trainer[PrunedState]):
    """A trainer whose weights that are zero at the start are zero after every step.

    Args:
        inner: Trainer of a mean-field posterior or of a point.
        start: Where to start from; by default where the trainer does.
    """

    def __init__(self, inner: MeanField | Point, start: PrunedState | None = None) -> None:
        self.inner, self.model, self.start = inner, inner.model, start
        self._bound: tuple[Tensor, MeanField | Point] | None = None

    def _of(self, keep: Tensor) -> MeanField | Point:
        """Return the trainer whose scales are those of the weights that are left."""
        if self._bound is None or self._bound[0] is not keep:
            trainer = copy.copy(self.inner)
            trainer.scales = KeptSweeps(self.inner.scales, keep)
            self._bound = keep, trainer
        return self._bound[1]

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> PrunedState:
        if self.start is not None:
            keep = self.start.keep.to(self.model.device).clone()
            state = self._of(keep).init(y, generator, unit)
            return self._held(PrunedState(keep, self._going_on(self.start, keep, state, generator)))
        keep, own = torch.ones(self.model.size, dtype=torch.bool, device=self.model.device), self.model.own_weights()[0]
        for slot in prunable(self.model):
            slot.of(keep).copy_(slot.of(own) != 0)
        return self._held(PrunedState(keep, self._of(keep).init(y, generator, unit)))

    def step(self, state: PrunedState, batch: Batch, generator: torch.Generator) -> tuple[PrunedState, Info]:
        inner, info = self._of(state.keep).step(state.inner, batch, generator)
        return self._held(state._replace(inner=inner)), info

    def _going_on(self, start: PrunedState, keep: Tensor, state: Any, generator: torch.Generator) -> Any:
        """Return a new state with the weights, deviations and noise of another, and scales that know them."""
        old, trainer = start.inner, self._of(keep)
        state.mean.copy_(old.mean)
        state.fixed.copy_(old.fixed)
        state = state._replace(
            noise={name: tensor.clone() for name, tensor in old.noise.items()},
            buffers={name: tensor.clone() for name, tensor in old.buffers.items()},
        )
        known = Known(state.mean)
        if isinstance(trainer, MeanField):
            if trainer.family.form is FREE and hasattr(old, "rho"):
                state.rho.copy_(old.rho)
            known = Known(state.mean, trainer.family.second_moment(state, trainer.blocks))
        trainer.scales.refresh(state.scales, state.precision, known, generator, START_SWEEPS)
        return state

    def _held(self, state: PrunedState) -> PrunedState:
        """Set means and deviations to zero where the weights are, in place."""
        cut, inner = ~state.keep, state.inner
        inner.mean.masked_fill_(cut, 0.0)
        if isinstance(self.inner, MeanField):
            free = self.inner.family.form is FREE
            inner.rho.masked_fill_(cut, NO_VARIANCE if free else -NO_VARIANCE)
        return state

    def source(self, state: PrunedState) -> PrunedDraws:
        return PrunedDraws(self.inner.source(state.inner), state.keep)

    def finish(self, state: PrunedState) -> PrunedDraws:
        return PrunedDraws(self.inner.finish(state.inner), state.keep)

    def draws_globally(self, batch: Batch) -> bool:
        return self.inner.draws_globally(batch)

    def is_done(self, state: PrunedState) -> bool:
        return self.inner.is_done(state.inner)

    def run_away(self, state: PrunedState) -> str | None:
        return self.inner.run_away(state.inner)

    def measures(self, state: PrunedState) -> dict[str, float]:
        return self.inner.measures(state.inner)


def prunable(model: BayesianModel[Any]) -> list[Slot]:
    """List the parameters whose weights can be removed: Bayesian matrices and filters outside normalisation layers.

    Args:
        model: The model.

    Returns:
        Their places in the vector of all Bayesian weights.
    """
    normal = norm_names(model.net)
    return [slot for slot in model.bayesian if len(slot.shape) > 1 and slot.name not in normal]
