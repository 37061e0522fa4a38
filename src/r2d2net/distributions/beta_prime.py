"""The beta-prime distribution BP(a, b): the law of G_a / G_b for independent gammas, and of R2 / (1 - R2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all
from torch.nn.functional import softplus

from r2d2net.distributions.primitives import require_positive, standard_gamma


class BetaPrime(Distribution):
    """Density x^(a-1) (1+x)^-(a+b) / B(a, b), a = ``concentration1``, b = ``concentration0``.

    Args:
        concentration1: Shape a of the numerator's gamma, finite and > 0.
        concentration0: Shape b of the denominator's gamma, finite and > 0; the mean is infinite for b <= 1.
        validate_args: Check the values given to `log_prob` against the support; None for torch's default.

    Raises:
        ParameterError: If a shape is not finite and > 0.

    Example:
        >>> BetaPrime(2.0, 3.0).mean
        tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.positive
    has_rsample = False

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        require_positive(concentration1=self.concentration1, concentration0=self.concentration0)
        super().__init__(self.concentration1.shape, validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args

    def expand(self, batch_shape: Sequence[int], _instance: BetaPrime | None = None) -> BetaPrime:
        new = self._get_checked_instance(BetaPrime, _instance)
        shape = torch.Size(batch_shape)
        new.concentration1 = self.concentration1.expand(shape)
        new.concentration0 = self.concentration0.expand(shape)
        super(BetaPrime, new).__init__(shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        # float64: at small shapes both gammas leave float32's range long before their ratio does
        a, b = (c.detach().double().expand(shape) for c in (self.concentration1, self.concentration0))
        limits = torch.finfo(self.concentration1.dtype)
        ratio = standard_gamma(a, generator).div_(standard_gamma(b, generator))
        return ratio.clamp_(min=limits.tiny, max=limits.max).to(self.concentration1.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, log_x = self.concentration1.double(), self.concentration0.double(), torch.log(value.double())
        density = (a - 1) * log_x - (a + b) * softplus(log_x, threshold=50) - self._log_beta()
        density = torch.where(log_x == math.inf, -math.inf, density)
        return density.to(torch.promote_types(self.concentration1.dtype, value.dtype))

    def _log_beta(self) -> Tensor:
        """log B(a, b) in float64: its terms cancel for large shapes."""
        a, b = self.concentration1.double(), self.concentration0.double()
        return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)

    @property
    def mean(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return torch.where(b > 1, a / (b - 1), math.inf)

    @property
    def mean_log(self) -> Tensor:
        """E[log X] = digamma(a) - digamma(b)."""
        return torch.digamma(self.concentration1) - torch.digamma(self.concentration0)

    @property
    def variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return torch.where(b > 2, a * (a + b - 1) / ((b - 2) * (b - 1).square()), math.inf)

    def entropy(self) -> Tensor:
        a, b = self.concentration1.double(), self.concentration0.double()
        mean_log, mean_log1p = torch.digamma(a) - torch.digamma(b), torch.digamma(a + b) - torch.digamma(b)
        return (self._log_beta() - (a - 1) * mean_log + (a + b) * mean_log1p).to(self.concentration1.dtype)
