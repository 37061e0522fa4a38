"""Whether a network was trained: what fits start from where the user does not say.

Layers as torch makes them have known laws, of which fan is that of the inputs:

    Linear, Conv, Bilinear   weights and biases in [-1, 1] / sqrt(fan),     recurrent layers in [-1, 1] / sqrt(hidden)
    MultiheadAttention       in_proj in [-1, 1] sqrt(6 / (fan in + fan out)),        Embedding  N(0, 1)
    normalisation            weights of one, biases of zero, statistics of no batch

Weights inside them are drawn anew, from He's law, which loses nothing. A network counts as trained if its BatchNorm
layers saw `BATCHES` batches, if the weights of a normalisation layer differ from each other, or if at least half of
its biases left their law; initialisations of one's own leave biases alone or set them to a constant. Such a network is
started from, and one with frozen parts and matrices of one value too: adapters that begin as the network without them.
What remains, weights outside torch's law and no sign of training, is drawn anew, and said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net.parameter_roles import is_normalization

BATCHES = 10  # a dry run to give lazy layers their shapes is fewer
ROOM = 1.005  # for the rounding of lower precisions
DEVIATIONS = 6.0  # of the moments of an embedding, standard errors
LINEAR = (nn.Linear, nn.modules.conv._ConvNd)


class Start(NamedTuple):
    """What a fit starts from.

    Attributes:
        name: "he" for new weights, "net" for the network's own.
        why: What to tell the user; None where nothing is lost.
    """

    name: Literal["he", "net"]
    why: str | None = None


def suited_start(net: nn.Module, learnt: Collection[str], *, has_frozen: bool) -> Start:
    """Decide what a fit of a network starts from.

    Args:
        net: The network.
        learnt: Names of the parameters that are learnt.
        has_frozen: Whether there are frozen parameters too.

    Returns:
        The start.
    """
    parameters = {name: parameter for name, parameter in net.named_parameters() if name in learnt}
    own = {id(parameter): name for name, parameter in parameters.items()}
    left: list[str] = []  # weights outside their law
    biases: list[bool] = []  # whether each bias left its law
    for module in net.modules():
        mine = {k: p.detach() for k, p in module.named_parameters(recurse=False) if id(p) in own}
        if not mine:
            continue
        sign = _norm_sign(module, mine) if is_normalization(module) else None
        if sign is not None:
            name = own[id(getattr(module, next(iter(mine))))]
            return Start("net", f"net looks trained ({name.rpartition('.')[0] or type(module).__name__!r} {sign})")
        laws = _laws(module)
        left += [own[id(getattr(module, k))] for k, p in mine.items() if k in laws and not _fits(p, laws[k])]
        biases += [not _fits(p, laws[k]) and not _is_constant(p) for k, p in mine.items() if k in laws and "bias" in k]
    if left and biases and sum(biases) >= max(1, len(biases) / 2):
        moved = f"{left[0]!r} and {sum(biases)} of {len(biases)} biases"
        return Start("net", f"net looks trained ({moved} left torch's initialisation)")
    if has_frozen:
        flat = [name for name, p in parameters.items() if p.dim() > 1 and _is_constant(p)]
        if flat:
            return Start("net", f"net has frozen parts and weights of one value ({flat[0]!r}), as adapters have")
    return Start("he", f"net was not initialised as torch does ({left[0]!r})" if left else None)


def _norm_sign(module: nn.Module, mine: Mapping[str, Tensor]) -> str | None:
    """Return what shows that a normalisation layer was trained."""
    batches = getattr(module, "num_batches_tracked", None)
    if batches is not None and int(batches) >= BATCHES:
        return f"saw {int(batches)} batches"
    differ = any(not _is_constant(parameter) for parameter in mine.values() if parameter.numel() > 1)
    return "has weights that differ" if differ else None


def _is_constant(tensor: Tensor) -> bool:
    if tensor.numel() == 1:
        return not bool(tensor.any())
    return bool((tensor == tensor.reshape(-1)[0]).all())


class _Normal(NamedTuple):
    """N(0, 1), but for rows of padding."""

    padding: int | None


def _laws(module: nn.Module) -> dict[str, float | _Normal]:
    """Return by name the largest value that torch's initialisation gives a module's parameters, or their law."""
    if isinstance(module, LINEAR):
        bound = 1 / math.sqrt(max(1, _fan_in(module.weight)))
        return {"weight": bound, "bias": bound}
    if isinstance(module, nn.Bilinear):
        bound = 1 / math.sqrt(module.weight.shape[1])
        return {"weight": bound, "bias": bound}
    if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
        bound = 1 / math.sqrt(max(1, module.hidden_size))
        return {name: bound for name, _ in module.named_parameters(recurse=False)}
    if isinstance(module, nn.MultiheadAttention):
        weights = {k: p for k, p in module.named_parameters(recurse=False) if k.endswith("proj_weight")}
        return {"in_proj_bias": 0.0, **{k: math.sqrt(6 / sum(p.shape)) for k, p in weights.items()}}
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return {"weight": _Normal(module.padding_idx)}
    return {}


def _fan_in(weight: Tensor) -> int:
    return weight[0].numel()


def _fits(tensor: Tensor, law: float | _Normal) -> bool:
    """Whether a tensor could be of a law; one of a single value could be of any."""
    if not isinstance(law, _Normal):
        return float(tensor.abs().max()) <= ROOM * law if tensor.numel() else True
    rows = torch.ones(len(tensor), dtype=torch.bool, device=tensor.device)
    if law.padding is not None:
        rows[law.padding] = False
    values = tensor[rows].double()
    count = values.numel()
    if count == 0:
        return True
    far_mean = abs(float(values.mean())) * math.sqrt(count)
    far_square = abs(float(values.square().mean()) - 1) * math.sqrt(count / 2)
    return max(far_mean, far_square) < DEVIATIONS
