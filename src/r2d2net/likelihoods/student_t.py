"""Student's t likelihood: regression that a few wild targets do not ruin.

    y | w ~ f(x) + s t_nu,     s ~ C+(0, 1),     p(nu) ~ nu exp(-nu / 10) on a grid of nu from 2.1 to 60

Scale s and degrees of freedom nu are learnt. The prior of nu is Juarez and Steel's (2010); below 2.1 the variance of a
new observation would be infinite, or nearly so. A chain draws, with r the residuals and z = r^2 / s^2,

    nu | s, r           on its grid, from the t densities
    u_i | nu, s, r      ~ Gamma((nu + 1) / 2, 1 + z_i / nu)                     forgotten at once
    s^2 | u, nu, r      ~ IG((1 + n) / 2, 1 / a + sum_i u_i r_i^2 / nu),        a as in `Gaussian.gibbs`

which leaves p(nu, s | r) invariant: the first two are one draw of (nu, u) given s. A variational step follows s^2 by
the running mean of (nu + 1) / (nu + z) r^2, whose fixed point is the maximum of the likelihood, and log nu by its
score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from r2d2net.distributions.primitives import standard_gamma
from r2d2net.errors import require
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, like_target, real_target, variance_over_rows
from r2d2net.likelihoods.gaussian import LEAST_VARIANCE
from r2d2net.likelihoods.grid_draws import draw_from_grid
from r2d2net.prediction import MOST_STEPS, Mixture, joint_log_prob, like_draw
from r2d2net.priors.base import positive_finite
from r2d2net.priors.half_cauchy_product import draw_inverse_gamma

LEAST_DF, MOST_DF, GRID = 2.1, 60.0, 48
FIRST_DF = 6.0
GAIN, LONGEST = 5.0, 0.5  # of a step of log nu: about one over its information at nu = 4; most that it moves
TOLERANCE = 1e-7  # of a quantile, in units of the noise's scale
CHUNK = 1 << 20  # log densities that are computed at a time


@dataclass(frozen=True)
class HeavyTailed(Mixture):
    """Prediction of a continuous target: a mixture of Student's t laws, one for each draw of the weights.

    Attributes:
        samples: E[y | w], the centre, for each draw of the weights w.
        scale: Scale of each law, broadcastable to ``samples``.
        df: Its degrees of freedom, above 2, broadcastable to ``samples``.
    """

    scale: Tensor
    df: Tensor

    @property
    def aleatoric(self) -> Tensor:
        variance = self.scale.square() * self.df / (self.df - 2)
        return variance.expand(self.samples.shape).mean(0).sqrt()

    def without_output_dimension(self) -> Self:
        scale, df = (part.expand(self.samples.shape).squeeze(-1) for part in (self.scale, self.df))
        return replace(self, samples=self.samples.squeeze(-1), scale=scale, df=df)

    def cdf(self, y: Tensor) -> Tensor:
        samples, scale, df = self._exact()
        return _t_cdf((y.to(samples.device) - samples) / scale, df).mean(0)

    def quantile(self, probability: float) -> Tensor:
        """Compute a quantile by Newton steps inside a bracket, to 1e-7 of the noise's scale.

        Args:
            probability: The probability, strictly between 0 and 1.

        Returns:
            The quantile of each row and output.

        Raises:
            ParameterError: If the probability does not lie strictly between 0 and 1.
        """
        require(0 < probability < 1, "probability", probability, "use a number between 0 and 1")
        samples, scale, df = self._exact()
        own = samples + scale * _t_quantile(probability, df)  # of each component: the mixture's lies between them
        low, high = own.amin(0), own.amax(0)
        at, enough = own.mean(0).clamp(low, high), TOLERANCE * scale.amin(0)
        constant = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * torch.log(math.pi * df) - scale.log()
        for _ in range(MOST_STEPS):
            z = (at - samples) / scale
            excess = _t_cdf(z, df).mean(0) - probability
            low, high = torch.where(excess < 0, at, low), torch.where(excess < 0, high, at)
            density = torch.exp(constant - (df + 1) / 2 * torch.log1p(z.square() / df)).mean(0)
            newton = at - excess / density
            inside = (newton > low) & (newton < high)
            new = torch.where(inside, newton, (low + high) / 2)
            settled = bool(((new - at).abs() <= enough).all())
            at = new
            if settled:
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
        target = like_draw(y, self.samples[0])
        scale, df = self.scale.expand(self.samples.shape), self.df.expand(self.samples.shape)
        terms = log_density((target - self.samples).square(), scale.square(), df)
        return joint_log_prob(terms, target)

    def _exact(self) -> tuple[Tensor, Tensor, Tensor]:
        samples = self.samples.double()
        return samples, self.scale.double().expand(samples.shape), self.df.double().expand(samples.shape)


@dataclass(frozen=True)
class StudentT(Likelihood[HeavyTailed]):
    """Student's t noise with learnt scale and degrees of freedom for each output.

    The learnt parameters are ``variance``, the squared scale s^2 (the variance of the noise is s^2 nu / (nu - 2)), and
    ``df``, the degrees of freedom nu.
    """

    standardizes = True
    takes_noise_by_row = True
    takes_missing = True

    def target(self, y: Tensor) -> Tensor:
        return real_target(y, "a Student's t likelihood")

    def outputs(self, y: Tensor) -> int | None:
        return y.shape[1]

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        return {"variance": y.new_full((y.shape[1],), 0.3), "df": y.new_full((y.shape[1],), FIRST_DF)}

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        return follow((like_target(output, y) - y).square(), noise, rate)

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        """Draw degrees of freedom and scale as the head of this file says.

        A likelihood raised to the power ``weight`` is a mixture of the same kind, u ~ Gamma(weight (nu + 1) / 2, ...).

        Args:
            output: Output of the network for all rows, (rows, width).
            y: Converted targets of the rows.
            noise: Current values of the learnt parameters.
            generator: Source of randomness; None for torch's global generator.
            weight: Power to which the likelihood is raised.

        Returns:
            The new values.
        """
        old = noise["variance"]
        variance = old.double()
        squares = (like_target(output, y) - y).detach().double().square()  # (rows, outputs)
        grid = torch.logspace(math.log10(LEAST_DF), math.log10(MOST_DF), GRID, dtype=torch.float64, device=y.device)
        at_once = max(1, CHUNK // max(1, squares.numel()))
        fit = torch.cat([_log_densities(squares, variance, part) for part in grid.split(at_once)])
        log_prior = 2 * grid.log() - grid / 10  # of nu, times nu: the grid is even in log nu
        df = draw_from_grid(grid, weight * fit + log_prior.unsqueeze(1), generator)
        shape = (weight * (df + 1) / 2).expand(squares.shape).contiguous()
        u = standard_gamma(shape, generator) / (1 + squares / (df * variance))
        auxiliary = draw_inverse_gamma(1.0, 1 + 1 / variance, generator)
        rate = 1 / auxiliary + (u * squares).sum(0) / df
        new = draw_inverse_gamma((1 + weight * len(y)) / 2, rate, generator)
        return {"variance": positive_finite(new.to(old.dtype)), "df": df.to(noise["df"].dtype)}

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        squares = (like_target(output, y) - y).square()
        return log_density(squares, noise["variance"], noise["df"]).sum(-1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> HeavyTailed:
        scale, df = noise["variance"].sqrt().unsqueeze(-2) * unit.scale, noise["df"].unsqueeze(-2)
        return HeavyTailed(unit.center + unit.scale * outputs, scale, df)

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        explained, df = variance_over_rows(outputs), noise["df"].double()
        return explained, (noise["variance"].double() * df / (df - 2)).expand(explained.shape)


def follow(squares: Tensor, noise: Noise, rate: float) -> Noise:
    """Move scale and degrees of freedom towards what the residuals of a batch say.

    Args:
        squares: Squared residuals, (..., rows, outputs).
        noise: Both, (..., outputs).
        rate: Weight of the batch.

    Returns:
        The new values.
    """
    variance, df = (noise[name].unsqueeze(-2) for name in ("variance", "df"))
    z = squares / variance
    renewed = ((df + 1) / (df + z) * squares).mean(-2)
    slope = torch.digamma((df + 1) / 2) - torch.digamma(df / 2) - 1 / df
    score = 0.5 * (slope - torch.log1p(z / df) + (df + 1) * z / (df * (df + z)))
    step = (rate * GAIN * (df * score).mean(-2)).clamp(-LONGEST, LONGEST)
    return {
        "variance": torch.lerp(noise["variance"], renewed, rate).clamp(min=LEAST_VARIANCE),
        "df": (noise["df"] * step.exp()).clamp(LEAST_DF, MOST_DF),
    }


def log_density(squares: Tensor, variance: Tensor, df: Tensor) -> Tensor:
    """Return the log density of a residual by its square."""
    constant = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * torch.log(math.pi * df * variance)
    return constant - (df + 1) / 2 * torch.log1p(squares / (df * variance))


def _log_densities(squares: Tensor, variance: Tensor, df: Tensor) -> Tensor:
    """Return the sums over rows of the log densities at several degrees of freedom, (values, outputs)."""
    df = df.unsqueeze(-1)  # (values, 1)
    constant = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * torch.log(math.pi * df * variance)
    tails = torch.log1p(squares / (df * variance).unsqueeze(1)).sum(1)  # (values, rows, outputs) before the sum
    return len(squares) * constant - (df + 1) / 2 * tails


def _t_cdf(z: Tensor, df: Tensor) -> Tensor:
    from scipy.special import stdtr  # torch has no incomplete beta function

    return torch.from_numpy(np.asarray(stdtr(df.cpu().numpy(), z.cpu().numpy()))).to(z.device)


def _t_quantile(probability: float, df: Tensor) -> Tensor:
    """Return the standard quantile for each number of degrees of freedom, of which there are few different ones."""
    from scipy.special import stdtrit

    values, place = df.unique(return_inverse=True)
    return torch.from_numpy(np.asarray(stdtrit(values.cpu().numpy(), probability))).to(df.device)[place]
