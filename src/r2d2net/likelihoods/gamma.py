"""Gamma likelihood: positive amounts whose deviation is in proportion to their mean.

    y | w ~ Gamma(shape k, mean m),   log m = o + f(x),   Var[y | w] = m^2 / k
    log p(y) = k log k - k - log Gamma(k) - log y + k (u - (e^u - 1)),      u = log y - log m

k is learnt; o is the log mean of the training targets, so that the network starts at the best constant. Given the
outputs all that the rows say of k is D = mean(e^u - 1 - u): the maximum of the likelihood solves

    log k - digamma(k) = D.

A variational step moves log k - digamma(k) towards the D of its batch, a running mean with no step size of its own.
Chains draw k from a grid, even in log k from 0.02 to 10,000, under 1 / k ~ Exp(1). k = 1 is the exponential law; as k
grows the law becomes the log-normal one with s^2 = 1 / k. Beside that law it has less weight far above the mean, and
more close to zero.

As with `LogNormal`, averages of exp(f) over a posterior with heavy tails need not exist, and straight lines of log m
are not to be believed far outside the training rows. So E[y | w] of a row outside the central 90% of its draws is moved
to the ends of these 90% in means and deviations, and is at most three times the largest training target in means.
Densities and quantiles are of the mixture itself, of draws within reach (`reach`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, like_target, real_target, variance_over_rows
from r2d2net.likelihoods.grid_draws import draw_from_grid
from r2d2net.likelihoods.log_normal import TIMES, central
from r2d2net.likelihoods.reach import FARTHEST, within_reach
from r2d2net.prediction import MOST_STEPS, Mixture, like_draw

LEAST, MOST, GRID = 0.02, 1e4, 512  # of the shape k
FIRST = 2.0
LEAST_SPREAD = 1 / (2 * MOST)  # of D, about 1 / 2k
NEWTON = 20  # steps to the shape: each doubles the digits, from two on


@dataclass(frozen=True)
class PositiveAmounts(Mixture):
    """Prediction of a positive target: a mixture of gamma laws, one for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w, at most three times the largest training target; those outside
            the central 90% of a row's draws are the ends of these 90%.
        log_mean: log E[y | w] for each draw.
        shape: k of each law, broadcastable to ``samples``.
        most: Largest training target, broadcastable to a row's outputs; None for no bound.
    """

    samples: Tensor = field(init=False)
    log_mean: Tensor
    shape: Tensor
    most: Tensor | None = None

    def __post_init__(self) -> None:
        means = _finite(central(self.log_mean).exp())
        if self.most is not None:
            means = torch.minimum(means, (TIMES * self.most).to(means.dtype))
        object.__setattr__(self, "samples", means)  # frozen

    @property
    def epistemic(self) -> Tensor:
        """Standard deviation of E[y | w] over the central draws, without the bound."""
        return _finite(central(self.log_mean).double().exp().std(0, correction=0), self.samples.dtype)

    @property
    def aleatoric(self) -> Tensor:
        squares = (2 * central(self.log_mean).double()).exp()
        return _finite((squares / self.shape.double()).mean(0).sqrt(), self.samples.dtype)

    @property
    def std(self) -> Tensor:
        return _finite(super().std)

    def without_output_dimension(self) -> Self:
        shape = self.shape.expand(self.log_mean.shape).squeeze(-1)
        most = None if self.most is None else self.most.squeeze(-1)
        return replace(self, log_mean=self.log_mean.squeeze(-1), shape=shape, most=most)

    def cdf(self, y: Tensor) -> Tensor:
        log_mean, shape = self._exact()
        y = y.double().to(log_mean.device)
        return torch.where(y > 0, _cdf(y.clamp(min=0), log_mean, shape).mean(0), 0.0)

    def quantile(self, probability: float) -> Tensor:
        """Compute a quantile by bisection of its logarithm, to 1e-7 of the quantile.

        Args:
            probability: The probability, strictly between 0 and 1.

        Returns:
            The quantile of each row and output, above 0.

        Raises:
            ParameterError: If the probability does not lie strictly between 0 and 1.
        """
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        log_mean, shape = self._exact()
        own = log_mean + _log_quantile(probability, shape)  # of each component: the mixture's lies between them
        low, high = own.amin(0), own.amax(0)
        for _ in range(MOST_STEPS):
            if bool((high - low <= 1e-7).all()):
                break
            middle = (low + high) / 2
            below = _cdf(middle.exp(), log_mean, shape).mean(0) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return _finite(((low + high) / 2).exp(), self.samples.dtype)

    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive density of each row, joint over its outputs.

        Args:
            y: Targets of the rows, in the shape of ``mean``.

        Returns:
            The log densities, (rows,); minus infinity where a target is not positive.

        Raises:
            DataError: If ``y`` has another shape.
        """
        target = like_draw(y, self.samples[0])
        positive = ~(target <= 0)  # NaN is no target, and counts nothing
        amount = torch.where(target > 0, target, 1.0)
        terms = log_density(amount, self.log_mean, self.shape.expand(self.log_mean.shape)).where(~target.isnan(), 0)
        if terms.dim() > 2:
            terms = terms.flatten(2).sum(-1)
        density = torch.logsumexp(terms, 0) - math.log(len(terms))
        return density.where(positive.reshape(len(target), -1).all(-1), -torch.inf)

    def _exact(self) -> tuple[Tensor, Tensor]:
        log_mean = self.log_mean.double()
        return log_mean, self.shape.double().expand(log_mean.shape)


@dataclass(frozen=True)
class Gamma(Likelihood[PositiveAmounts]):
    """y is a positive amount; the network gives the log mean, but for that of the training targets.

    The learnt parameters are ``shape``, k, and ``offset``, o.
    """

    takes_noise_by_row = True
    bounds_mean = True

    def target(self, y: Tensor) -> Tensor:
        real = real_target(y, "a gamma likelihood")
        if bool((real <= 0).any()):
            problem = ("holds ", Value(real[real <= 0].flatten()[0].item()))
            raise DataError(problem, argument="y", fix="a gamma likelihood needs numbers above 0")
        return real

    def outputs(self, y: Tensor) -> int | None:
        return y.shape[1]

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        return {"shape": y.new_full((y.shape[1],), FIRST), "offset": y.double().mean(0).log().to(y.dtype)}

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        u = y.log() - _log_mean(output, y, noise)
        seen, k = (torch.expm1(u) - u).mean(0).double(), noise["shape"].double()
        spread = torch.lerp(k.log() - torch.digamma(k), seen, rate)
        return {**noise, "shape": noise["shape"] if rate == 0 else _shape_of(spread).to(noise["shape"].dtype)}

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        u = (y.log() - _log_mean(output, y, noise)).detach().double()
        spread = (torch.expm1(u) - u).sum(0)
        k = torch.logspace(math.log10(LEAST), math.log10(MOST), GRID, dtype=torch.float64, device=y.device)
        fit = len(y) * _constant(k).unsqueeze(1) - k.unsqueeze(1) * spread
        log_prior = -k.log() - 1 / k  # of 1 / k ~ Exp(1), as a density of log k
        drawn = draw_from_grid(k, weight * fit + log_prior.unsqueeze(1), generator)
        return {**noise, "shape": drawn.to(noise["shape"].dtype)}

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        return log_density(y, _log_mean(output, y, noise), noise["shape"]).sum(-1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> PositiveAmounts:
        log_mean = noise["offset"].unsqueeze(-2) + within_reach(outputs)
        return PositiveAmounts(log_mean, noise["shape"].unsqueeze(-2), unit.most)

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        explained = variance_over_rows(outputs)
        return explained, torch.log1p(1 / noise["shape"].double()).expand(explained.shape)


def log_density(y: Tensor, log_mean: Tensor, shape: Tensor) -> Tensor:
    """Compute the log density of a gamma law.

    Args:
        y: Positive targets.
        log_mean: Log mean of each law.
        shape: k of each law.

    Returns:
        The log densities, in the broadcast shape.
    """
    log_y = y.log()
    u = log_y - log_mean
    return _constant(shape) - log_y + shape * (u - torch.expm1(u))


def _constant(shape: Tensor) -> Tensor:
    """Return k log k - k - log Gamma(k), in float64 inside: the terms cancel for large k."""
    k = shape.double()
    return (k * k.log() - k - torch.lgamma(k)).to(shape.dtype)


def _log_mean(output: Tensor, y: Tensor, noise: Noise) -> Tensor:
    """Return the log mean of each row."""
    return noise["offset"] + like_target(output, y).clamp(-FARTHEST, FARTHEST)


def _shape_of(spread: Tensor) -> Tensor:
    """Solve log k - digamma(k) = D by Newton steps in log k, from Minka's (2002) approximation."""
    d = spread.clamp(min=LEAST_SPREAD)
    k = (3 - d + ((d - 3).square() + 24 * d).sqrt()) / (12 * d)
    for _ in range(NEWTON):
        slope = 1 - k * torch.polygamma(1, k)
        k = (k * (-(k.log() - torch.digamma(k) - d) / slope).clamp(-1, 1).exp()).clamp(LEAST, MOST)
    return k


def _cdf(y: Tensor, log_mean: Tensor, shape: Tensor) -> Tensor:
    scaled = shape * (y.log() - log_mean).exp()
    return torch.special.gammainc(shape, scaled)


def _log_quantile(probability: float, shape: Tensor) -> Tensor:
    """Return the log quantile of a law of mean 1 for each shape, of which there are few different ones."""
    from scipy.special import gammaincinv, gammaln

    values, place = shape.unique(return_inverse=True)
    k = values.cpu().numpy()
    with np.errstate(divide="ignore"):
        found = np.log(gammaincinv(k, probability))
    # P(k, x) is x^k / Gamma(k + 1) at x so small that it underflows
    found = np.where(np.isfinite(found), found, (math.log(probability) + gammaln(k + 1)) / k)
    return torch.from_numpy(np.asarray(found - np.log(k))).to(shape.device)[place]


def _finite(values: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Convert to a dtype, by default that of the values; no number is 0 or beyond the largest one."""
    dtype = values.dtype if dtype is None else dtype
    limits = torch.finfo(dtype)
    return values.clamp(limits.tiny, limits.max).to(dtype)
