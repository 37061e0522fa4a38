"""Groups of the weights of one layer that share a scale: all weights of an input, of an output, or of a filter.

    weights     "inputs"            "outputs"          "filters"
    (o, i)      one for each i      one for each o     as "inputs"
    (o, i, k)   one for each i      one for each o     as "outputs"
    (p,)        one for each        one for all        one for each          (o = 1)

A filter is what makes one channel of a convolution; "filters" are those of convolutions, and the inputs of linear
layers, which are the filters before them, flattened. Dimensions in which there are several global scales count layers
side by side, and are no dimensions of a layer. Where all global scales are one, in as many dimensions as the weights
have, the first is of such layers too: (1, 1, 1) for weights (1, o, i).

A layer that has lost some of its weights for good is a vector of those that are left, and its groups are of different
sizes: `Sharing` then has the number of each weight's group.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import require
from r2d2net.priors.base import Shape

Groups = Literal["inputs", "outputs", "filters"]
GROUPS = ("inputs", "outputs", "filters")


def groups_parameter(groups: str) -> Groups:
    """Check that groups are named, and return the name."""
    known = isinstance(groups, str) and groups in GROUPS
    require(known, "groups", groups, f"use one of {', '.join(map(repr, GROUPS))}")
    return groups  # type: ignore[return-value]


def shape_of_groups(shape: Shape, shared: Shape, groups: Groups) -> tuple[int, ...]:
    """Return the shape of the scales of groups, which broadcasts to that of the weights.

    Args:
        shape: Shape of the weights.
        shared: Shape of the global scales, which broadcasts to ``shape``.
        groups: What the weights of a group have in common.

    Returns:
        The shape, of as many dimensions as ``shape``.

    >>> shape_of_groups((5, 3), (), "inputs"), shape_of_groups((2, 5, 3), (2, 1, 1), "outputs")
    ((1, 3), (2, 5, 1))
    >>> shape_of_groups((8, 4, 3, 3), (), "filters"), shape_of_groups((1, 5, 3), (1, 1, 1), "filters")
    ((8, 1, 1, 1), (1, 1, 3))
    """
    shape, shared = tuple(shape), tuple(shared)
    padded = (1,) * (len(shape) - len(shared)) + shared
    beside = [d for d, count in enumerate(padded) if count != 1]
    if not beside and shape and len(shared) == len(shape) and shape[0] == 1:
        beside = [0]
    own = [d for d in range(len(shape)) if d not in beside]
    if groups == "filters":
        groups = "outputs" if len(own) > 2 else "inputs"
    place = 1 if groups == "inputs" else 0
    kept = [own[place]] if len(own) > 1 else own * place
    return tuple(size if d in beside or d in kept else 1 for d, size in enumerate(shape))


class Sharing(NamedTuple):
    """Which of a layer's scales each of its weights has: by broadcasting, or by the number of the scale.

    Attributes:
        numbers: Number of each weight's scale along the last dimension, (weights,); None where scales broadcast.
    """

    numbers: Tensor | None = None

    @classmethod
    def of_kept(cls, keep: Tensor, shape: Shape) -> Sharing:
        """Number the scales of a layer without some of its weights; scales that no weight is left of have no number.

        Args:
            keep: Which weights are left, a boolean tensor in the shape of the layer.
            shape: Shape of the scales of the whole layer, which broadcasts to that of ``keep``.

        Returns:
            The numbers of the scales of the weights that are left.

        >>> Sharing.of_kept(torch.tensor([[True, False, True], [False, False, True]]), (1, 3)).numbers
        tensor([0, 1, 1])
        """
        present = has_members(keep, shape)
        numbers = (present.reshape(-1).cumsum(0) - 1).view(present.shape)
        return cls(numbers.expand(keep.shape)[keep])

    @property
    def scales(self) -> int:
        """Number of scales of a layer whose weights have numbers."""
        assert self.numbers is not None
        return int(self.numbers.max()) + 1 if len(self.numbers) else 0

    def shape(self, weights: Shape) -> tuple[int, ...]:
        """Return the shape of numbered scales, given that of the weights, whose last dimension is the layer."""
        return (*tuple(weights)[:-1], self.scales)

    def spread(self, scale: Tensor) -> Tensor:
        """Return the scale of each weight, in a shape that broadcasts to that of the weights."""
        return scale if self.numbers is None else scale.index_select(-1, self.numbers)

    def total(self, values: Tensor, like: Tensor) -> Tensor:
        """Return the sum of values of weights over those that share a scale, in the shape of the scales ``like``."""
        if self.numbers is None:
            return values.sum_to_size(like.shape)
        return torch.zeros(like.shape, dtype=values.dtype, device=values.device).index_add_(-1, self.numbers, values)

    def members(self, weights: Tensor, like: Tensor) -> float | Tensor:
        """Return how many weights share each of the scales ``like``: one number, or one for each scale."""
        if self.numbers is None:
            return weights.numel() / max(1, like.numel())
        return torch.bincount(self.numbers, minlength=like.shape[-1]).to(weights.dtype)


def has_members(keep: Tensor, shape: Shape) -> Tensor:
    """Tell which scales still have a weight.

    Args:
        keep: Which weights are left, a boolean tensor in the shape of the layer.
        shape: Shape of the scales, which broadcasts to that of ``keep``.

    Returns:
        A boolean tensor of that shape.
    """
    return keep.to(torch.float32).sum_to_size(tuple(shape)) > 0
