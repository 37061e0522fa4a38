"""Predictions of a posterior for new data: the draws and their summaries, in the units of the training data.

Draws are the first dimension of every tensor: ``samples`` is (draws, rows, outputs), or (draws, rows) where the
training targets were one-dimensional. The variance splits by the law of total variance,

    Var[y] = E[Var[y | w]] + Var[E[y | w]] = aleatoric^2 + epistemic^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from typing_extensions import TypeVar

from r2d2net.errors import DataError, Value, require
from r2d2net.prediction_views import PredictionViews

MOST_STEPS = 60
MOST_COUNT = 2.0**52  # above it float64 does not hold every whole number


class Prediction(PredictionViews, ABC):
    """The predictive distribution of the targets of new rows.

    Attributes:
        samples: Prediction at each draw of the weights; draws are the first dimension.
    """

    samples: Tensor

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Expected target of each row; for classes their probabilities."""

    @abstractmethod
    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive density, or for classes and counts the log probability, of each row's target.

        Args:
            y: Targets of the rows.

        Returns:
            The logarithms, (rows,).

        Raises:
            DataError: If ``y`` does not fit the prediction.
        """

    def columns(self, level: float = 0.9) -> dict[str, Tensor]:
        """Compute the columns of the prediction as a table: the mean, unless a subclass has more to say."""
        return {"mean": self.mean}

    def without_output_dimension(self) -> Self:
        """Drop the last dimension, that of the outputs, where the training targets were one-dimensional.

        Returns:
            The prediction without that dimension, or itself where it has none.
        """
        return self


PredictionT = TypeVar("PredictionT", bound=Prediction, default="Regression", covariant=True)


@dataclass(frozen=True)
class Mixture(Prediction):
    """Prediction of a number: a mixture with one component for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w.
    """

    is_discrete: ClassVar[bool] = False  # whether targets are whole numbers, at which `cdf` has its steps

    samples: Tensor

    @property
    def mean(self) -> Tensor:
        return self.samples.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Standard deviation of the mean under the posterior: what more data would remove."""
        return self.samples.std(0, correction=0)

    @property
    @abstractmethod
    def aleatoric(self) -> Tensor:
        """Standard deviation of the noise: what more data would not remove."""

    @property
    def std(self) -> Tensor:
        """Standard deviation of a new observation."""
        return torch.hypot(self.epistemic, self.aleatoric)

    def of_output(self, output: int) -> Self:
        """Take one of several outputs, as the prediction of a target by itself.

        Args:
            output: Number of the output.

        Returns:
            Its prediction, whose samples are (draws, rows); or itself where there is no dimension of outputs.
        """
        if self.samples.dim() < 3:
            return self
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return replace(self, **{name: _of_output(value, self.samples.shape, output) for name, value in parts.items()})

    @abstractmethod
    def cdf(self, y: Tensor) -> Tensor:
        """Compute the predictive distribution function.

        Args:
            y: Values, broadcastable to (rows,) or (rows, outputs).

        Returns:
            P(new observation <= y), in float64, since float32 has no number between 1 - 6e-8 and 1.
        """

    @abstractmethod
    def quantile(self, probability: float) -> Tensor:
        """Compute the value below which a new observation lies with a given probability.

        Args:
            probability: The probability, strictly between 0 and 1.

        Returns:
            The quantile of each row and output.

        Raises:
            ParameterError: If the probability does not lie strictly between 0 and 1.
        """

    def columns(self, level: float = 0.9) -> dict[str, Tensor]:
        low, high = self.interval(level)
        return {"mean": self.mean, "sd": self.std, "low": low, "high": high}

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Compute the central interval that contains a new observation with a given probability.

        Args:
            level: The probability, strictly between 0 and 1; for counts the interval has at least this probability.

        Returns:
            The lower and the upper ends.

        Raises:
            ParameterError: If the level does not lie strictly between 0 and 1.
        """
        require(0 < level < 1, "level", level, "use a number between 0 and 1, such as 0.9")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


@dataclass(frozen=True)
class Regression(Mixture):
    """Prediction of a continuous target: a mixture of normals, one for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w.
        noise_variance: Var[y | w], broadcastable to ``samples``.
    """

    noise_variance: Tensor

    @property
    def aleatoric(self) -> Tensor:
        return self.noise_variance.expand(self.samples.shape).mean(0).sqrt()

    def without_output_dimension(self) -> Self:
        noise = self.noise_variance.expand(self.samples.shape)
        return replace(self, samples=self.samples.squeeze(-1), noise_variance=noise.squeeze(-1))

    def cdf(self, y: Tensor) -> Tensor:
        """Compute the predictive distribution function, whose values are uniform over rows if it is calibrated.

        Args:
            y: Values, broadcastable to (rows,) or (rows, outputs).

        Returns:
            P(new observation <= y), in float64, since float32 has no number between 1 - 6e-8 and 1.
        """
        samples = self.samples.double()
        deviation = self.noise_variance.double().sqrt().expand(samples.shape)
        # torch's ndtr is 1 + erf, which has no digits in the tail; erfc has all of them
        return 0.5 * torch.special.erfc((samples - y) / (math.sqrt(2) * deviation)).mean(0)

    def quantile(self, probability: float) -> Tensor:
        """Compute a quantile of the mixture of normals, to 1e-8 of the noise's standard deviation.

        The search takes Newton steps; a step that leaves the bracket, or is longer than half of the step before, is
        replaced by a bisection.

        Args:
            probability: The probability, strictly between 0 and 1.

        Returns:
            The quantile of each row and output.

        Raises:
            ParameterError: If the probability does not lie strictly between 0 and 1.
        """
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        samples = self.samples.double()
        deviation = self.noise_variance.double().sqrt().expand(samples.shape)
        width = math.sqrt(2) * deviation
        normal = float(torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)))
        reach = 1e-6 + abs(normal)
        low = (samples - reach * deviation).amin(0)
        high = (samples + reach * deviation).amax(0)
        enough = 1e-8 * deviation.amin(0)
        at = torch.clamp(self.mean.double() + normal * self.std.double(), low, high)
        before = high - low
        for _ in range(MOST_STEPS):
            z = (samples - at) / width
            excess = 0.5 * torch.special.erfc(z).mean(0) - probability
            below = excess < 0
            low, high = torch.where(below, at, low), torch.where(below, high, at)
            density = (torch.exp(-z.square()) / (math.sqrt(math.pi) * width)).mean(0)
            newton, middle = at - excess / density, (low + high) / 2
            fits = (newton >= low) & (newton <= high) & (2 * (newton - at).abs() <= before)  # not so where it is nan
            settled = before <= enough
            new = torch.where(settled, at, torch.where(fits, newton, middle))
            before, at = torch.where(settled, before, (new - at).abs()), new
            if bool(settled.all()):
                break
        return at.to(self.samples.dtype)

    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive density of each row, joint over its outputs.

        Args:
            y: Targets of the rows, in the shape of ``mean``. One that is NaN is not known, and counts nothing.

        Returns:
            The log densities, (rows,).

        Raises:
            DataError: If ``y`` has another shape.
        """
        variance = self.noise_variance.expand(self.samples.shape)
        target = like_draw(y, self.samples[0])
        terms = -0.5 * ((target - self.samples).square() / variance + torch.log(2 * math.pi * variance))
        return joint_log_prob(terms, target)


@dataclass(frozen=True)
class Classification(Prediction):
    """Prediction of a class.

    Attributes:
        samples: Class probabilities for each draw of the weights, (draws, rows, classes).
    """

    samples: Tensor

    @property
    def probs(self) -> Tensor:
        """Predictive probabilities, averaged over the draws."""
        return self.samples.mean(0)

    @property
    def mean(self) -> Tensor:
        """Predictive probabilities; the same as ``probs``."""
        return self.probs

    @property
    def label(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    def columns(self, level: float = 0.9) -> dict[str, Tensor]:
        """Compute the most probable class, the probability of each class and the entropy; there is no interval."""
        names = range(self.samples.shape[-1]) if self.labels is None else self.labels
        probs = {f"p({name})": self.probs[:, k] for k, name in enumerate(names)}
        return {"class": self.label, **probs, "entropy": self.entropy}

    @property
    def max_prob(self) -> Tensor:
        return self.probs.amax(-1)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the averaged probabilities: total uncertainty."""
        return torch.special.entr(self.probs).sum(-1)

    @property
    def aleatoric(self) -> Tensor:
        """Average entropy of the draws: the uncertainty that remains when the weights are known."""
        return torch.special.entr(self.samples).sum(-1).mean(0)

    @property
    def mutual_information(self) -> Tensor:
        """Entropy minus average entropy: how much the draws of the weights disagree."""
        return (self.entropy - self.aleatoric).clamp(min=0)

    epistemic = mutual_information

    @property
    def std(self) -> Tensor:
        """Standard deviation of each class probability under the posterior."""
        return self.samples.std(0, correction=0)

    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive probability of each row's class.

        Args:
            y: Class numbers, (rows,).

        Returns:
            The log probabilities, (rows,).

        Raises:
            DataError: If ``y`` has another number of rows or holds a class that the prediction does not have.
        """
        probs = self.probs
        target = like_draw(y, probs[:, :1])
        label = target.long()
        if bool(((label < 0) | (label >= probs.shape[1]) | (label != target)).any()):
            raise DataError(f"holds a class outside 0, ..., {probs.shape[1] - 1}", argument="y")
        return probs.gather(-1, label).squeeze(-1).clamp(min=torch.finfo(probs.dtype).tiny).log()


@dataclass(frozen=True)
class DirichletClassification(Classification):
    """Prediction of a class by a network whose output is a Dirichlet distribution of the class probabilities.

        p | w ~ Dirichlet(a),  S = sum_k a_k,  E[p_k | w] = a_k / S,  Var[p_k | w] = a_k (S - a_k) / (S^2 (S + 1))

    The spread of this distribution is epistemic uncertainty, as that of the weights is: ``std``, ``aleatoric`` and
    ``mutual_information`` are those of the mixture of the Dirichlet distributions over the draws. ``samples`` are their
    means, so ``probs`` and whatever uses probabilities alone need not know of them.

    Attributes:
        concentration: a for each draw of the weights, (draws, rows, classes).
    """

    samples: Tensor = field(init=False)
    concentration: Tensor

    def __post_init__(self) -> None:
        mean = self.concentration / self.concentration.sum(-1, keepdim=True)
        object.__setattr__(self, "samples", mean)  # frozen

    @property
    def strength(self) -> Tensor:
        """S, averaged over the draws: the number of observations whose evidence the prediction represents."""
        return self.concentration.sum(-1).mean(0)

    @property
    def vacuity(self) -> Tensor:
        """K / S for K classes, averaged over the draws: 1 where a network has no evidence beyond the uniform."""
        return (self.concentration.shape[-1] / self.concentration.sum(-1)).mean(0)

    @property
    def aleatoric(self) -> Tensor:
        """Expected entropy of p: psi(S + 1) - sum_k (a_k / S) psi(a_k + 1), averaged over the draws."""
        a = self.concentration.double()  # the difference may have few digits
        total = a.sum(-1, keepdim=True)
        entropy = (a / total * (torch.digamma(total + 1) - torch.digamma(a + 1))).sum(-1)
        return entropy.mean(0).to(self.samples.dtype)

    @property
    def std(self) -> Tensor:
        """Standard deviation of each class probability, by the law of total variance."""
        total = self.concentration.sum(-1, keepdim=True)
        within = self.samples * (1 - self.samples) / (total + 1)
        return torch.sqrt(within.mean(0) + self.samples.var(0, correction=0))

    @property
    def differential_entropy(self) -> Tensor:
        """Entropy of the Dirichlet distribution of p, averaged over the draws: at most -log (K - 1)!, if uniform."""
        a = self.concentration.double()
        total = a.sum(-1)
        log_beta = torch.lgamma(a).sum(-1) - torch.lgamma(total)
        slopes = (total - a.shape[-1]) * torch.digamma(total) - ((a - 1) * torch.digamma(a)).sum(-1)
        return (log_beta + slopes).mean(0).to(self.samples.dtype)


@dataclass(frozen=True)
class Counts(Mixture):
    """Prediction of a count: a mixture of Poisson distributions, one for each draw of the weights.

    Attributes:
        samples: Rate E[y | w] for each draw of the weights w.
    """

    is_discrete = True

    @property
    def aleatoric(self) -> Tensor:
        return self.mean.sqrt()

    def cdf(self, y: Tensor) -> Tensor:
        """Compute the predictive distribution function, a step at every count.

        Args:
            y: Values, broadcastable to (rows,) or (rows, outputs).

        Returns:
            P(new count <= y), in float64.
        """
        count = torch.floor(y.double().to(self.samples.device))
        below = torch.special.gammaincc(count.clamp(min=0) + 1, self.samples.double().clamp(max=MOST_COUNT / 8))
        return torch.where(count < 0, 0.0, below.mean(0))

    def without_output_dimension(self) -> Self:
        return replace(self, samples=self.samples.squeeze(-1))

    def quantile(self, probability: float) -> Tensor:
        """Compute the smallest count at which the distribution function reaches a given probability.

        Args:
            probability: The probability, strictly between 0 and 1.

        Returns:
            The count of each row and output.

        Raises:
            ParameterError: If the probability does not lie strictly between 0 and 1.
        """
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        rate = self.samples.double().clamp(max=MOST_COUNT / 8)
        high = torch.ceil(rate.amax(0) * 4 + 100)
        low = torch.full_like(high, -1.0)  # the distribution function at ``low`` is below the probability
        while bool((high - low > 1).any()):
            middle = torch.floor((low + high) / 2)
            reached = torch.special.gammaincc(middle.clamp(min=0) + 1, rate).mean(0) >= probability
            below = (middle < 0) | ~reached
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.to(self.samples.dtype)

    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive probability of each row, joint over its outputs.

        Args:
            y: Counts of the rows, in the shape of ``mean``. One that is NaN is not known, and counts nothing.

        Returns:
            The log probabilities, (rows,).

        Raises:
            DataError: If ``y`` has another shape.
        """
        y = like_draw(y, self.samples[0])
        terms = torch.special.xlogy(y, self.samples) - self.samples - torch.lgamma(y + 1)
        return joint_log_prob(terms, y)


def _of_output(value: Any, shape: torch.Size, output: int) -> Any:
    """Take one output of a part of a prediction: a tensor broadcastable to the samples, or another prediction."""
    if isinstance(value, Mixture):
        return value.of_output(output)
    return value.expand(shape)[..., output] if isinstance(value, Tensor) else value


def joint_log_prob(terms: Tensor, y: Tensor) -> Tensor:
    """Average the densities of draws, each the product over outputs with a known target.

    Args:
        terms: Log densities of each draw, row and output, (draws, rows) or (draws, rows, outputs).
        y: Targets, in the shape of a draw; those that are NaN are not known.

    Returns:
        The logarithms, (rows,); 0 for a row without a target.
    """
    terms = torch.where(y.isnan(), 0, terms)
    if terms.dim() > 2:
        terms = terms.flatten(2).sum(-1)
    return torch.logsumexp(terms, 0) - math.log(len(terms))


def like_draw(y: Tensor, row: Tensor) -> Tensor:
    """Bring targets to the shape and device of one draw; (rows,) and (rows, 1) count as the same shape."""
    y = y.to(row.device)
    if y.shape == row.shape:
        return y
    if y.dim() > 0 and y.numel() == row.numel() and len(y) == len(row):
        return y.reshape(row.shape)
    problem = ("has shape ", Value(tuple(y.shape)), f", the prediction {tuple(row.shape)}")
    raise DataError(problem, argument="y", fix="they must agree")
