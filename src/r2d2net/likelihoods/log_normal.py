"""Log-normal likelihood for positive, skewed targets: the network predicts the logarithm.

    log y | w ~ N(f(x), s^2),     p(y) = N(log y; f, s^2) / y

Targets are standardised as logarithms, on which everything is as with `Gaussian`: the same learnt variance, the same
exact samplers. Only predictions return to the user's units, by

    E[y | w] = exp(f + s^2 / 2),   Var[y | w] = (exp(s^2) - 1) E[y | w]^2.

The average of E[y | w] over the posterior need not exist: under heavy-tailed priors f may have tails heavier than
normal, and then E exp(f) is infinite: far from the data an average over draws would be that of a few of them. So

    mean                   median over the draws of E[y | w]
    standard deviation     that of the law of total variance, with the E[y | w] of a row outside the central 90% of its
                           draws moved to the ends of these 90%

Both exist for every posterior and need no bound. The mean lies inside the interval of 99.9% wherever s < 6.1: above it
is at least the share 1/2 Phi(-s / 2) of the mixture, and below it 1/4. What the mean varies by is not more than half of
the central 90% of its draws. Quantiles and densities are of the mixture itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, real_target
from r2d2net.likelihoods.gaussian import Gaussian
from r2d2net.prediction import Mixture, Regression, like_draw

CENTRAL = 0.9  # share of the draws whose means are taken as they are


@dataclass(frozen=True)
class LogRegression(Mixture):
    """Prediction of a positive target: a mixture of log-normal laws, one for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w; those outside the central 90% of a row's draws are the ends of
            these 90%.
        log: Prediction of the logarithm of the target.
    """

    samples: Tensor = field(init=False)
    log: Regression

    def __post_init__(self) -> None:
        log_mean = self.log.samples + self.log.noise_variance / 2
        object.__setattr__(self, "samples", _finite(central(log_mean).exp()))  # frozen

    @property
    def mean(self) -> Tensor:
        """Median over the draws of E[y | w]."""
        return self.samples.quantile(0.5, dim=0)

    @property
    def epistemic(self) -> Tensor:
        """Standard deviation of `samples`."""
        return self.samples.double().std(0, correction=0).to(self.samples.dtype)

    @property
    def aleatoric(self) -> Tensor:
        spread = torch.expm1(self.log.noise_variance.double()).expand(self.samples.shape)
        deviation = (spread * self.samples.double().square()).mean(0).sqrt()
        return _finite(deviation.to(self.samples.dtype))

    @property
    def std(self) -> Tensor:
        return _finite(super().std)

    def without_output_dimension(self) -> Self:
        return replace(self, log=self.log.without_output_dimension())

    def cdf(self, y: Tensor) -> Tensor:
        positive = y > 0
        return torch.where(positive, self.log.cdf(torch.where(positive, y, 1.0).log()), 0.0)

    def quantile(self, probability: float) -> Tensor:
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        return _finite(self.log.quantile(probability).exp())

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
        positive = target > 0
        log_y = torch.where(positive, target, 1.0).log()
        rows = len(target)
        density = self.log.log_prob(log_y) - log_y.reshape(rows, -1).sum(-1)
        return density.where(positive.reshape(rows, -1).all(-1), -torch.inf)


@dataclass(frozen=True)
class LogNormal(Gaussian):
    """Normal noise of the logarithm of positive targets, with one variance for each output.

    Args:
        noise: Standard deviation of log y, known and fixed; None (default) learns it.
    """

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
        return LogRegression(super().predict(outputs, noise, unit))


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


def _finite(values: Tensor) -> Tensor:
    """Return values above the largest number of their dtype as that number."""
    return values.clamp(max=torch.finfo(values.dtype).max)


NORMAL = (Gaussian, LogNormal)  # whose noise is normal on the network's scale: these classes, no subclass of theirs
