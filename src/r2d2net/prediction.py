"""What a posterior says of new data: the draws and every summary of them, in the user's units.

Draws stand first in every tensor: ``samples`` is (draws, rows, outputs), or (draws, rows) where the user's targets were
one-dimensional. The variance splits by the law of total variance,

    Var[y] = E[Var[y | w]] + Var[E[y | w]] = aleatoric^2 + epistemic^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require

MOST_STEPS = 60
MOST_COUNT = 2.0**52  # beyond it float64 skips whole numbers


@dataclass(frozen=True)
class Mixture(ABC):
    """Prediction of a number: a mixture with one component for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w.
    """

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

    @abstractmethod
    def quantile(self, probability: float) -> Tensor:
        """The value that a new observation stays below with this probability."""

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval that holds a new observation with (for counts, at least) this probability."""
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

    def cdf(self, y: Tensor) -> Tensor:
        """Predictive distribution function at y, in float64, since float32 has no number between 1 - 6e-8 and 1.

        Over rows it is uniform where predictions are calibrated.
        """
        samples = self.samples.double()
        deviation = self.noise_variance.double().sqrt().expand(samples.shape)
        # torch's ndtr is 1 + erf, which has no digits in the tail; erfc has all of them
        return 0.5 * torch.special.erfc((samples - y) / (math.sqrt(2) * deviation)).mean(0)

    def quantile(self, probability: float) -> Tensor:
        """Quantile of the mixture of normals, to 1e-8 of the noise's deviation.

        By Newton's steps, but for those that leave the bracket or do not halve the one before: these bisect.
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
        """Log predictive density of each row, outputs taken together."""
        variance = self.noise_variance.expand(self.samples.shape)
        target = _like(y, self.samples[0])
        terms = -0.5 * ((target - self.samples).square() / variance + torch.log(2 * math.pi * variance))
        if terms.dim() > 2:
            terms = terms.flatten(2).sum(-1)
        return torch.logsumexp(terms, 0) - math.log(len(terms))


@dataclass(frozen=True)
class Classification:
    """Prediction of a class.

    Attributes:
        samples: Class probabilities for each draw of the weights, (draws, rows, classes).
    """

    samples: Tensor

    @property
    def probs(self) -> Tensor:
        """Predictive probabilities, averaged over the draws."""
        return self.samples.mean(0)

    mean = probs

    @property
    def label(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    @property
    def max_prob(self) -> Tensor:
        return self.probs.amax(-1)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the averaged probabilities: total uncertainty."""
        return torch.special.entr(self.probs).sum(-1)

    @property
    def aleatoric(self) -> Tensor:
        """Average entropy of the draws: uncertainty that the weights agree on."""
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
        """Log predictive probability of each row's class."""
        probs = self.probs
        target = _like(y, probs[:, :1])
        label = target.long()
        if bool(((label < 0) | (label >= probs.shape[1]) | (label != target)).any()):
            raise DataError(f"holds a class outside 0, ..., {probs.shape[1] - 1}", argument="y")
        return probs.gather(-1, label).squeeze(-1).clamp(min=torch.finfo(probs.dtype).tiny).log()


@dataclass(frozen=True)
class DirichletClassification(Classification):
    """Prediction of a class by a network that gives a Dirichlet law of the class probabilities.

        p | w ~ Dirichlet(a),  S = sum_k a_k,  E[p_k | w] = a_k / S,  Var[p_k | w] = a_k (S - a_k) / (S^2 (S + 1))

    Its uncertainty is epistemic as that of the weights is: ``std``, ``aleatoric`` and ``mutual_information`` are of the
    mixture of these laws over the draws. ``samples`` are their means, so ``probs`` and all that reads probabilities
    alone need not know of it.

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
        """S, averaged over the draws: how many observations the prediction is worth."""
        return self.concentration.sum(-1).mean(0)

    @property
    def vacuity(self) -> Tensor:
        """K / S for K classes, averaged over the draws: 1 where a network has no evidence beyond the uniform law."""
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
        """Entropy of the law of p itself, averaged over the draws: highest, -log (K - 1)!, where p is uniform."""
        a = self.concentration.double()
        total = a.sum(-1)
        log_beta = torch.lgamma(a).sum(-1) - torch.lgamma(total)
        slopes = (total - a.shape[-1]) * torch.digamma(total) - ((a - 1) * torch.digamma(a)).sum(-1)
        return (log_beta + slopes).mean(0).to(self.samples.dtype)


@dataclass(frozen=True)
class Counts(Mixture):
    """Prediction of a count: a mixture of Poisson laws; ``samples`` is the rate for each draw of the weights."""

    @property
    def aleatoric(self) -> Tensor:
        return self.mean.sqrt()

    def quantile(self, probability: float) -> Tensor:
        """The least count whose distribution function reaches the probability."""
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        rate = self.samples.double().clamp(max=MOST_COUNT / 8)
        high = torch.ceil(rate.amax(0) * 4 + 100)
        low = torch.full_like(high, -1.0)  # the distribution function at ``low`` is below the probability
        while bool((high - low > 1).any()):
            middle = torch.floor((low + high) / 2)
            below = torch.special.gammaincc(middle + 1, rate).mean(0) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.to(self.samples.dtype)

    def log_prob(self, y: Tensor) -> Tensor:
        """Log predictive probability of each row, outputs taken together."""
        y = _like(y, self.samples[0])
        terms = torch.special.xlogy(y, self.samples) - self.samples - torch.lgamma(y + 1)
        if terms.dim() > 2:
            terms = terms.flatten(2).sum(-1)
        return torch.logsumexp(terms, 0) - math.log(len(terms))


def _like(y: Tensor, row: Tensor) -> Tensor:
    """Targets in the shape and on the device of one draw: (rows,) and (rows, 1) are the same, others must agree."""
    y = y.to(row.device)
    if y.shape == row.shape:
        return y
    if y.dim() > 0 and y.numel() == row.numel() and len(y) == len(row):
        return y.reshape(row.shape)
    problem = ("has shape ", Value(tuple(y.shape)), f", the prediction {tuple(row.shape)}")
    raise DataError(problem, argument="y", fix="they must agree")


Prediction = Regression | Classification | Counts
