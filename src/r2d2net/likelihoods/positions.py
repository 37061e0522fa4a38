"""Classes at every position of a row: pixels of an image, tokens of a text. Positions may be without a class.

    log p(y_i | output) = sum over positions j with y_ij != ignore_index of log softmax(logits_ij)[y_ij]

A row without any class counts nothing; so do rows of one class each that are without it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from r2d2net.errors import Argument, DataError, FitWarning, Shown, Value, require
from r2d2net.likelihoods.base import Likelihood, Noise, Unit
from r2d2net.position_predictions import LabelProbabilities, PositionClasses


@dataclass(frozen=True)
class CategoricalPositions(Likelihood[PositionClasses]):
    """y holds a class 0, ..., K-1 for each position, (rows, *positions); the network gives K logits for each.

    Args:
        dim: Where the logits of a position are in the network's output: 1 for (rows, classes, *positions), as of
            images, -1 for (rows, *positions, classes), as of texts. None reads them as 1 does, and warns where the
            shapes would fit -1 as well.
        ignore_index: The value of y where there is no class.
    """

    dim: int | None = None
    ignore_index: int = -100
    keeps_shape = True

    def __post_init__(self) -> None:
        require(self.dim in (None, 1, -1), "dim", self.dim, "use 1 or -1")
        whole = isinstance(self.ignore_index, int) and not isinstance(self.ignore_index, bool)
        require(whole and self.ignore_index < 0, "ignore_index", self.ignore_index, "use a whole number below 0")

    def target(self, y: Tensor) -> Tensor:
        if y.dim() == 0:
            raise DataError("holds a scalar", argument="y", fix="it needs a first dimension of rows")
        labels = y.long()
        bad = (labels != y) | ((labels < 0) & (labels != self.ignore_index))
        if bool(bad.any()):
            fix = f"classes are 0, 1, ..., and {self.ignore_index} where there is none"
            raise DataError(("holds ", Value(y[bad].flatten()[0].item())), argument="y", fix=fix)
        return labels

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        if not bool((y != self.ignore_index).any()):  # a batch may have none, but not all rows
            raise DataError(f"holds {self.ignore_index} alone", argument="y", fix="give a class somewhere")
        return {}

    def outputs(self, y: Tensor) -> int | None:
        return None

    def require_width(self, width: int, y: Tensor) -> None:
        positions = y[:1].numel()
        classes = width // max(1, positions)
        if y.numel() and (width % max(1, positions) or int(y.max()) >= classes):
            problem = ("holds class ", Value(int(y.max())), f" and {positions} positions in a row, ", Argument("net"))
            raise DataError((*problem, f" gives {width} numbers for them"), argument="y", fix="they must agree")

    def warn_of_output(self, output: Tensor, y: Tensor) -> None:
        both = y.dim() > 1 and all(output.movedim(dim, -1).shape[:-1] == y.shape for dim in (1, -1))
        if self.dim is None and both:
            shape = f"the output {tuple(output.shape)} may have classes after the rows, or last"
            fix = "give CategoricalPositions(dim=1), as it is read now, or dim=-1"
            warnings.warn(f"{shape}: {fix}", FitWarning, stacklevel=3)

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        if output.dim() != y.dim() + 1 or self._last(output).shape[:-1] != y.shape:
            other = -self._dim
            fits = output.dim() == y.dim() + 1 and output.movedim(other, -1).shape[:-1] == y.shape
            own = Argument("likelihood", Shown(f"rn.likelihoods.CategoricalPositions(dim={other})"))
            wanted = f"{tuple(y.shape)} and a dimension of classes, {'last' if self._dim == -1 else 'after the rows'}"
            problem = ("the network's output has shape ", Value(tuple(output.shape)), f", the targets need {wanted}")
            raise DataError(problem, fix=("give ", own) if fits else "they must agree")
        logits = self._last(output)
        flat = logits.reshape(-1, logits.shape[-1]), y.reshape(-1)
        losses = functional.cross_entropy(*flat, ignore_index=self.ignore_index, reduction="none")
        return -losses.reshape(len(y), -1).sum(1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> PositionClasses:
        """Compute the probabilities of the classes at outputs of the network's own shape, after that of draws."""
        logits = outputs.movedim(self._dim + 1 if self._dim > 0 else self._dim, -1)
        return PositionClasses(torch.softmax(logits, -1), self.ignore_index)

    @property
    def _dim(self) -> int:
        return 1 if self.dim is None else self.dim

    def _last(self, output: Tensor) -> Tensor:
        return output.movedim(self._dim, -1)


@dataclass(frozen=True)
class BernoulliLabels(Likelihood[LabelProbabilities]):
    """y holds 0 or 1 for each of several labels, (rows, labels); the network gives one logit for each.

    Args:
        ignore_index: The value of y where it is not known whether a label holds.
    """

    ignore_index: int = -100

    def __post_init__(self) -> None:
        whole = isinstance(self.ignore_index, int) and not isinstance(self.ignore_index, bool)
        require(whole and self.ignore_index < 0, "ignore_index", self.ignore_index, "use a whole number below 0")

    def target(self, y: Tensor) -> Tensor:
        if y.dim() != 2:
            fix = "several labels need (rows, labels); for one use Bernoulli"
            raise DataError(("has shape ", Value(tuple(y.shape))), argument="y", fix=fix)
        bad = (y != 0) & (y != 1) & (y != self.ignore_index)
        if bool(bad.any()):
            fix = f"labels are 0 and 1, and {self.ignore_index} where that is not known"
            raise DataError(("holds ", Value(y[bad].flatten()[0].item())), argument="y", fix=fix)
        return y.long()

    def outputs(self, y: Tensor) -> int | None:
        return y.shape[1]

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        if output.shape != y.shape:
            problem = ("the network's output has shape ", Value(tuple(output.shape)), f", the labels {tuple(y.shape)}")
            raise DataError(problem, fix="they must agree")
        known = y != self.ignore_index
        target = torch.where(known, y, 0).to(output.dtype)
        losses = functional.binary_cross_entropy_with_logits(output, target, reduction="none")
        return -(losses * known).sum(1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> LabelProbabilities:
        return LabelProbabilities(torch.sigmoid(outputs), self.ignore_index)
