"""The contract of a likelihood: p(y | output of the network).

A likelihood is immutable. Its learnt parameters (a noise variance) are a dict of tensors that the algorithm carries in
its state: `init` makes them, `observe` updates them by a batch or `gibbs` draws them given all rows, `log_prob` and
`predict` use them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import Argument, DataError, ParameterError, Shown, Text, Value
from r2d2net.prediction import PredictionT

Noise = dict[str, Tensor]
"""Learnt parameters of a likelihood by name, such as {"variance": (outputs,)}; empty where it has none."""


class Unit(NamedTuple):
    """Units of the targets: y = center + scale * (target of the network).

    Attributes:
        center: Centre of each output.
        scale: Scale of each output.
        most: Largest training target of each output on the scale of ``center``, for likelihoods that ask for it
            (`Likelihood.bounds_mean`); None otherwise.
    """

    center: Tensor
    scale: Tensor
    most: Tensor | None = None


class Likelihood(ABC, Generic[PredictionT]):
    """p(y | network output)."""

    standardizes: bool = False  # whether `fit` gives the network targets of mean 0 and variance 1
    has_classes: bool = False  # whether targets are classes 0, 1, ..., and predictions their probabilities
    is_softmax: bool = False  # whether adding one number to all outputs of a row leaves its prediction unchanged
    takes_noise_by_row: bool = False  # whether `log_prob` also takes learnt parameters with one entry for each row
    keeps_shape: bool = False  # whether `predict` takes outputs (draws, rows, ...) of the network's own shape
    takes_missing: bool = False  # whether outputs are independent given the network's, so that targets may be NaN
    bounds_mean: bool = False  # whether `predict` needs the largest training target, as ``unit.most``

    @property
    def learns_noise(self) -> bool:
        """Whether one noise variance for all rows is learnt, as ``noise["variance"]``; predictions are `Regression`.

        Validation rows then correct it. A likelihood that learns something else leaves this False.
        """
        return False

    @abstractmethod
    def target(self, y: Tensor) -> Tensor:
        """Check targets and convert them to the dtype and shape that `log_prob` takes.

        Args:
            y: Targets as the user gives them.

        Returns:
            The converted targets.

        Raises:
            DataError: If the likelihood cannot have such targets.
        """

    @abstractmethod
    def outputs(self, y: Tensor) -> int | None:
        """Determine the width that the network's output needs for given targets.

        Args:
            y: Converted targets.

        Returns:
            The width, or None where any width is possible.
        """

    def require_width(self, width: int, y: Tensor) -> None:
        """Check that targets fit the width of a network's output.

        Args:
            width: Width of the network's output.
            y: Converted targets in the user's units.

        Raises:
            DataError: If they do not fit.
        """
        needed = self.outputs(y)
        if needed is not None and width != needed:
            fix: Text = f"let net end in {needed}, or give another likelihood"
            if _are_classes(y, width):
                categorical = Argument("likelihood", Shown("rn.likelihoods.Categorical()"))
                fix = ("if they are classes, give ", categorical, " (Gaussian is the default)")
            needs = f" outputs, the likelihood {type(self).__name__} needs {needed} for these targets"
            raise DataError(("gives ", Value(width), needs), argument="net", fix=fix)

    def warn_of_output(self, output: Tensor, y: Tensor) -> None:
        """Warn, before training, of what the network's output leaves open.

        Args:
            output: Output of the network for some rows.
            y: Converted targets of these rows.
        """

    def network_scale(self, y: Tensor) -> Tensor:
        """Convert checked targets to the scale on which they are standardised and the network sees them.

        Args:
            y: Converted targets in the user's units.

        Returns:
            The targets themselves, unless the likelihood is one of a function of them, such as their logarithm.
        """
        return y

    def log_slope(self, y: Tensor) -> Tensor:
        """Compute the log derivative of `network_scale`: what the log density of y has more than that on its scale.

        Args:
            y: Converted targets in the user's units.

        Returns:
            The logarithms, summed over the outputs, (rows,).
        """
        return torch.zeros(len(y), dtype=torch.float64, device=y.device)

    def on_network_scale(self) -> Likelihood[Any]:
        """Build the likelihood of targets that are on the network's scale already.

        Returns:
            The likelihood itself, unless `network_scale` changes targets.
        """
        return self

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        """Make the initial values of the learnt parameters.

        Args:
            y: Converted targets, standardised.
            unit: Units of the targets, where they are standardised.

        Returns:
            The learnt parameters by name.
        """
        return {}

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        """Update the learnt parameters by one batch.

        Args:
            output: Output of the network, (rows, width).
            y: Converted targets of the rows.
            noise: Current values of the learnt parameters.
            rate: Weight of the batch in the running mean.

        Returns:
            The new values.
        """
        return noise

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        """Draw the learnt parameters from their distribution given the outputs for all rows.

        Args:
            output: Output of the network for all rows, (rows, width).
            y: Converted targets of the rows.
            noise: Current values of the learnt parameters.
            generator: Source of randomness; None for torch's global generator.
            weight: Power to which the likelihood is raised.

        Returns:
            The new values.
        """
        return noise

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        """Compute the two variances of which R2 = explained / (explained + noise) is made, on the outputs' scale.

        Args:
            outputs: Outputs of the network at draws of its weights, (draws, rows, width).
            noise: Values of the learnt parameters, with or without a first dimension of draws.

        Returns:
            The variance of the outputs over the rows, and the mean variance of the noise, each (draws, outputs).

        Raises:
            ParameterError: If the likelihood has no R2.
        """
        name = type(self).__name__
        raise ParameterError("has no R2", argument="likelihood", value=Shown(name), fix="give it explained_and_noise")

    @abstractmethod
    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        """Compute the log likelihood of each row.

        Args:
            output: Output of the network, (rows, width).
            y: Converted targets of the rows.
            noise: Values of the learnt parameters.

        Returns:
            The log likelihoods, (rows,).
        """

    @abstractmethod
    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> PredictionT:
        """Build the predictive distribution in the user's units.

        Args:
            outputs: Outputs of the network at draws of its weights, (draws, rows, width).
            noise: Values of the learnt parameters, with or without a first dimension of draws.
            unit: Units of the targets.

        Returns:
            The prediction.
        """


def _are_classes(y: Tensor, width: int) -> bool:
    """Whether targets could be the numbers of ``width`` classes."""
    return y[:1].numel() == 1 and bool(((y == y.round()) & (y >= 0) & (y < width)).all())


def variance_over_rows(outputs: Tensor) -> Tensor:
    """Compute the variance of outputs (draws, rows, width) over the rows, (draws, width)."""
    return outputs.double().var(1)


def real_target(y: Tensor, name: str) -> Tensor:
    """Convert real targets to floating-point numbers of shape (rows, outputs)."""
    if y.is_complex() or y.dim() == 0 or y.dim() > 2:
        fix = f"{name} needs (rows,) or (rows, outputs)"
        raise DataError(("has shape ", Value(tuple(y.shape))), argument="y", fix=fix)
    real = y if y.is_floating_point() else y.to(torch.get_default_dtype())
    return real.unsqueeze(1) if real.dim() == 1 else real


def like_target(output: Tensor, y: Tensor) -> Tensor:
    """Reshape the output to the shape of the targets, or raise a `DataError`."""
    if output.shape == y.shape:
        return output
    if output.numel() == y.numel() and output.shape[0] == y.shape[0]:
        return output.reshape(y.shape)
    problem = ("the network's output has shape ", Value(tuple(output.shape)), f", the targets {tuple(y.shape)}")
    raise DataError(problem, fix="they must agree")
