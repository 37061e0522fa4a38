"""Likelihoods of classes and counts: categorical (logits), Bernoulli (one logit), Poisson (log rate)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from r2d2net.errors import Argument, DataError, Value
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, like_target, real_target, variance_over_rows
from r2d2net.likelihoods.reach import within_reach
from r2d2net.prediction import Classification, Counts
from r2d2net.priors.latent_noise import GUMBEL, LOGISTIC, count_noise

LARGEST_LOG_RATE = 30.0  # of likelihoods with an offset: one bad draw cannot overflow


@dataclass(frozen=True)
class Categorical(Likelihood[Classification]):
    """y is one of the classes 0, 1, ..., K-1; the network gives K logits."""

    has_classes = True
    is_softmax = True

    def target(self, y: Tensor) -> Tensor:
        return class_labels(y, "a categorical likelihood")

    def outputs(self, y: Tensor) -> int | None:
        return None

    def require_width(self, width: int, y: Tensor) -> None:
        if y.numel() and int(y.max()) >= width:
            problem = ("holds class ", Value(int(y.max())), ", ", Argument("net"), f" gives {width} outputs")
            raise DataError(problem, argument="y", fix=f"classes are 0, ..., {width - 1}")

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        if output.dim() != 2 or output.shape[0] != y.shape[0]:
            problem = ("the network's output has shape ", Value(tuple(output.shape)))
            raise DataError(problem, fix=f"it must be ({len(y)}, classes)")
        return -functional.cross_entropy(output, y, reduction="none")

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Classification:
        return Classification(torch.softmax(outputs, -1))

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        centred = outputs - outputs.mean(-1, keepdim=True)
        explained = variance_over_rows(centred).sum(-1, keepdim=True)
        return explained, torch.full_like(explained, (outputs.shape[-1] - 1) * GUMBEL)


@dataclass(frozen=True)
class Bernoulli(Likelihood[Classification]):
    """y is 0 or 1; the network gives one logit, that of 1."""

    has_classes = True

    def target(self, y: Tensor) -> Tensor:
        labels = class_labels(y, "a Bernoulli likelihood")
        if labels.numel() and int(labels.max()) > 1:
            fix = "a Bernoulli likelihood needs 0 and 1; for classes use Categorical"
            raise DataError(("holds ", Value(int(labels.max()))), argument="y", fix=fix)
        return labels.to(torch.get_default_dtype()).unsqueeze(1)

    def outputs(self, y: Tensor) -> int | None:
        return 1

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        logit = like_target(output, y)
        return -functional.binary_cross_entropy_with_logits(logit, y.to(logit.dtype), reduction="none").sum(-1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Classification:
        return Classification(torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], -1))

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        explained = variance_over_rows(outputs)
        return explained, torch.full_like(explained, LOGISTIC)


@dataclass(frozen=True)
class Poisson(Likelihood[Counts]):
    """y is a count; the network gives the log rate.

    Args:
        centered: Let the network give the log rate over the mean of the training counts, which is kept as the learnt
            parameter ``offset``: it so starts at the best constant however large the counts are.
    """

    centered: bool = False
    takes_noise_by_row = True
    takes_missing = True

    def target(self, y: Tensor) -> Tensor:
        return count_target(y, "a Poisson likelihood")

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        return {"offset": log_mean(y)} if self.centered else {}

    def outputs(self, y: Tensor) -> int | None:
        return y.shape[1]

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        log_rate = like_target(output, y)
        if self.centered:
            log_rate = (log_rate + noise["offset"]).clamp(max=LARGEST_LOG_RATE)
        return (y * log_rate - torch.exp(log_rate) - torch.lgamma(y + 1)).sum(-1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Counts:
        if self.centered:
            outputs = (within_reach(outputs) + noise["offset"].unsqueeze(-2)).clamp(max=LARGEST_LOG_RATE)
        return Counts(torch.exp(outputs))

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        rates = self.predict(outputs, noise, Unit(outputs.new_zeros(()), outputs.new_ones(()))).samples
        return variance_over_rows(outputs), count_noise(rates.double().mean(1))


def count_target(y: Tensor, name: str) -> Tensor:
    """Convert counts to floating-point numbers of shape (rows, outputs), or raise a `DataError`."""
    counts = real_target(y, name)
    bad = (counts < 0) | (counts != counts.floor())
    if bool(bad.any()):
        problem = ("holds ", Value(counts[bad].flatten()[0].item()))
        raise DataError(problem, argument="y", fix=f"{name} needs counts 0, 1, 2, ...")
    return counts


def log_mean(y: Tensor) -> Tensor:
    """Compute the log mean of each column of counts; half a count stands for none at all."""
    mean = y.double().sum(0).clamp(min=0.5) / len(y)
    return mean.log().to(y.dtype)


def class_labels(y: Tensor, name: str) -> Tensor:
    """Convert class labels to integers of shape (rows,), or raise a `DataError`."""
    if y.dim() == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    if y.dim() != 1:
        raise DataError(("has shape ", Value(tuple(y.shape))), argument="y", fix=f"{name} needs (rows,)")
    labels = y.long()
    if y.is_floating_point() and bool((labels != y).any()):
        fix = f"{name} needs whole class numbers; for real targets use Gaussian"
        raise DataError(("holds ", Value(y[labels != y][0].item())), argument="y", fix=fix)
    if labels.numel() and int(labels.min()) < 0:
        raise DataError(("holds ", Value(int(labels.min()))), argument="y", fix=f"{name} needs class numbers from 0")
    return labels
