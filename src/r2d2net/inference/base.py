"""What an inference algorithm is: settings, a trainer of pure steps over a state, and the source of draws it leaves.

    method = SVGI(...)                                    what the user writes: settings only
    trainer = method.build(model, n=..., steps=...)       bound to a model and the size of its data
    state = trainer.init(y, generator)
    state, info = trainer.step(state, (x, y), generator)
    source = trainer.finish(state)                        what a posterior keeps of the run
    for networks in source.draws(10, generator): ...

Nothing is hidden: all that changes in training is in the state, a NamedTuple of tensors, and of NamedTuples and dicts
of tensors. Its field ``step`` is the number of steps taken, an int64 scalar on the CPU. A step takes ownership of the
state it is given and may reuse its memory.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from r2d2net.checkpoint import unflatten
from r2d2net.errors import ParameterError, Shown
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import AnyPrior, BayesianModel, Tensors
from r2d2net.registry import ALGORITHMS, PRIORS

Batch = tuple[Any, Tensor]
StateT = TypeVar("StateT", bound=tuple[Any, ...])  # a NamedTuple


class Info(NamedTuple):
    """What one step reports, left on the device."""

    nll: Tensor  # mean negative log likelihood of the batch, a scalar
    learning_rate: float
    temperature: float


class Draws(NamedTuple):
    """Whole networks, as many as the first dimension of every tensor says; what they share is expanded, not copied."""

    weights: Tensor  # (n, weights)
    fixed: Tensor  # (n, deterministic parameters)
    buffers: Tensors  # (n, ...)
    noise: Noise  # (n, ...)

    @classmethod
    def sharing(cls, weights: Tensor, fixed: Tensor, buffers: Tensors, noise: Noise) -> Draws:
        """Draws of the weights (n, weights) that have all else in common."""
        n = len(weights)
        shared = [{k: v.expand(n, *v.shape) for k, v in tensors.items()} for tensors in (buffers, noise)]
        return cls(weights, fixed.expand(n, *fixed.shape), *shared)


class DrawSource(ABC, Generic[StateT]):
    """A distribution of networks: all that a posterior needs of the run that made it.

    Args:
        model: The model whose networks are drawn.
        state: The tensors that the draws are made of, a NamedTuple with a field ``noise``; they are what is saved.

    Attributes:
        draws_noise: Whether the noise is part of the draws, and not to be corrected by validation rows.
    """

    draws_noise: bool = False

    def __init__(self, model: BayesianModel[Any], state: StateT) -> None:
        self.model, self.state = model, state

    @abstractmethod
    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        """Draw n networks, at most ``at_once`` of them at a time."""

    @abstractmethod
    def center(self) -> Draws:
        """Return one network in the middle of the distribution: that of the mean weights."""

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw all Bayesian weights of n networks, (n, weights)."""
        return torch.cat([networks.weights for networks in self.draws(n, generator)])

    @property
    def available(self) -> int | None:
        """The number of different draws there are; None where there is no end of them."""
        return None

    def kl(self) -> Tensor | None:
        """Return the KL of the posterior from the prior in nats; None where the algorithm has none."""
        return None

    def with_state(self, state: StateT) -> Self:
        """Return the same source with another state."""
        changed = copy.copy(self)
        changed.state = state
        return changed

    def with_noise_factor(self, factor: float) -> Self:
        """Return the same source with its noise variance multiplied by ``factor``."""
        state: Any = self.state
        return self.with_state(state._replace(noise={**state.noise, "variance": state.noise["variance"] * factor}))


class Trainer(ABC, Generic[StateT]):
    """An algorithm bound to a model: pure steps over a state."""

    model: BayesianModel[Any]

    @abstractmethod
    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> StateT:
        """Return the state before the first step.

        Args:
            y: The training targets as the network sees them.
            generator: The source of all randomness.
            unit: The user's units of ``y``.
        """

    @abstractmethod
    def step(self, state: StateT, batch: Batch, generator: torch.Generator) -> tuple[StateT, Info]:
        """Return the state after one batch, and what the step reports."""

    @abstractmethod
    def source(self, state: StateT) -> DrawSource[Any]:
        """Return the distribution of networks that a state stands for, at any moment of the run."""

    def present(self, state: StateT) -> Draws:
        """Return the network where the run stands now; it tells what has diverged."""
        return self.source(state).center()

    def finish(self, state: StateT) -> DrawSource[Any]:
        """Return what the posterior keeps of a run that has come to its end."""
        return self.source(state)

    def restore(self, saved: Tensors) -> DrawSource[Any]:
        """Return what `finish` returned, from the tensors of a file."""
        device = self.model.device
        target = torch.zeros(1, 1, dtype=self.model.dtype, device=device)
        template = self.init(target, torch.Generator(device).manual_seed(0))
        # how many noise variances there are, the data know
        return self.source(unflatten(template, saved, any_shape=lambda name: "noise" in name.split("/")))


class Method(ABC):
    """An algorithm's settings, a frozen dataclass of plain JSON values."""

    full_batch: ClassVar[bool] = False  # every step sees all rows
    optimizes: ClassVar[bool] = True  # the last state is the best: a run can be stopped early
    suits_every_prior: ClassVar[bool] = True  # False: `build` refuses some priors by their traits

    @property
    def runs(self) -> int:
        """The number of independent runs that make one posterior: members of an ensemble, chains of a sampler."""
        return 1

    def require_batches(self, per_epoch: int) -> None:  # noqa: B027 (most algorithms take any number)
        """Raise a `ParameterError` if the algorithm cannot work with so many batches in an epoch."""

    @abstractmethod
    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Trainer[Any]:
        """Bind to a model, the number of training rows and of steps; a model that does not suit is refused."""

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> DrawSource[Any]:
        """Return what a finished run left, from the tensors of a file."""
        return self.build(model, n=n, steps=steps).restore(saved)


def make_plain(settings: Method) -> None:
    """Turn numpy's numbers among the settings into Python's own, which JSON can keep."""
    for field in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, field.name, value.item())  # frozen


def require_priors(model: BayesianModel[Any], suits: Callable[[AnyPrior], bool], method: str, reason: str) -> None:
    """Refuse a model with a prior that does not suit, in one line that names the built-in priors that do.

    Args:
        model: The model.
        suits: Tells by the prior's traits whether the algorithm can use it.
        method: Name of the algorithm.
        reason: What makes other priors unsuitable.

    Raises:
        ParameterError: A prior of the model does not suit.
    """
    for slot in model.bayesian:
        if slot.prior is not None and not suits(slot.prior):
            priors = ", ".join(cls.__name__ for cls in PRIORS.classes() if suits(cls()))
            algorithms = ", ".join(cls.__name__ for cls in ALGORITHMS.classes() if cls.suits_every_prior)
            raise ParameterError(
                f"does not suit the prior {type(slot.prior).__name__} of {slot.name!r}: {reason}",
                argument="algorithm",
                value=Shown(method),
                fix=f"use one of {priors}, or an algorithm for every prior: {algorithms}",
            )
