"""The spike-and-slab prior with two normal components (George and McCulloch, 1993).

    w_j ~ pi N(0, slab_scale^2) + (1 - pi) N(0, spike_scale^2),      pi = slab_probability

The scale variable is the indicator z_j of the slab. Its conditional is a Bernoulli with

    logit P(z_j = 1 | w_j) = logit pi + log N(w_j; 0, slab_scale^2) - log N(w_j; 0, spike_scale^2)

and coordinate ascent uses the same probability, the responsibility, at E[w_j^2].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import Argument, is_number, require
from r2d2net.priors.base import (
    Factors,
    ScaleMixturePrior,
    Shape,
    finite_square,
    require_groups,
    scale_parameter,
    squared,
)


class SpikeSlabScales(NamedTuple):
    """Indicators of the component to which each weight belongs."""

    slab: Tensor  # shape of w: 0 or 1 when drawn, a responsibility in [0, 1] in coordinate ascent


class SpikeSlab(ScaleMixturePrior[SpikeSlabScales]):
    """A narrow and a wide normal.

    Args:
        slab_probability: Share of the weights that matter.
        slab_scale: Standard deviation of a weight that matters.
        spike_scale: Standard deviation of one that does not; smaller than ``slab_scale``.

    >>> SpikeSlab().log_prob(torch.tensor([0.0, 1.0])).exp()
    tensor([2.1942, 0.1210])
    """

    has_finite_mode = True
    has_exact_factors = True
    draws_scales_jointly = True

    def __init__(self, slab_probability: float = 0.5, slab_scale: float = 1.0, spike_scale: float = 0.1) -> None:
        in_range = is_number(slab_probability) and 0 < slab_probability < 1
        require(in_range, "slab_probability", slab_probability, "use a number in (0, 1)")
        self.slab_probability = float(slab_probability)
        self.slab_scale = scale_parameter("slab_scale", slab_scale)
        self.spike_scale = scale_parameter("spike_scale", spike_scale)
        fix = ("use a number below ", Argument("slab_scale", slab_scale))
        require(spike_scale < slab_scale, "spike_scale", spike_scale, fix)

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> SpikeSlabScales:
        """Draw the indicators; there is no global scale for ``groups`` to shape."""
        require_groups(shape, groups)
        uniform = torch.rand(tuple(shape), generator=generator, dtype=dtype, device=device)
        return SpikeSlabScales((uniform < self.slab_probability).to(uniform.dtype))

    def variance(self, scales: SpikeSlabScales) -> Tensor:
        slab = scales.slab
        return 1 / (slab / self.slab_scale**2 + (1 - slab) / self.spike_scale**2)

    def log_prob(self, w: Tensor) -> Tensor:
        log_slab, log_spike = self._log_components(w.square())
        return torch.logaddexp(log_slab, log_spike)

    def gibbs(self, w: Tensor, scales: SpikeSlabScales, generator: torch.Generator | None = None) -> SpikeSlabScales:
        log_slab, log_spike = self._log_components(squared(w))
        uniform = torch.rand(w.shape, generator=generator, dtype=w.dtype, device=w.device)
        return SpikeSlabScales((uniform < torch.sigmoid(log_slab - log_spike)).to(w.dtype))

    def cavi(self, second_moment: Tensor, scales: SpikeSlabScales) -> SpikeSlabFactors:
        log_slab, log_spike = self._log_components(finite_square(second_moment))
        return SpikeSlabFactors(self, torch.sigmoid(log_slab - log_spike))

    def _log_components(self, square: Tensor) -> tuple[Tensor, Tensor]:
        """log of pi N(w; 0, slab^2) and of (1 - pi) N(w; 0, spike^2)."""
        pi = self.slab_probability
        log_slab, log_spike = (
            math.log(share / scale) - 0.5 * math.log(2 * math.pi) - 0.5 * square / scale**2
            for share, scale in ((pi, self.slab_scale), (1 - pi, self.spike_scale))
        )
        return log_slab, log_spike


class SpikeSlabFactors(Factors[SpikeSlabScales]):
    """Independent Bernoulli factors: q(z_j = 1) is the responsibility, the posterior at sqrt(E[w_j^2])."""

    def __init__(self, prior: SpikeSlab, slab: Tensor) -> None:
        self._prior = prior
        self._slab = slab

    @property
    def scales(self) -> SpikeSlabScales:
        return SpikeSlabScales(self._slab)

    @property
    def precision(self) -> Tensor:
        return 1 / self._prior.variance(self.scales)

    def log_variance(self) -> Tensor:
        spike = 2 * math.log(self._prior.spike_scale)
        return spike + self._slab * (2 * math.log(self._prior.slab_scale) - spike)

    def kl(self) -> Tensor:
        pi, slab = self._prior.slab_probability, self._slab
        return (torch.xlogy(slab, slab / pi) + torch.xlogy(1 - slab, (1 - slab) / (1 - pi))).sum()
