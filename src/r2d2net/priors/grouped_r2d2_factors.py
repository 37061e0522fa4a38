"""The coordinate-ascent factors of the R2D2 prior for groups of inputs, and its share of the ELBO.

    q(xi) prod_g q(eta_g) prod_j q(psi_j) q(T_j)

Given the rates each group is a layer of R2D2 by itself; xi, which all share, counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from r2d2net.priors.base import Factors
from r2d2net.priors.r2d2_factors import R2D2Factors

if TYPE_CHECKING:
    from r2d2net.priors.grouped_r2d2 import GroupedR2D2
    from r2d2net.priors.r2d2 import R2D2Scales


class GroupedR2D2Factors(Factors["R2D2Scales"]):
    """q(psi) q(T) q(eta) of each group and q(xi), which they share."""

    def __init__(self, prior: GroupedR2D2, scales: R2D2Scales, parts: Sequence[R2D2Factors]) -> None:
        self._prior, self._scales, self.parts = prior, scales, parts

    @property
    def scales(self) -> R2D2Scales:
        return self._scales

    @property
    def precision(self) -> Tensor:
        return 1 / self._prior.variance(self._scales)

    def log_variance(self) -> Tensor:
        log_v = torch.empty_like(self._scales.T)
        for part, factors in zip(self._prior.parts, self.parts, strict=True):
            part.write(log_v, factors.log_variance())
        return log_v

    def kl(self) -> Tensor:
        own = [factors.local_kl() + factors.kl_of_eta() for factors in self.parts]
        return torch.stack(own).sum() + self.parts[0].kl_of_xi()

    def bound(self, second_moment: Tensor) -> Tensor:
        own = [
            factors.local_bound(part.of(second_moment)) - factors.kl_of_eta()
            for part, factors in zip(self._prior.parts, self.parts, strict=True)
        ]
        return torch.stack(own).sum() - self.parts[0].kl_of_xi()
