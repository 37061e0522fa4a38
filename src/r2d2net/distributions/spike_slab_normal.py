"""The spike-and-slab mixture pi N(0, slab^2) + (1 - pi) N(0, spike^2) as a distribution of one weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal, constraints
from torch.distributions.utils import broadcast_all

from r2d2net.distributions.primitives import require_positive
from r2d2net.errors import ParameterError, Value


class SpikeSlabNormal(Distribution):
    """Two centred normals: the slab with probability ``slab_probability``, the spike otherwise.

    Args:
        slab_probability: pi, strictly between 0 and 1.
        slab_scale: Standard deviation of the slab, finite and > 0.
        spike_scale: Standard deviation of the spike, finite and > 0.
        validate_args: Check the values given to `log_prob` against the support; None for torch's default.

    Raises:
        ParameterError: If a parameter lies outside its range.

    Example:
        >>> SpikeSlabNormal(0.5, 1.0, 0.1).variance
        tensor(0.5050)
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "slab_probability": constraints.unit_interval,
        "slab_scale": constraints.positive,
        "spike_scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = False

    def __init__(
        self,
        slab_probability: Tensor | float,
        slab_scale: Tensor | float,
        spike_scale: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.slab_probability, self.slab_scale, self.spike_scale = broadcast_all(
            slab_probability, slab_scale, spike_scale
        )
        require_positive(slab_scale=self.slab_scale, spike_scale=self.spike_scale)
        inside = (self.slab_probability > 0) & (self.slab_probability < 1)
        if not bool(inside.all()):
            bad = self.slab_probability.detach()[~inside].flatten()[0].item()
            fix = "it must lie strictly between 0 and 1"
            raise ParameterError(("holds ", Value(bad)), argument="slab_probability", fix=fix)
        super().__init__(self.slab_scale.shape, validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args

    def expand(self, batch_shape: Sequence[int], _instance: SpikeSlabNormal | None = None) -> SpikeSlabNormal:
        new = self._get_checked_instance(SpikeSlabNormal, _instance)
        shape = torch.Size(batch_shape)
        for name in self.arg_constraints:
            setattr(new, name, getattr(self, name).expand(shape))
        super(SpikeSlabNormal, new).__init__(shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def components(self) -> tuple[Normal, Normal]:
        """Return the two components in float64: a narrow spike's variance leaves float32.

        Returns:
            The slab and the spike.
        """
        zero = torch.zeros_like(self.slab_scale, dtype=torch.float64)
        return Normal(zero, self.slab_scale.double()), Normal(zero, self.spike_scale.double())

    def log_mix(self, slab: Tensor, spike: Tensor) -> Tensor:
        """Compute log(pi e^slab + (1 - pi) e^spike).

        Args:
            slab: Logarithm of the slab's term.
            spike: Logarithm of the spike's term.

        Returns:
            The logarithm of the mixture.
        """
        pi = self.slab_probability.to(slab.dtype)
        return torch.logaddexp(torch.log(pi) + slab, torch.log1p(-pi) + spike)

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        with torch.no_grad():
            uniform, normal = (self.slab_scale.new_empty(shape) for _ in range(2))
            slab = uniform.uniform_(generator=generator) < self.slab_probability
            return normal.normal_(generator=generator) * torch.where(slab, self.slab_scale, self.spike_scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        slab, spike = self.components()
        density = self.log_mix(slab.log_prob(value.double()), spike.log_prob(value.double()))
        return density.to(torch.promote_types(self.slab_scale.dtype, value.dtype))

    @property
    def mean(self) -> Tensor:
        return torch.zeros_like(self.slab_scale)

    @property
    def variance(self) -> Tensor:
        pi = self.slab_probability
        return pi * self.slab_scale.square() + (1 - pi) * self.spike_scale.square()

    def entropy(self) -> Tensor:
        """-2 int_0^inf p log p dx by the trapezoid rule in log x, exact to about 1e-12."""
        small, large = (f(self.slab_scale, self.spike_scale).to(torch.float64) for f in (torch.minimum, torch.maximum))
        step = 1 / 16
        low = torch.log(small) - 32
        count = int(torch.ceil((torch.log(large) + math.log(12) - low).max() / step)) if low.numel() else 0
        grid = low + step * torch.arange(count + 1, dtype=torch.float64, device=low.device).view(-1, *[1] * low.dim())
        wide = SpikeSlabNormal(self.slab_probability.double(), self.slab_scale.double(), self.spike_scale.double())
        log_p = wide.log_prob(torch.exp(grid))
        return (-2 * step * (torch.exp(log_p + grid) * log_p).sum(0)).to(self.slab_scale.dtype)
