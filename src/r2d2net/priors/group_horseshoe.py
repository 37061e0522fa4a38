"""The horseshoe over groups of weights: a scale for each weight, for each group and for the layer.

    w_j | . ~ N(0, x_j^2 t_g^2 h^2)  for j in group g,    x_j ~ C+(0, scale),  t_g ~ C+(0, group_scale),
                                                          h ~ C+(0, global_scale)

A group is all weights of an input, of an output or of a filter (`weight_groups`). Conditionals and coordinate ascent
are those of `half_cauchy_product`, with sums over the weights that share a scale. Without the x_j it would be the prior
of BC-GHS (Louizos, Ullrich and Welling, 2017), whose weights within a group are normal.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from r2d2net.priors.base import scale_parameter
from r2d2net.priors.half_cauchy_product import HalfCauchyProduct, HalfCauchyScale
from r2d2net.priors.weight_groups import Groups, groups_parameter


class GroupHorseshoeScales(NamedTuple):
    """Squared scales and the auxiliary variables of their half-Cauchy distributions."""

    local_variance: Tensor  # x_j^2, shape of w
    local_auxiliary: Tensor  # shape of w
    group_variance: Tensor  # t_g^2, size 1 in the dimensions in which groups do not differ
    group_auxiliary: Tensor  # the same
    global_variance: Tensor  # h^2, shape of groups of layers
    global_auxiliary: Tensor  # the same


class GroupHorseshoe(HalfCauchyProduct[GroupHorseshoeScales]):
    """Half-Cauchy scales of weights, of groups of weights and of the layer.

    Args:
        scale: Median of a weight's scale.
        group_scale: Median of a group's scale.
        global_scale: Median of the layer's scale; None leaves it out.
        groups: "inputs", "outputs" or "filters", as in `GroupR2D2`.

    Example:
        >>> GroupHorseshoe(groups="filters").init_scales((8, 4, 3, 3)).group_variance.shape
        torch.Size([8, 1, 1, 1])
    """

    def __init__(
        self,
        scale: float = 1.0,
        group_scale: float = 1.0,
        global_scale: float | None = 1.0,
        groups: Groups = "inputs",
    ) -> None:
        self.scale, self.group_scale = scale_parameter("scale", scale), scale_parameter("group_scale", group_scale)
        self.global_scale = None if global_scale is None else scale_parameter("global_scale", global_scale)
        self.groups = groups_parameter(groups)
        factors = [
            HalfCauchyScale(self.scale, is_global=False),
            HalfCauchyScale(self.group_scale, is_global=False, groups=self.groups),
            HalfCauchyScale(self.global_scale, is_global=True),
        ]
        super().__init__(GroupHorseshoeScales._make, factors)
