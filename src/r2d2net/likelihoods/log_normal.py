"""Log-normal likelihood for positive, skewed targets: the network predicts the logarithm.

    log y | w ~ N(f(x), s^2),     p(y) = N(log y; f, s^2) / y

Targets are standardised as logarithms, on which everything is as with `Gaussian`: the same learnt variance, the same
exact samplers. Only predictions return to the user's units, by

    E[y | w] = exp(f + s^2 / 2),   Var[y | w] = (exp(s^2) - 1) E[y | w]^2.

The average of E[y | w] over the posterior need not exist: under heavy-tailed priors f may have tails heavier than
normal, and then E exp(f) is infinite: far outside the data an average over draws would be that of a few of them. So the
prediction's mean is the median of E[y | w] over the draws, each at most exp(m + 4 d) for training targets whose
logarithms have mean m and deviation d. Quantiles and densities are of the mixture itself.
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

DEVIATIONS = 4.0  # of the logarithms of the training targets above their mean: the largest mean that is predicted


@dataclass(frozen=True)
class LogRegression(Mixture):
    """Prediction of a positive target: a mixture of log-normal laws, one for each draw of the weights.

    Attributes:
        samples: E[y | w] for each draw of the weights w, at most ``largest``.
        log: Prediction of the logarithm of the target.
        largest: Bound of the samples, for each output or for all; by default there is none.
    """

    samples: Tensor = field(init=False)
    log: Regression
    largest: Tensor | None = None

    def __post_init__(self) -> None:
        mean = torch.exp(self.log.samples + self.log.noise_variance / 2)
        bounded = mean if self.largest is None else torch.minimum(mean, self.largest)
        object.__setattr__(self, "samples", bounded)  # frozen

    @property
    def mean(self) -> Tensor:
        """Median over the draws of E[y | w]."""
        return self.samples.quantile(0.5, dim=0)

    @property
    def aleatoric(self) -> Tensor:
        spread = torch.expm1(self.log.noise_variance).expand(self.samples.shape)
        return (spread * self.samples.square()).mean(0).sqrt()

    def without_output_dimension(self) -> Self:
        largest = None if self.largest is None else self.largest.squeeze(-1)
        return replace(self, log=self.log.without_output_dimension(), largest=largest)

    def cdf(self, y: Tensor) -> Tensor:
        positive = y > 0
        return torch.where(positive, self.log.cdf(torch.where(positive, y, 1.0).log()), 0.0)

    def quantile(self, probability: float) -> Tensor:
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        return self.log.quantile(probability).exp()

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
        return LogRegression(super().predict(outputs, noise, unit), largest_mean(unit))


def largest_mean(unit: Unit) -> Tensor:
    """Return the bound of E[y | w] for the units of log y: exp(centre + 4 scales), in units of y."""
    return torch.exp(unit.center + DEVIATIONS * unit.scale)


NORMAL = (Gaussian, LogNormal)  # whose noise is normal on the network's scale: these classes, no subclass of theirs
