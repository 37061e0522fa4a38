"""Negative binomial likelihood: counts that vary more than Poisson's do.

    y | w ~ NB(mean m, concentration k),   log m = o + f(x),   Var[y | w] = m + m^2 / k
    p(y) = Gamma(y + k) / (Gamma(k) y!) (k / (k + m))^k (m / (k + m))^y

k is learnt; o is the log mean of the training counts, so that the network starts at the best constant. Chains draw k
given the outputs from a grid, even in log k from 0.02 to 10,000, under 1 / k ~ Exp(1); variational steps follow the
score of log k. As k grows the law becomes Poisson's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import require
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, like_target, variance_over_rows
from r2d2net.likelihoods.discrete import LARGEST_LOG_RATE, count_target, log_mean
from r2d2net.likelihoods.grid_draws import draw_from_grid
from r2d2net.likelihoods.reach import within_reach
from r2d2net.prediction import MOST_COUNT, Mixture, joint_log_prob, like_draw
from r2d2net.priors.latent_noise import count_noise

LEAST, MOST, GRID = 0.02, 1e4, 64  # of the concentration
FIRST = 2.0
GAIN, LONGEST = 3.0, 0.5  # of a step of log k, and the most that it moves


@dataclass(frozen=True)
class DispersedCounts(Mixture):
    """Prediction of a count: a mixture of negative binomial laws, one for each draw of the weights.

    Attributes:
        samples: Mean E[y | w] for each draw of the weights w.
        concentration: k of each law, broadcastable to ``samples``.
    """

    is_discrete = True

    concentration: Tensor

    @property
    def aleatoric(self) -> Tensor:
        return (self.samples + self.samples.square() / self.concentration).mean(0).sqrt()

    def without_output_dimension(self) -> Self:
        concentration = self.concentration.expand(self.samples.shape).squeeze(-1)
        return replace(self, samples=self.samples.squeeze(-1), concentration=concentration)

    def cdf(self, y: Tensor) -> Tensor:
        count = torch.floor(y.double().to(self.samples.device))
        mean, k = self._exact()
        return torch.where(count < 0, 0.0, _cdf(count.clamp(min=0), mean, k).mean(0))

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
        mean, k = self._exact()
        high = torch.ceil(mean.amax(0) * 2 + 10)
        low = torch.full_like(high, -1.0)  # the distribution function at ``low`` is below the probability
        while bool((short := (_cdf(high, mean, k).mean(0) < probability) & (high < MOST_COUNT)).any()):
            low, high = torch.where(short, high, low), torch.where(short, 2 * high, high)
        while bool((high - low > 1).any()):
            middle = torch.floor((low + high) / 2)
            below = (middle < 0) | (_cdf(middle.clamp(min=0), mean, k).mean(0) < probability)
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
        terms = _log_prob(y, self.samples.log(), self.concentration.expand(self.samples.shape))
        return joint_log_prob(terms, y)

    def _exact(self) -> tuple[Tensor, Tensor]:
        mean = self.samples.double().clamp(max=MOST_COUNT / 8)
        return mean, self.concentration.double().expand(mean.shape)


@dataclass(frozen=True)
class NegativeBinomial(Likelihood[DispersedCounts]):
    """y is a count; the network gives the log mean, but for that of the training counts; the dispersion is learnt.

    The learnt parameters are ``concentration``, k, and ``offset``, o.
    """

    takes_noise_by_row = True
    takes_missing = True

    def target(self, y: Tensor) -> Tensor:
        return count_target(y, "a negative binomial likelihood")

    def outputs(self, y: Tensor) -> int | None:
        return y.shape[1]

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        return {"concentration": y.new_full((y.shape[1],), FIRST), "offset": log_mean(y)}

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        k = noise["concentration"]
        mean = _mean(output, y, noise).exp()
        score = torch.digamma(y + k) - torch.digamma(k) - torch.log1p(mean / k) + (mean - y) / (k + mean)
        step = (rate * GAIN * (k * score).mean(0)).clamp(-LONGEST, LONGEST)
        return {**noise, "concentration": (k * step.exp()).clamp(LEAST, MOST)}

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        eta, counts = _mean(output, y, noise).detach().double(), y.double()
        grid = torch.logspace(math.log10(LEAST), math.log10(MOST), GRID, dtype=torch.float64, device=y.device)
        fit = torch.stack([_log_prob(counts, eta, k).sum(0) for k in grid])
        log_prior = -grid.log() - 1 / grid  # of 1 / k ~ Exp(1), as a density of log k
        drawn = draw_from_grid(grid, weight * fit + log_prior.unsqueeze(1), generator)
        return {**noise, "concentration": drawn.to(noise["concentration"].dtype)}

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        return _log_prob(y, _mean(output, y, noise), noise["concentration"]).sum(-1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> DispersedCounts:
        eta = (noise["offset"].unsqueeze(-2) + within_reach(outputs)).clamp(max=LARGEST_LOG_RATE)
        return DispersedCounts(eta.exp(), noise["concentration"].unsqueeze(-2))

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        eta = (noise["offset"].unsqueeze(-2) + outputs).clamp(max=LARGEST_LOG_RATE)
        return variance_over_rows(outputs), count_noise(eta.double().exp().mean(1), noise["concentration"].double())


def _mean(output: Tensor, y: Tensor, noise: Noise) -> Tensor:
    """Return the log mean of each row."""
    return (noise["offset"] + like_target(output, y)).clamp(max=LARGEST_LOG_RATE)


def _log_prob(y: Tensor, eta: Tensor, k: Tensor) -> Tensor:
    """Return the log probability of counts by log mean and concentration."""
    log_k = k.log()
    log_sum = torch.logaddexp(log_k.expand(eta.shape), eta)
    chosen = torch.lgamma(y + k) - torch.lgamma(k) - torch.lgamma(y + 1)
    return chosen + k * (log_k - log_sum) + y * (eta - log_sum)


def _cdf(count: Tensor, mean: Tensor, k: Tensor) -> Tensor:
    from scipy.special import betainc  # torch has no incomplete beta function

    share = (k / (k + mean)).cpu().numpy()
    return torch.from_numpy(np.asarray(betainc(k.cpu().numpy(), count.cpu().numpy() + 1, share))).to(mean.device)
