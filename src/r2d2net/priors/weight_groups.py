"""Groups of the weights of one layer that share a scale: all weights of an input, of an output, or of a filter.

    weights     "inputs"            "outputs"          "filters"
    (o, i)      one for each i      one for each o     as "inputs"
    (o, i, k)   one for each i      one for each o     as "outputs"
    (p,)        one for each        one for all        one for each          (o = 1)

A filter is what makes one channel of a convolution; "filters" are those of convolutions, and the inputs of linear
layers, which are the filters before them, flattened. Dimensions in which there are several global scales count layers
side by side, and are no dimensions of a layer. Where all global scales are one, in as many dimensions as the weights
have, the first is of such layers too: (1, 1, 1) for weights (1, o, i).
"""

from __future__ import annotations

from typing import Literal

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
