"""A likelihood whose rows have weights: a row of weight w counts as w rows that are alike.

    log p(y_i, w_i | output) = w_i log p(y_i | output)

Targets carry the weight of their row as one more column, divided by the mean of all weights, which the likelihood
keeps: columns have the mean 1, by which batches are counted in running means. Classes are floating-point numbers then.
`fit` puts it in place of the model's likelihood for the time of the run; posteriors have the model's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Shown
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, like_target
from r2d2net.likelihoods.discrete import Bernoulli, Categorical, Poisson
from r2d2net.likelihoods.gaussian import LEAST_VARIANCE, Gaussian, Heteroscedastic
from r2d2net.likelihoods.log_normal import NORMAL, LogNormal

KINDS = (Gaussian, LogNormal, Heteroscedastic, Poisson, Categorical, Bernoulli)


@dataclass(frozen=True)
class Weighted(Likelihood[Any]):
    """The likelihood of rows with weights.

    Args:
        own: The likelihood of a row of weight 1.
        mean: Mean of the weights.
    """

    own: Likelihood[Any]
    mean: float = 1.0

    def __post_init__(self) -> None:
        if type(self.own) not in KINDS:
            name, others = Shown(type(self.own).__name__), ", ".join(kind.__name__ for kind in KINDS)
            raise ParameterError("takes no weights of rows", argument="likelihood", value=name, fix=f"use {others}")
        for trait in ("standardizes", "has_classes", "is_softmax", "takes_noise_by_row"):
            object.__setattr__(self, trait, getattr(self.own, trait))

    @classmethod
    def of(cls, likelihood: Likelihood[Any], weights: Tensor | None) -> Likelihood[Any]:
        """Build the likelihood of rows with weights.

        Args:
            likelihood: The likelihood.
            weights: Weights of the rows; None for none.

        Returns:
            The likelihood itself where there are none.
        """
        return likelihood if weights is None else cls(likelihood, float(weights.double().mean()))

    def joined(self, y: Tensor, weights: Tensor) -> Tensor:
        """Put weights beside targets.

        Args:
            y: Targets as the network sees them.
            weights: Weights of the rows, of mean `mean`.

        Returns:
            The targets as this likelihood takes them, (rows, outputs + 1).
        """
        shares = (weights.double() / self.mean).reshape(-1, 1)
        dtype = y.dtype if y.is_floating_point() else torch.float32
        return torch.cat([y.reshape(len(y), -1).to(dtype), shares.to(dtype)], 1)

    def parts(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return targets as the likelihood of a row takes them, and weights of mean 1, (rows,)."""
        own = y[..., 0].long() if isinstance(self.own, Categorical) else y[..., :-1]
        return own, y[..., -1]

    @property
    def learns_noise(self) -> bool:
        return self.own.learns_noise

    def target(self, y: Tensor) -> Tensor:
        return self.own.target(y)

    def outputs(self, y: Tensor) -> int | None:
        return self.own.outputs(y)

    def require_width(self, width: int, y: Tensor) -> None:
        self.own.require_width(width, y)

    def network_scale(self, y: Tensor) -> Tensor:
        return self.own.network_scale(y)

    def log_slope(self, y: Tensor) -> Tensor:
        return self.own.log_slope(y)

    def on_network_scale(self) -> Likelihood[Any]:
        scaled = self.own.on_network_scale()
        return self if scaled is self.own else Weighted(scaled, self.mean)

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        if y.dim() != 2 or y.shape[1] < 2:  # the template of a saved run, which has no rows
            return self.own.init(y, unit)
        own, shares = self.parts(y)
        if isinstance(self.own, Poisson):  # whose offset is the log of the mean
            own = own * (shares / shares.mean()).unsqueeze(1)
        return self.own.init(own, unit)

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        if not isinstance(self.own, Gaussian) or not self.own.learns_noise:
            return noise  # no other kind learns from batches
        own, shares = self.parts(y)
        squares = (like_target(output, own) - own).square()
        total = shares.sum().clamp(min=torch.finfo(shares.dtype).tiny)
        residual = (shares.unsqueeze(1) * squares).sum(0) / total
        share = (rate * shares.mean()).clamp(max=1)  # a batch of little weight says little
        return {"variance": torch.lerp(noise["variance"], residual, share).clamp(min=LEAST_VARIANCE)}

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        own, shares = self.parts(y)
        if not isinstance(self.own, Gaussian) or not self.own.learns_noise:
            return self.own.gibbs(output, own, noise, generator, weight)
        squares = (like_target(output, own) - own).detach().double().square()
        weights = weight * self.mean * shares.double()
        return self.own.drawn(weights @ squares, float(weights.sum()), noise, generator)

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        own, shares = self.parts(y)
        return self.own.log_prob(output, own, noise) * (self.mean * shares)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Any:
        return self.own.predict(outputs, noise, unit)


def is_normal(likelihood: Likelihood[Any]) -> bool:
    """Tell whether noise is normal with one variance on the network's scale, rows having weights or not.

    Args:
        likelihood: The likelihood.

    Returns:
        Whether it is.
    """
    return type(likelihood.own if isinstance(likelihood, Weighted) else likelihood) in NORMAL
