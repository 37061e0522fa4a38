"""What an inference algorithm is: a frozen description that, built for a model, gives pure steps over a state.

    method = SVGI(...)                                    what the user writes: settings only
    running = method.build(model, n=..., steps=...)       bound to a model and the size of its data
    state = running.init(y, generator)
    state, info = running.step(state, (x, y), generator)
    running, state = running.finish(state)                what the posterior keeps of a run
    for drawn in running.draws(state, 10, generator): ...

Nothing is hidden: all that changes is in the state, a NamedTuple of tensors and dicts of tensors. A step takes
ownership of the state it is given and may reuse its memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.checkpoint import unflatten
from r2d2net.errors import ParameterError, Shown
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import AnyPrior, BayesianModel, Tensors
from r2d2net.registry import ALGORITHMS, PRIORS

Batch = tuple[Any, Tensor]


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


class Running(ABC):
    """An algorithm bound to a model."""

    model: BayesianModel
    draws_noise: bool = False  # whether the noise is part of the draws, and not to be corrected by validation rows

    @abstractmethod
    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> Any:
        """The state before the first step; ``y`` are the training targets, standardised by ``unit``."""

    @abstractmethod
    def step(self, state: Any, batch: Batch, generator: torch.Generator) -> tuple[Any, Info]:
        """The state after one batch."""

    @abstractmethod
    def draws(
        self, state: Any, n: int, generator: torch.Generator | None = None, at_once: int | None = None
    ) -> Iterator[Draws]:
        """n draws of the network, at most ``at_once`` of them at a time."""

    @abstractmethod
    def center(self, state: Any) -> Draws:
        """One network in the posterior's middle: that of the mean weights."""

    def sample(self, state: Any, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws of all Bayesian weights, (n, weights)."""
        return torch.cat([drawn.weights for drawn in self.draws(state, n, generator)])

    def available(self, state: Any) -> int | None:
        """How many different draws there are; None where there is no end of them."""
        return None

    def kl(self, state: Any) -> Tensor | None:
        """KL of the posterior from the prior in nats; None where the algorithm has none."""
        return None

    def finish(self, state: Any) -> tuple[Running, Any]:
        """What the posterior keeps of a run that has come to its end."""
        return self, state

    def with_noise(self, state: Any, factor: float) -> Any:
        """The state with the noise variance multiplied by ``factor``."""
        return state._replace(noise={**state.noise, "variance": state.noise["variance"] * factor})

    def restore(self, saved: Tensors) -> Any:
        """The state that a file's tensors are."""
        device = self.model.device
        target = torch.zeros(1, 1, dtype=self.model.dtype, device=device)
        template = self.init(target, torch.Generator(device).manual_seed(0))
        # how many noise variances there are, the data know
        return unflatten(template, saved, any_shape=lambda name: "noise" in name.split("/"))


class Method(ABC):
    """An algorithm's settings, a frozen dataclass."""

    full_batch: ClassVar[bool] = False  # every step sees all rows
    optimizes: ClassVar[bool] = True  # the last state is the best: a run can be stopped early
    suits_every_prior: ClassVar[bool] = True  # False: `build` refuses some priors by their traits

    @property
    def runs(self) -> int:
        """How many independent runs make one posterior: members of an ensemble, chains of a sampler."""
        return 1

    @abstractmethod
    def build(self, model: BayesianModel, *, n: int, steps: int) -> Running:
        """Bind to a model, the number of training rows and of steps; a model that does not suit is refused."""

    def reader(self, model: BayesianModel, *, n: int, steps: int) -> Running:
        """What reads a finished run's state: the first of what `Running.finish` returns."""
        return self.build(model, n=n, steps=steps)


def make_plain(settings: Method) -> None:
    """Turn numpy's numbers among the settings into Python's own, which JSON can keep."""
    for field in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, field.name, value.item())  # frozen


def require_priors(model: BayesianModel, suits: Callable[[AnyPrior], bool], method: str, reason: str) -> None:
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
