"""The contract of a likelihood: how a network's output meets the target.

A likelihood is immutable. What it learns (a noise variance) is a dict of tensors that the algorithm carries in its
state: `init` makes it, `observe` refreshes it from a batch or `gibbs` draws it given all rows, `log_prob` and
`predict` read it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import Argument, DataError, Shown, Text, Value
from r2d2net.prediction import Prediction

Noise = dict[str, Tensor]
"""What a likelihood learns besides the network, by name: {"variance": (outputs,)}, say, or nothing."""


class Unit(NamedTuple):
    """The user's units of the target: y = center + scale * (what the network predicts)."""

    center: Tensor
    scale: Tensor


class Likelihood(ABC):
    """p(y | network output)."""

    standardizes: bool = False  # whether `fit` gives the network targets of mean 0 and variance 1
    has_classes: bool = False  # whether targets are classes 0, 1, ..., and predictions their probabilities
    is_softmax: bool = False  # whether one number added to all outputs of a row leaves its prediction as it is

    @property
    def learns_noise(self) -> bool:
        """Whether there is one noise variance for all rows, learnt from the data."""
        return False

    @abstractmethod
    def target(self, y: Tensor) -> Tensor:
        """Check the targets and bring them to the dtype and shape that `log_prob` reads."""

    @abstractmethod
    def outputs(self, y: Tensor) -> int | None:
        """Width of the network's output for these (checked) targets; None where any width will do."""

    def require_width(self, width: int, y: Tensor) -> None:
        """Raise a `DataError` unless these (checked) targets, in the user's units, fit a network of so many outputs."""
        needed = self.outputs(y)
        if needed is not None and width != needed:
            fix: Text = f"let net end in {needed}, or give another likelihood"
            if _are_classes(y, width):
                categorical = Argument("likelihood", Shown("rn.likelihoods.Categorical()"))
                fix = ("if they are classes, give ", categorical, " (Gaussian is the default)")
            needs = f" outputs, the likelihood {type(self).__name__} needs {needed} for these targets"
            raise DataError(("gives ", Value(width), needs), argument="net", fix=fix)

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        """What the likelihood learns, at its start; ``unit`` says what one unit of ``y`` is to the user."""
        return {}

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        """Refresh what is learnt with one batch; ``rate`` is the weight of the batch in the running mean."""
        return noise

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        """What is learnt, drawn given the outputs for all rows; ``weight`` is the power of the likelihood."""
        return noise

    @abstractmethod
    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        """Log likelihood of each row, (rows,)."""

    @abstractmethod
    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Prediction:
        """The predictive distribution from outputs (draws, rows, width), in the user's units.

        ``noise`` is as `init` made it, or has a first dimension of draws.
        """


def _are_classes(y: Tensor, width: int) -> bool:
    """Whether these targets could be numbers of so many classes."""
    return y[:1].numel() == 1 and bool(((y == y.round()) & (y >= 0) & (y < width)).all())


def real_target(y: Tensor, name: str) -> Tensor:
    """Floating-point targets as (rows, outputs)."""
    if y.is_complex() or y.dim() == 0 or y.dim() > 2:
        fix = f"{name} needs (rows,) or (rows, outputs)"
        raise DataError(("has shape ", Value(tuple(y.shape))), argument="y", fix=fix)
    real = y if y.is_floating_point() else y.to(torch.get_default_dtype())
    return real.unsqueeze(1) if real.dim() == 1 else real


def like_target(output: Tensor, y: Tensor) -> Tensor:
    """The output in the shape of the targets, or a clear error."""
    if output.shape == y.shape:
        return output
    if output.numel() == y.numel() and output.shape[0] == y.shape[0]:
        return output.reshape(y.shape)
    problem = ("the network's output has shape ", Value(tuple(output.shape)), f", the targets {tuple(y.shape)}")
    raise DataError(problem, fix="they must agree")
