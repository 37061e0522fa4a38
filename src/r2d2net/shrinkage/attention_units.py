"""The units of attention and of torch's Transformer encoders: whole heads, and hidden units of the feed-forward part.

A head has d rows of each of the three input projections and d columns of the output projection. Its output is zero
where its rows of the value projection are, whatever it attends to; queries and keys go with it. An encoder layer adds
its parts to the stream of numbers that it normalises, so the width of the stream stays.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from r2d2net.nets.narrow_attention import NarrowAttention
from r2d2net.shrinkage.unit_places import ZERO_AT_ZERO, Place, Units

ATTENTION = (nn.MultiheadAttention, NarrowAttention)
ENCODERS = (nn.TransformerEncoder, nn.TransformerEncoderLayer)


def heads_of(units: Units, name: str, module: Any) -> Tensor:
    """Number the heads of attention, and say where their numbers are.

    Args:
        units: The units of the network, which get new ones.
        name: Name of the module.
        module: Attention whose queries, keys and values are of one width.

    Returns:
        The heads.
    """
    width = module.head_width if isinstance(module, NarrowAttention) else module.head_dim
    heads = units.new(module.in_proj_weight.shape[0] // (3 * width))
    units.layers[name] = heads
    each = heads.repeat_interleave(width)
    makes = torch.arange(3 * len(each)) >= 2 * len(each)  # the rows of values
    units.places.append(Place(f"{name}.in_proj_weight", 0, each.repeat(3), "in", makes))
    if module.in_proj_bias is not None:
        units.places.append(Place(f"{name}.in_proj_bias", 0, each.repeat(3), "in", makes))
    units.places.append(Place(f"{name}.out_proj.weight", 1, each, "out"))
    return heads


def heads_that_stay(units: Units, name: str, module: Any, reason: str) -> None:
    """Number the heads of attention that cannot be cut, with the reason."""
    units.layers[name] = units.new(module.num_heads)
    units.lock(units.layers[name], reason)


def attention_problem(node: fx.Node, module: Any, environment: dict[fx.Node, Any]) -> str:
    """Say why the heads of a call of attention cannot be cut; "" if they can."""
    problem = heads_problem(module, mask_of(node, "attn_mask", 5, environment))
    outputs_alone = all(
        user.target is operator.getitem and (user.args[1] == 0 or not user.users) for user in node.users
    )
    return problem or ("" if outputs_alone else "attention whose weights are used")


def mask_of(node: fx.Node, name: str, place: int, environment: dict[fx.Node, Any]) -> Any:
    """Return the mask that a call is given, by its name or in its place; None if there is none."""
    mask = node.kwargs.get(name, node.args[place] if len(node.args) > place else None)
    return environment[mask] if isinstance(mask, fx.Node) else mask


def heads_problem(module: Any, mask: Tensor | None) -> str:
    """Say why the heads of attention with a mask cannot be cut; "" if they can."""
    if module.in_proj_weight is None:
        return "attention with keys or values of another width"
    if getattr(module, "bias_k", None) is not None or getattr(module, "add_zero_attn", False):
        return "attention with a key of its own"
    return "attention with a mask for each head" if mask is not None and mask.dim() == 3 else ""


def encoder_units(units: Units, name: str, module: nn.Module, mask: Tensor | None = None) -> None:
    """Number the heads and hidden units of a Transformer encoder, or of one layer of it.

    Args:
        units: The units of the network, which get new ones.
        name: Name of the module.
        module: The encoder or the layer.
        mask: Mask of its attention; heads that have each their own stay.
    """
    if isinstance(module, nn.TransformerEncoder):
        for i, own in enumerate(module.layers):
            encoder_units(units, f"{name}.layers.{i}".lstrip("."), own, mask)
        return
    layer: Any = module
    prefix = f"{name}." if name else ""
    problem = heads_problem(layer.self_attn, mask)
    if problem:
        heads_that_stay(units, f"{prefix}self_attn", layer.self_attn, problem)
    else:
        heads_of(units, f"{prefix}self_attn", layer.self_attn)
    hidden = units.new(layer.linear1.out_features)
    units.layers[f"{prefix}linear1"] = hidden
    units.places.append(Place(f"{prefix}linear1.weight", 0, hidden, "in"))
    if layer.linear1.bias is not None:
        units.places.append(Place(f"{prefix}linear1.bias", 0, hidden, "in"))
    units.places.append(Place(f"{prefix}linear2.weight", 1, hidden, "out"))
    is_zero_at_zero = layer.activation in (functional.relu, functional.gelu, functional.silu)
    if not is_zero_at_zero and not isinstance(layer.activation, ZERO_AT_ZERO):
        units.moved.update(hidden.tolist())
