"""Log-normal likelihood for positive, skewed targets: the network predicts the logarithm.

    log y | w ~ N(f(x), s^2),     p(y) = N(log y; f, s^2) / y

Targets are standardised as logarithms, on which everything is as with `Gaussian`: the same learnt variance, the same
exact samplers. Only predictions return to the user's units, by

    E[y | w] = exp(f + s^2 / 2),   Var[y | w] = (exp(s^2) - 1) E[y | w]^2.

The average of E[y | w] over the posterior need not exist: under heavy-tailed priors f may have tails heavier than
normal, and then E exp(f) is infinite: far from the data an average over draws would be that of a few of them. So

    mean                   median over the draws of E[y | w], with f at most log(max y) + s of the training targets y;
                           where the 90% interval begins above that, its lower end, up to 3 max y
    standard deviation     that of the law of total variance, with the E[y | w] of a row outside the central 90% of its
                           draws moved to the ends of these 90%

Both exist for every posterior. Without the bound a straight line of the logarithm predicts ten times the largest target
at a row far from the data, and one such row decides the squared error of all. The bound is in means alone: deviations,
quantiles and densities are of the mixture itself, and a row whose f stays below it has the mean that it has without.

Unless the posterior is sure (95%) of more than 3 max y, the mean lies inside the interval of 99.9% wherever s < 6.1:
above it is at least the share 1/2 Phi(-s / 2) of the mixture, and below it 1/4, or 1/20 at the lower end. What the
deviation takes for the spread of the means is not more than half of the central 90% of their draws.

Draws of f more than 20 deviations of the training logarithms from their mean, or twice as far as the largest of these,
say nothing of y (`reach`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Self

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, real_target
from r2d2net.likelihoods.gaussian import Gaussian
from r2d2net.likelihoods.reach import FARTHEST, LARGEST, within_reach
from r2d2net.prediction import Mixture, Regression, like_draw

CENTRAL = 0.9  # share of the draws whose means are taken as they are
WIDER = 1.0  # standard deviations of the noise above the largest training target, the most that f is in a mean
LOWEST = 0.05  # probability of less than the lowest mean where it is bounded
Z_LOWEST = NormalDist().inv_cdf(LOWEST)
TIMES = 3.0  # largest multiple of the largest training target to which that may lift a mean


@dataclass(frozen=True)
class LogRegression(Mixture):
    """Prediction of a positive target: a mixture of log-normal laws, one for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w, with f at most ``most`` + s; those outside the central 90% of
            a row's draws are the ends of these 90%.
        log: Prediction of the logarithm of the target.
        most: Largest logarithm of the training targets, broadcastable to a row's outputs; None for no bound.
    """

    samples: Tensor = field(init=False)
    log: Regression
    most: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", _finite(self._log_means(self.most).exp()))  # frozen

    def _log_means(self, most: Tensor | None) -> Tensor:
        """Return log E[y | w] of the central draws, with f at most ``most`` + s."""
        f, variance = self.log.samples, self.log.noise_variance
        if most is not None:
            f = torch.minimum(f, (most + WIDER * variance.sqrt()).to(f.dtype))
        return central(f + variance / 2)

    @property
    def mean(self) -> Tensor:
        """Median over the draws of E[y | w], bounded far outside the training rows (see the module)."""
        median = self.samples.quantile(0.5, dim=0)
        if self.most is None:
            return median
        if len(self.samples) == 1:  # in closed form, which exporters can follow
            return self._mean_of_one(self.most)
        free = _finite(self._log_means(None).exp()).quantile(0.5, dim=0)
        bounded = (free > median).reshape(len(median), -1).any(1).nonzero()[:, 0]
        if len(bounded) == 0:
            return median
        largest = _finite(TIMES * self.most.exp(), median.dtype).expand(self.samples.shape)[0, bounded]
        floor = torch.minimum(self[bounded].quantile(LOWEST), largest)
        median[bounded] = torch.maximum(median[bounded], torch.minimum(free[bounded], floor))
        return median

    def _mean_of_one(self, most: Tensor) -> Tensor:
        """Return the mean of one draw, whose quantiles are those of one log-normal law."""
        f = self.log.samples[0]
        deviation = self.log.noise_variance.expand(self.log.samples.shape)[0].sqrt()
        below = (f + Z_LOWEST * deviation).exp()
        floor = torch.minimum(_finite(below), _finite(TIMES * most.exp(), f.dtype))
        free = _finite((f + deviation.square() / 2).exp())
        return torch.maximum(self.samples[0], torch.minimum(free, floor))

    @property
    def epistemic(self) -> Tensor:
        """Standard deviation of E[y | w] over the central draws, without the bound."""
        log_means = self._log_means(None).double()
        largest = log_means.amax(0)
        relative = (log_means - largest).exp().std(0, correction=0)  # of means in units of the largest: no overflow
        return _finite((largest + relative.log()).exp(), self.samples.dtype)

    @property
    def aleatoric(self) -> Tensor:
        log_means, variance = self._log_means(None).double(), self.log.noise_variance.double()
        largest = log_means.amax(0)
        relative = (torch.expm1(variance) * (2 * (log_means - largest)).exp()).mean(0)
        return _finite((largest + relative.log() / 2).exp(), self.samples.dtype)

    @property
    def std(self) -> Tensor:
        return _finite(super().std)

    def without_output_dimension(self) -> Self:
        most = None if self.most is None else self.most.squeeze(-1)
        return replace(self, log=self.log.without_output_dimension(), most=most)

    def cdf(self, y: Tensor) -> Tensor:
        positive = y > 0
        return torch.where(positive, self.log.cdf(torch.where(positive, y, 1.0).log()), 0.0)

    def quantile(self, probability: float) -> Tensor:
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        return _finite(self.log.quantile(probability).exp())

    def log_prob(self, y: Tensor) -> Tensor:
        """Compute the log predictive density of each row, joint over its outputs.

        Args:
            y: Targets of the rows, in the shape of ``mean``. One that is NaN is not known, and counts nothing.

        Returns:
            The log densities, (rows,); minus infinity where a target is not positive.

        Raises:
            DataError: If ``y`` has another shape.
        """
        target = like_draw(y, self.samples[0])
        positive = ~(target <= 0)  # or NaN
        log_y = torch.where(positive, target, 1.0).log()
        rows = len(target)
        density = self.log.log_prob(log_y) - log_y.reshape(rows, -1).nansum(-1)
        return density.where(positive.reshape(rows, -1).all(-1), -torch.inf)


@dataclass(frozen=True)
class LogNormal(Gaussian):
    """Normal noise of the logarithm of positive targets, with one variance for each output.

    Args:
        noise: Standard deviation of log y, known and fixed; None (default) learns it.
    """

    bounds_mean = True

    def target(self, y: Tensor) -> Tensor:
        real = real_target(y, "a log-normal likelihood")
        if bool((real <= 0).any()):
            problem = ("holds ", Value(real[real <= 0].flatten()[0].item()))
            raise DataError(problem, argument="y", fix="a log-normal likelihood needs numbers above 0")
        return real

    def network_scale(self, y: Tensor) -> Tensor:
        return y.log()

    def log_slope(self, y: Tensor) -> Tensor:
        return -y.double().log().sum(-1)

    def on_network_scale(self) -> Likelihood[Any]:
        return Gaussian(self.noise)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> LogRegression:  # type: ignore[override]
        if unit.most is not None:
            largest = ((unit.most - unit.center) / unit.scale).abs()
            reach = (2 * largest).clamp(min=FARTHEST).to(outputs.dtype)
            outputs = within_reach(outputs, reach, torch.maximum(reach, (LARGEST / unit.scale).to(outputs.dtype)))
        return LogRegression(super().predict(outputs, noise, unit), unit.most)


def central(values: Tensor) -> Tensor:
    """Move the draws of each row outside the central 90% to the ends of these (winsorise them).

    Args:
        values: Values of the draws, (draws, ...).

    Returns:
        The values, as many as before; of up to 20 draws all are as they were.

    >>> central(torch.arange(40.0)).unique().tolist()[:3], central(torch.tensor([1.0, 1e9])).tolist()
    ([1.0, 2.0, 3.0], [1.0, 1000000000.0])
    """
    outside = int((1 - CENTRAL) / 2 * (len(values) - 1) + 1e-9)
    if outside == 0:
        return values
    ordered = values.sort(0).values
    return torch.minimum(torch.maximum(values, ordered[outside]), ordered[-1 - outside])


def _finite(values: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Convert to a dtype, by default that of the values; those above its largest number are that number."""
    dtype = values.dtype if dtype is None else dtype
    return values.clamp(max=torch.finfo(dtype).max).to(dtype)


NORMAL = (Gaussian, LogNormal)  # whose noise is normal on the network's scale: these classes, no subclass of theirs
