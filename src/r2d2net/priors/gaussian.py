"""The Gaussian prior: the scale mixture whose scale is known.

    w_j ~ N(0, scale^2)

It is the reference every shrinkage prior is measured against, and the weight decay of ordinary training.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.priors.base import (
    Factors,
    ScaleMixturePrior,
    Shape,
    positive_finite,
    require_groups,
    scale_parameter,
)


class GaussianScales(NamedTuple):
    """The known variance of each weight, kept so that the shape of the layer is known."""

    variance: Tensor  # shape of w


class Gaussian(ScaleMixturePrior[GaussianScales]):
    """Independent normal weights.

    Args:
        scale: Standard deviation of a weight.

    >>> Gaussian(scale=2.0).log_prob(torch.tensor([0.0, 2.0]))
    tensor([-1.6121, -2.1121])
    """

    has_finite_mode = True
    has_exact_factors = True
    draws_scales_jointly = True

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale_parameter("scale", scale)

    @property
    def known_deviation(self) -> float:
        return self.scale

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> GaussianScales:
        """The fixed variance; ``generator`` and ``groups`` have nothing to act on."""
        require_groups(shape, groups)
        variance = torch.full(tuple(shape), self.scale, dtype=dtype, device=device).square()
        return GaussianScales(positive_finite(variance))

    def variance(self, scales: GaussianScales) -> Tensor:
        return scales.variance

    def log_prob(self, w: Tensor) -> Tensor:
        return -0.5 * (w / self.scale).square() - math.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def gibbs(self, w: Tensor, scales: GaussianScales, generator: torch.Generator | None = None) -> GaussianScales:
        return scales

    def cavi(self, second_moment: Tensor, scales: GaussianScales) -> GaussianFactors:
        return GaussianFactors(scales)


class GaussianFactors(Factors[GaussianScales]):
    """A point mass at the known variance."""

    def __init__(self, scales: GaussianScales) -> None:
        self._scales = scales

    @property
    def scales(self) -> GaussianScales:
        return self._scales

    @property
    def precision(self) -> Tensor:
        return self._scales.variance.reciprocal()

    def log_variance(self) -> Tensor:
        return self._scales.variance.log()

    def kl(self) -> Tensor:
        return self._scales.variance.new_zeros(())
