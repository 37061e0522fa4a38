"""The horseshoe+ prior (Bhadra, Datta, Polson and Willard, 2017).

    w_j | tau_j ~ N(0, tau_j^2),   tau_j | eta_j, g ~ C+(0, scale g eta_j)
    eta_j ~ C+(0, 1),              g ~ C+(0, global_scale)

A half-Cauchy's scale is a factor: tau_j = x_j eta_j g with x_j ~ C+(0, scale). Two local scales sharpen the
spike at zero to (log|w|)^2 and thicken the tail to log|w| / w^2. Conditionals and the coordinate ascent are
those of `half_cauchy_product`.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from r2d2net.priors.base import scale_parameter
from r2d2net.priors.half_cauchy_product import HalfCauchyProduct, HalfCauchyScale


class HorseshoePlusScales(NamedTuple):
    """Squared scales and the auxiliary variables of their half-Cauchy distributions."""

    local_variance: Tensor  # x_j^2, shape of w
    local_auxiliary: Tensor  # shape of w
    mixing_variance: Tensor  # eta_j^2, shape of w
    mixing_auxiliary: Tensor  # shape of w
    global_variance: Tensor  # g^2, shape of groups
    global_auxiliary: Tensor  # shape of groups


class HorseshoePlus(HalfCauchyProduct[HorseshoePlusScales]):
    """Half-Cauchy local scales whose own scale is half-Cauchy, under a half-Cauchy global scale.

    Args:
        scale: Median of x_j, and of tau_j when the global scale is left out.
        global_scale: Median of the layer's scale g; a small value says that few weights matter. ``None``
            leaves g out (g = 1), which makes the weights independent: the paper's horseshoe+.

    >>> import torch
    >>> HorseshoePlus(global_scale=None).log_prob(torch.tensor([0.1, 10.0])).exp()
    tensor([0.6125, 0.0037])
    """

    def __init__(self, scale: float = 1.0, global_scale: float | None = 1.0) -> None:
        self.scale = scale_parameter("scale", scale)
        self.global_scale = None if global_scale is None else scale_parameter("global_scale", global_scale)
        factors = [
            HalfCauchyScale(self.scale, is_global=False),
            HalfCauchyScale(1.0, is_global=False),
            HalfCauchyScale(self.global_scale, is_global=True),
        ]
        super().__init__(HorseshoePlusScales._make, factors)
