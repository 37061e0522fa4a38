"""The half-Cauchy C+(0, scale): torch's own, with an explicit generator and a density that holds in float32 tails."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import HalfCauchy as TorchHalfCauchy

from r2d2net.distributions.primitives import require_positive


class HalfCauchy(TorchHalfCauchy):
    """Half-Cauchy with density 2 / (pi scale (1 + (x / scale)^2)).

    Args:
        scale: Median of the distribution, finite and > 0.
        validate_args: Check the values given to `log_prob` against the support; None for torch's default.

    Raises:
        ParameterError: If ``scale`` is not finite and > 0.

    Example:
        >>> HalfCauchy(1.0).log_prob(torch.tensor(1e30))
        tensor(-138.6067)
    """

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        require_positive(scale=torch.as_tensor(scale))
        super().__init__(scale, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: HalfCauchy | None = None) -> HalfCauchy:
        new = self._get_checked_instance(HalfCauchy, _instance)
        expanded: HalfCauchy = super().expand(torch.Size(batch_shape), _instance=new)
        return expanded

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        # A ratio of normals: its tail is not cut where 1 - u meets the dtype's resolution.
        shape, scale = torch.Size(sample_shape) + self.batch_shape, self.scale.detach()
        top, bottom = (
            torch.empty(shape, dtype=scale.dtype, device=scale.device).normal_(generator=generator) for _ in range(2)
        )
        limits = torch.finfo(scale.dtype)
        ratio = top.abs_().div_(bottom.abs_().clamp_(min=limits.tiny)).mul_(scale)
        return ratio.clamp_(min=limits.tiny, max=limits.max)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        ratio = value / self.scale
        inside = (
            math.log(2 / math.pi) - torch.log(self.scale) - 2 * torch.log(torch.hypot(torch.ones_like(ratio), ratio))
        )
        return torch.where(value >= 0, inside, -math.inf)
