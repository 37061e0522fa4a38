"""Where a layer's inputs meet its weights: the dimension of each weight tensor that runs over input units or channels.

Linear, convolutional, recurrent and attention layers keep (outputs, inputs, ...), transposed convolutions (inputs,
outputs, ...). An embedding has no inputs in this sense, and of parameters outside torch's layers nobody knows.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from torch import Tensor, nn

from r2d2net.inference.local_reparametrization import PLAIN
from r2d2net.model import BayesianModel, Slot

LAYERS = (*PLAIN, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)
CONVOLUTION, TRANSPOSED = nn.modules.conv._ConvNd, nn.modules.conv._ConvTransposeNd
EMBEDDING = (nn.Embedding, nn.EmbeddingBag)
# names of weights inside a layer: those that read its inputs, and those of a recurrent layer that read hidden units
ON_INPUT = re.compile(r"weight|(in|q|k|v)_proj_weight|weight_ih(_l0(_reverse)?)?")
ON_HIDDEN = re.compile(r"weight_(hh|hr|ih_l[1-9])\w*")


class InputAxis(NamedTuple):
    """A weight tensor and the axis of its inputs."""

    slot: Slot
    axis: int
    groups: int  # of a convolution: the inputs of one group of outputs are not those of another

    @property
    def units(self) -> int:
        """The number of inputs."""
        return self.slot.shape[self.axis] * self.groups

    def on_weights(self, factor: Tensor) -> Tensor:
        """Reshape factors of the inputs, (draws, units), to broadcast to weights, (draws, *shape)."""
        shape = self.slot.shape
        if self.axis == 1:
            factor = factor.unflatten(1, (self.groups, -1))
            if self.groups > 1:
                factor = factor.repeat_interleave(shape[0] // self.groups, 1)
        return factor[(..., *(None,) * (1 + len(shape) - factor.dim()))]


def input_axes(model: BayesianModel[Any], *, first: bool) -> list[InputAxis]:
    """Return the weight tensors with a prior whose input axis is known.

    Args:
        model: The model.
        first: Whether to count those that read the network's own inputs, in the first layer that the network lists.
    """
    uses = _uses(model.net)
    layers = (module for module in model.net.modules() if isinstance(module, (*LAYERS, TRANSPOSED, *EMBEDDING)))
    first_layer = next(layers, None)
    known = []
    for slot in model.bayesian:
        is_first = any(module is first_layer and ON_INPUT.fullmatch(name) for module, name in uses[slot.name])
        # tied weights have several uses, which may not agree
        where, *others = {_axis_and_groups(module, name) for module, name in uses[slot.name]}
        if where is not None and not others and (first or not is_first):
            known.append(InputAxis(slot, *where))
    return known


def plain_layers(net: nn.Module) -> dict[str, nn.Module]:
    """Map the names of weights to the single Linear or Conv layer that holds each."""
    single = {name: holders[0] for name, holders in _uses(net).items() if len(holders) == 1}
    return {name: module for name, (module, own) in single.items() if own == "weight" and type(module) in PLAIN}


def _axis_and_groups(module: nn.Module, name: str) -> tuple[int, int] | None:
    if not (ON_INPUT.fullmatch(name) or ON_HIDDEN.fullmatch(name)):
        return None
    if isinstance(module, TRANSPOSED):
        return 0, 1
    if isinstance(module, LAYERS):
        return 1, module.groups if isinstance(module, CONVOLUTION) else 1
    return None


def _uses(net: nn.Module) -> dict[str, list[tuple[nn.Module, str]]]:
    """Map the names of parameters to the modules that hold them, each with the parameter's name there."""
    first = {id(parameter): name for name, parameter in net.named_parameters()}
    uses: dict[str, list[tuple[nn.Module, str]]] = {name: [] for name in first.values()}
    for module in net.modules():
        for name, parameter in module.named_parameters(recurse=False):
            uses[first[id(parameter)]].append((module, name))
    return uses
