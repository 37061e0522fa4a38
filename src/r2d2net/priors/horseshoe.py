"""The horseshoe prior (Carvalho, Polson and Scott, 2010).

    w_j | x_j, g ~ N(0, x_j^2 g^2),      x_j ~ C+(0, scale),      g ~ C+(0, global_scale)

An infinite (logarithmic) spike at zero and Cauchy-like tails |w|^-2: small weights are shrunk hard, large
ones hardly at all. The global scale g adapts to how sparse the layer is. Conditionals and the coordinate
ascent are those of `half_cauchy_product`.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from r2d2net.priors.base import scale_parameter
from r2d2net.priors.half_cauchy_product import HalfCauchyProduct, HalfCauchyScale


class HorseshoeScales(NamedTuple):
    """Squared scales and the auxiliary variables of their half-Cauchy distributions."""

    local_variance: Tensor  # x_j^2, shape of w
    local_auxiliary: Tensor  # shape of w
    global_variance: Tensor  # g^2, shape of groups
    global_auxiliary: Tensor  # shape of groups


class Horseshoe(HalfCauchyProduct[HorseshoeScales]):
    """Half-Cauchy local scales under a half-Cauchy global scale.

    Args:
        scale: Median of a weight's local scale x_j.
        global_scale: Median of the layer's scale g; a small value says that few weights matter. ``None``
            leaves g out (g = 1), which makes the weights independent: the paper's horseshoe.

    >>> import torch
    >>> prior = Horseshoe(scale=1.0, global_scale=None)
    >>> prior
    Horseshoe(scale=1.0, global_scale=None)
    >>> prior.log_prob(torch.tensor([0.1, 10.0])).exp()
    tensor([0.6032, 0.0025])
    """

    def __init__(self, scale: float = 1.0, global_scale: float | None = 1.0) -> None:
        self.scale = scale_parameter("scale", scale)
        self.global_scale = None if global_scale is None else scale_parameter("global_scale", global_scale)
        factors = [
            HalfCauchyScale(self.scale, is_global=False),
            HalfCauchyScale(self.global_scale, is_global=True),
        ]
        super().__init__(HorseshoeScales._make, factors)
