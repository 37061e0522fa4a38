"""Predictions of several classes or labels in a row: classes of pixels and tokens, labels that hold or do not.

Draws are the first dimension of ``samples``, rows the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value
from r2d2net.prediction import Classification, Prediction


@dataclass(frozen=True)
class PositionClasses(Classification):
    """Prediction of a class at every position of a row; probabilities, entropies and so on are those of positions.

    Attributes:
        samples: Class probabilities for each draw of the weights, (draws, rows, *positions, classes).
        ignore_index: The value of targets where there is no class.
    """

    samples: Tensor
    ignore_index: int = -100

    def columns(self, level: float = 0.9) -> dict[str, Tensor]:
        """Compute, for each row, the mean entropy of its positions and the least probability of a predicted class."""
        rows = len(self.probs)
        entropy, most = (values.reshape(rows, -1) for values in (self.entropy, self.max_prob))
        return {"mean entropy": entropy.mean(1), "least certain position": most.amin(1)}

    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive probability of each row's classes, summed over the positions that have one.

        Args:
            y: Class numbers, (rows, *positions).

        Returns:
            The log probabilities, (rows,).

        Raises:
            DataError: If ``y`` has another shape or holds a class that the prediction does not have.
        """
        probs = self.probs
        if y.shape != probs.shape[:-1]:
            fix = f"the prediction has {tuple(probs.shape[:-1])}"
            raise DataError(("has shape ", Value(tuple(y.shape))), argument="y", fix=fix)
        known = y != self.ignore_index
        label = torch.where(known, y, 0).long()
        if bool(((label < 0) | (label >= probs.shape[-1])).any()):
            raise DataError(f"holds a class outside 0, ..., {probs.shape[-1] - 1}", argument="y")
        found = probs.gather(-1, label.unsqueeze(-1)).squeeze(-1).clamp(min=torch.finfo(probs.dtype).tiny).log()
        return (found * known).reshape(len(y), -1).sum(1)


@dataclass(frozen=True)
class LabelProbabilities(Prediction):
    """Prediction of labels that hold or do not, several in a row.

    Attributes:
        samples: Probability of each label for each draw of the weights, (draws, rows, labels).
        ignore_index: The value of targets where it is not known whether a label holds.
    """

    samples: Tensor
    ignore_index: int = -100

    @property
    def mean(self) -> Tensor:
        """Predictive probability of each label, (rows, labels)."""
        return self.samples.mean(0)

    @property
    def label(self) -> Tensor:
        """Whether each label is more probable than not."""
        return self.mean > 0.5

    @property
    def std(self) -> Tensor:
        """Standard deviation of each probability under the posterior."""
        return self.samples.std(0, correction=0)

    def columns(self, level: float = 0.9) -> dict[str, Tensor]:
        """Compute the probability of each label."""
        names = range(self.samples.shape[-1]) if self.labels is None else self.labels
        return {f"p({name})": self.mean[:, k] for k, name in enumerate(names)}

    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive probability of each row's labels, summed over those that are known.

        Args:
            y: 0 or 1 for each label, (rows, labels).

        Returns:
            The log probabilities, (rows,): labels are independent given the weights, and taken one by one here.

        Raises:
            DataError: If ``y`` has another shape.
        """
        probs = self.mean
        if y.shape != probs.shape:
            raise DataError(("has shape ", Value(tuple(y.shape))), argument="y", fix=f"it needs {tuple(probs.shape)}")
        tiny = torch.finfo(probs.dtype).tiny
        chosen = torch.where(y == 1, probs, 1 - probs).clamp(min=tiny).log()
        return (chosen * (y != self.ignore_index)).sum(1)
