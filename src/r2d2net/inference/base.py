"""What an inference algorithm is: a frozen description that, built for a model, gives pure steps over a state.

    method = SVGI(...)                                    what the user writes: settings only
    running = method.build(model, n=..., steps=...)       bound to a model and the size of its data
    state = running.init(y, generator)
    state, info = running.step(state, (x, y), generator)
    weights = running.sample(state, 10, generator)

Nothing is hidden: all that changes is in the state, a NamedTuple of tensors and dicts of tensors. A step takes
ownership of the state it is given and may reuse its memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from r2d2net.likelihoods.base import Unit
from r2d2net.model import BayesianModel

Batch = tuple[Any, Tensor]


class Info(NamedTuple):
    """What one step reports, left on the device."""

    nll: Tensor  # mean negative log likelihood of the batch, a scalar
    learning_rate: float
    temperature: float


class Running(Protocol):
    """An algorithm bound to a model."""

    model: BayesianModel

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> Any: ...
    def step(self, state: Any, batch: Batch, generator: torch.Generator) -> tuple[Any, Info]: ...
    def sample(self, state: Any, n: int, generator: torch.Generator | None) -> Tensor: ...
    def mean(self, state: Any) -> Tensor: ...
    def kl(self, state: Any) -> Tensor: ...


class Method(Protocol):
    """An algorithm's settings."""

    def build(self, model: BayesianModel, *, n: int, steps: int, inputs: int | None = None) -> Running: ...
