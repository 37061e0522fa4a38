"""Gaussian likelihoods for regression: learnt constant noise, or noise that the network predicts.

Gaussian:         y | w ~ N(f(x), s^2), s^2 a running mean of squared residuals of the sampled network
Heteroscedastic:  y | w ~ N(f(x), exp(h(x))), the network's second half of outputs being h
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, is_number, require
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, like_target, real_target, variance_over_rows
from r2d2net.prediction import Regression
from r2d2net.priors.base import positive_finite
from r2d2net.priors.half_cauchy_product import draw_inverse_gamma

LEAST_VARIANCE = 1e-6  # of standardised targets


@dataclass(frozen=True)
class Gaussian(Likelihood[Regression]):
    """Normal noise with one variance for each output.

    Args:
        noise: Standard deviation of the noise in the user's units, known and fixed; None (default) learns it.

    The maximum of the ELBO over s^2 is the mean of E_q (y - f)^2 over the data. A running mean of squared residuals
    under the sampled weights follows it without a learning rate of its own.

    HMC draws s^2 under the prior s ~ C+(0, 1), in units of the target as the network sees it. One that is not
    proper, such as 1 / s^2, would not do: where the network can pass through all targets the marginal likelihood of
    s^2 tends to a constant as s^2 falls to zero, so that the posterior would have infinite mass there.
    """

    noise: float | None = None
    standardizes = True
    takes_noise_by_row = True
    takes_missing = True

    def __post_init__(self) -> None:
        if self.noise is not None:
            require(
                is_number(self.noise) and 0 < self.noise < math.inf,
                "noise",
                self.noise,
                "use a positive number, or None to learn it",
            )

    @property
    def learns_noise(self) -> bool:
        return self.noise is None

    def target(self, y: Tensor) -> Tensor:
        return real_target(y, "a Gaussian likelihood")

    def outputs(self, y: Tensor) -> int | None:
        return y.shape[1]

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        if self.noise is None:
            return {"variance": y.new_full((y.shape[1],), 0.5)}
        known = y.new_full((y.shape[1],), self.noise)
        return {"variance": (known if unit is None else known / unit.scale).square()}

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        if self.noise is not None:
            return noise
        residual = (like_target(output, y) - y).square().mean(0)
        return {"variance": torch.lerp(noise["variance"], residual, rate).clamp(min=LEAST_VARIANCE)}

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        """s^2 | rest by way of the half-Cauchy's auxiliary variable a, which is forgotten at once:

        a | s^2 ~ IG(1, 1 + 1 / s^2),   s^2 | a, residuals ~ IG((1 + weight n) / 2, 1 / a + weight sum_i r_i^2 / 2)
        """
        if self.noise is not None:
            return noise
        squares = (like_target(output, y) - y).detach().double().square().sum(0)
        return self.drawn(weight * squares, weight * len(y), noise, generator)

    def drawn(self, squares: Tensor, count: float, noise: Noise, generator: torch.Generator | None) -> Noise:
        """Draw s^2 given sums of squared residuals.

        Args:
            squares: The sums, (outputs,), float64.
            count: Number of residuals in a sum.
            noise: The current variance.
            generator: Source of randomness; None for torch's global generator.

        Returns:
            The new variance.
        """
        old = noise["variance"]
        auxiliary = draw_inverse_gamma(1.0, 1 + 1 / old.double(), generator)
        new = draw_inverse_gamma((1 + count) / 2, 1 / auxiliary + squares / 2, generator)
        return {"variance": positive_finite(new.to(old.dtype))}

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        variance = noise["variance"]
        terms = (like_target(output, y) - y).square() / variance + torch.log(2 * math.pi * variance)
        return -0.5 * terms.sum(-1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Regression:
        return Regression(unit.center + unit.scale * outputs, noise["variance"].unsqueeze(-2) * unit.scale.square())

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        explained = variance_over_rows(outputs)
        return explained, noise["variance"].double().expand(explained.shape)


@dataclass(frozen=True)
class Heteroscedastic(Likelihood[Regression]):
    """Normal noise whose log variance is the second half of the network's outputs."""

    standardizes = True
    takes_missing = True

    def target(self, y: Tensor) -> Tensor:
        return real_target(y, "a heteroscedastic likelihood")

    def outputs(self, y: Tensor) -> int | None:
        return 2 * y.shape[1]

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        if output.shape != (y.shape[0], 2 * y.shape[1]):
            raise DataError(
                ("the network's output has shape ", Value(tuple(output.shape))),
                fix=f"a heteroscedastic likelihood needs {(y.shape[0], 2 * y.shape[1])}, means then log variances",
            )
        mean, log_variance = _halves(output)
        return -0.5 * ((mean - y).square() * torch.exp(-log_variance) + log_variance + math.log(2 * math.pi)).sum(-1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Regression:
        mean, log_variance = _halves(outputs)
        return Regression(unit.center + unit.scale * mean, torch.exp(log_variance) * unit.scale.square())

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        mean, log_variance = _halves(outputs)
        return variance_over_rows(mean), log_variance.double().exp().mean(1)


def _halves(output: Tensor) -> tuple[Tensor, Tensor]:
    """Means and log variances; the latter bounded so that one bad draw cannot overflow."""
    mean, log_variance = output.chunk(2, dim=-1)
    return mean, log_variance.clamp(math.log(LEAST_VARIANCE), 20.0)
