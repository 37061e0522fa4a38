"""What a posterior says of new data: the draws and every summary of them, in the user's units.

Draws stand first in every tensor: ``samples`` is (draws, rows, outputs), or (draws, rows) where the user's targets were
one-dimensional. The variance splits by the law of total variance,

    Var[y] = E[Var[y | w]] + Var[E[y | w]] = aleatoric^2 + epistemic^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from r2d2net.errors import require

BISECTIONS = 60


@dataclass(frozen=True)
class Regression:
    """Prediction of a continuous target: a mixture of normals, one for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w.
        noise_variance: Var[y | w], broadcastable to ``samples``.
    """

    samples: Tensor
    noise_variance: Tensor

    @property
    def mean(self) -> Tensor:
        return self.samples.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Standard deviation of the mean under the posterior: what more data would remove."""
        return self.samples.std(0, correction=0)

    @property
    def aleatoric(self) -> Tensor:
        """Standard deviation of the noise: what more data would not remove."""
        return self.noise_variance.expand(self.samples.shape).mean(0).sqrt()

    @property
    def std(self) -> Tensor:
        """Standard deviation of a new observation."""
        return torch.hypot(self.epistemic, self.aleatoric)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval that holds a new observation with this probability."""
        require(0 < level < 1, "level", level, "use a number between 0 and 1, such as 0.9")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def quantile(self, probability: float) -> Tensor:
        """Quantile of the mixture of normals, by bisection."""
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        deviation = self.noise_variance.sqrt().expand(self.samples.shape)
        reach = math.sqrt(2) * float(torch.erfinv(torch.tensor(2 * abs(probability - 0.5)).double())) + 1e-6
        low = (self.samples - reach * deviation).amin(0)
        high = (self.samples + reach * deviation).amax(0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            below = torch.special.ndtr((middle - self.samples) / deviation).mean(0) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def log_prob(self, y: Tensor) -> Tensor:
        """Log predictive density of each row, outputs taken together."""
        variance = self.noise_variance.expand(self.samples.shape)
        terms = -0.5 * ((y - self.samples).square() / variance + torch.log(2 * math.pi * variance))
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
        tiny = torch.finfo(self.samples.dtype).tiny
        return self.probs.gather(-1, y.long().unsqueeze(-1)).squeeze(-1).clamp(min=tiny).log()


@dataclass(frozen=True)
class Counts:
    """Prediction of a count: a mixture of Poisson laws; ``samples`` is the rate for each draw of the weights."""

    samples: Tensor

    @property
    def mean(self) -> Tensor:
        return self.samples.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Standard deviation of the rate under the posterior."""
        return self.samples.std(0, correction=0)

    @property
    def aleatoric(self) -> Tensor:
        """Standard deviation of the count at a known rate."""
        return self.mean.sqrt()

    @property
    def std(self) -> Tensor:
        return torch.hypot(self.epistemic, self.aleatoric)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Counts between which a new observation lies with at least this probability."""
        require(0 < level < 1, "level", level, "use a number between 0 and 1, such as 0.9")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def quantile(self, probability: float) -> Tensor:
        """The least count whose distribution function reaches the probability."""
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        low = torch.full_like(self.mean, -1.0)  # the distribution function at ``low`` is below the probability
        high = torch.ceil(self.samples.amax(0) * 4 + 100 + 10 * self.std)
        while bool((high - low > 1).any()):
            middle = torch.floor((low + high) / 2)
            below = torch.special.gammaincc(middle + 1, self.samples).mean(0) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high

    def log_prob(self, y: Tensor) -> Tensor:
        """Log predictive probability of each row, outputs taken together."""
        terms = torch.special.xlogy(y, self.samples) - self.samples - torch.lgamma(y + 1)
        if terms.dim() > 2:
            terms = terms.flatten(2).sum(-1)
        return torch.logsumexp(terms, 0) - math.log(len(terms))


Prediction = Regression | Classification | Counts
