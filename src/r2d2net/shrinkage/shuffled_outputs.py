"""How much shuffled columns change the outputs of one draw of a network.

Shuffling column i by d = x_i' - x_i changes the output z = W x + b of a first linear layer by W_i d alone. So networks
that begin with such a layer, as perceptrons do, are evaluated from z on, many inputs at a time:

    linear network           mean of (W_i d)^2 = W_i E[d d'] W_i', without any pass over the rows
    one hidden layer         V (h(z + W_i d) - h(z)), in blocks that a cache holds
    deeper ones              the later layers at z + W_i d

and with a linear path A x beside them (`r2d2net.nets.LinearPath`), A_i d is added. Other networks are evaluated at the
shuffled tables themselves.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from r2d2net.model import BayesianModel, Tensors
from r2d2net.native import library
from r2d2net.nets.linear_path import LinearPath
from r2d2net.posterior import ROWS
from r2d2net.shrinkage.column_shuffles import Block

CACHED = 1 << 20  # elements of a layer's outputs at all shuffled rows of a block
IN_PLACE: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_}
ELEMENTWISE = (*IN_PLACE, nn.Softplus, nn.GELU, nn.SiLU, nn.ELU, nn.Sigmoid, nn.LeakyReLU)


class Parts(NamedTuple):
    """A network that begins with a linear layer, in parts; names are those of its tensors.

    Attributes:
        first: Name of the first linear layer, with a dot unless it is the whole network.
        later: The layers after it.
        prefix: What the names of the later layers' tensors begin with.
        straight: Name of the weights of a linear path beside the layers, if there is one.
    """

    first: str
    later: nn.Sequential
    prefix: str
    straight: str | None


def parts_of(model: BayesianModel[Any]) -> Parts | None:
    """Split a network after its first linear layer.

    Args:
        model: The model of the network.

    Returns:
        The parts; None if the network begins otherwise or shares weights.
    """
    net, prefix, straight = model.net, "", None
    first: nn.Module
    if model.context is not None or any(module._forward_hooks or module._forward_pre_hooks for module in net.modules()):
        return None
    if type(net) is LinearPath:
        net, prefix, straight = net.net, "net.", "linear.weight"
    if type(net) is nn.Linear:
        parts, first = Parts(prefix, nn.Sequential(), prefix, straight), net
    elif isinstance(net, nn.Sequential) and type(net).forward is nn.Sequential.forward and len(net):
        layers = _layers(net)
        name, first = layers[0]
        parts = Parts(f"{prefix}{name}.", nn.Sequential(OrderedDict(layers[1:])), prefix, straight)
    else:
        return None
    names = [f"{parts.first}{name}" for name in _names(first)] + [f"{prefix}{name}" for name in _names(parts.later)]
    known = {slot.name for slot in (*model.bayesian, *model.fixed)} | set(model.frozen)
    known |= {name for name, _ in model.net.named_buffers()}
    is_split = type(first) is nn.Linear and known.issuperset([*names, *([straight] if straight else [])])
    return parts if is_split else None


def _layers(net: nn.Sequential) -> list[tuple[str, nn.Module]]:
    """List layers by name; `named_children` would leave out one that is used twice."""
    modules = net.named_modules(remove_duplicate=False)
    return [(name, module) for name, module in modules if name and "." not in name]


def _names(net: nn.Module) -> list[str]:
    return [name for name, _ in (*net.named_parameters(), *net.named_buffers())]


def most_rows(model: BayesianModel[Any], columns: int) -> int:
    """Return the number of shuffled rows that are best evaluated at a time.

    Args:
        model: The model.
        columns: Number of columns of the table.
    """
    parts = parts_of(model)
    if parts is None:
        return max(ROWS, CACHED // columns)
    if _suits_kernel(model, parts):
        return max(ROWS, CACHED)  # it makes nothing of the size of the activations
    width = dict(model.net.named_parameters())[f"{parts.first}weight"].shape[0]
    return max(ROWS, CACHED // width)


def _suits_kernel(model: BayesianModel[Any], parts: Parts) -> bool:
    """Whether the native kernel is built and knows the network: a hidden layer of ReLU, one output; float32, CPU."""
    later = [module for _, module in _layers(parts.later)]
    knows = [type(module) for module in later] == [nn.ReLU, nn.Linear] and later[1].out_features == 1
    plain = model.dtype == torch.float32 and model.device.type == "cpu"
    return bool(knows) and plain and library.problem() is None


class ShuffledOutputs:
    """Outputs of one draw of a network at a table whose columns can be shuffled.

    Args:
        model: The model.
        weights: One draw of the Bayesian weights.
        fixed: Deterministic parameters of the draw.
        buffers: Buffers of the draw.
        x: The standardised table, (rows, columns).
        centred: Whether to subtract from the outputs their mean over the classes.

    Attributes:
        before: Outputs at the table without shuffling, (rows, outputs).
    """

    def __init__(
        self,
        model: BayesianModel[Any],
        weights: Tensor,
        fixed: Tensor,
        buffers: Tensors,
        x: Tensor,
        *,
        centred: bool,
    ) -> None:
        self.model, self.x, self.centred = model, x, centred
        self.tensors = {**model.parameters(weights, fixed), **buffers, **model.frozen_parts.tensors}
        self.parts = parts_of(model)
        model.net.eval()
        if self.parts is None:
            self.before = self._at(x)
            return
        self.weight = self.tensors[f"{self.parts.first}weight"]  # (units, columns)
        self.start = nn.functional.linear(x, self.weight, self.tensors.get(f"{self.parts.first}bias"))
        straight = self.parts.straight
        self.straight = None if straight is None else self._of_outputs(self.tensors[straight].T)  # (columns, outputs)
        output = torch.cat([self._flat(self._later(rows)) for rows in self.start.split(ROWS)])
        output = output if straight is None else output + nn.functional.linear(x, self.tensors[straight])
        self.before = self._of_outputs(output)
        self.suits_kernel = _suits_kernel(model, self.parts)
        later = _layers(self.parts.later)
        self.hidden: nn.Module | None = None
        if len(later) == 2 and type(later[0][1]) in ELEMENTWISE and type(later[1][1]) is nn.Linear:
            self.hidden, last = later[0][1], self.tensors[f"{self.parts.prefix}{later[1][0]}.weight"]
            self.last = self._of_outputs(last.T).T  # (outputs, units)
            self.units, self.room = self.start.T[:, :0], self.start.new_empty(0)

    def mean_square(self, block: Block) -> Tensor:
        """Compute how much shuffling each input of a block changes the outputs.

        Args:
            block: The shuffled inputs.

        Returns:
            The mean over shuffles and rows of the squared change, summed over outputs, (inputs,).
        """
        if self.parts is None:
            shuffles = block.orders.shape[1]
            before = self.before.repeat(shuffles, 1)
            return torch.stack([self._mean_square(self._at(block.tables(i)) - before) for i in range(len(block))])
        if len(self.parts.later) == 0:
            return self._linear(block)
        return self._deeper(block) if self.hidden is None else self._one_hidden_layer(block)

    def _linear(self, block: Block) -> Tensor:
        weight = self._of_outputs(self.weight.T)  # (columns, outputs)
        if self.straight is not None:
            weight = weight + self.straight
        chosen = weight[block.columns]  # (inputs, columns of an input, outputs)
        return (chosen * (block.second_moment @ chosen)).sum((1, 2))

    def _by_kernel(self, block: Block) -> Tensor | None:
        """Let the native kernel compute changes by inputs of one column; None where it cannot."""
        if not self.suits_kernel or block.columns.shape[1] > 1:
            return None
        columns = block.columns.flatten()
        straight = None if self.straight is None else self.straight[columns, 0].contiguous()
        weight, last = self.weight.T[columns].contiguous(), self.last[0].contiguous()
        return library.relu_changes(self.start, last, weight, straight, block.change[:, 0], block.orders.shape[1])

    def _one_hidden_layer(self, block: Block) -> Tensor:
        found = self._by_kernel(block)
        if found is not None:
            return found
        assert self.hidden is not None
        activate = IN_PLACE.get(type(self.hidden), self.hidden)
        change, units = block.change, self.units  # (units, rows of all shuffles)
        if units.shape[1] < change.shape[2]:
            units = self.units = self.start.T.repeat(1, block.orders.shape[1])
            self.unmoved = self.last @ activate(units.clone())
        weight = self.weight.T[block.columns].mT  # (inputs, units, columns of an input)
        room = self._room_for(len(block), *units.shape)
        if weight.shape[2] == 1:
            torch.addcmul(units, weight, change, out=room)
        else:
            torch.baddbmm(units.expand(len(block), -1, -1), weight, change, out=room)
        outputs = torch.matmul(self.last, activate(room)).sub_(self.unmoved)
        if self.straight is not None:
            outputs += self.straight[block.columns].mT @ change
        return outputs.square_().sum(1).mean(1)

    def _room_for(self, *shape: int) -> Tensor:
        """Return memory that is the same for all blocks: fresh pages would cost as much as the products."""
        size = math.prod(shape)
        if self.room.numel() < size:
            self.room = self.start.new_empty(size)
        return self.room[:size].view(shape)

    def _deeper(self, block: Block) -> Tensor:
        change, shuffles = block.change.mT, block.orders.shape[1]  # (inputs, rows of all shuffles, columns)
        weight = self.weight.T[block.columns]  # (inputs, columns of an input, units)
        start = self.start.repeat(shuffles, 1)
        if weight.shape[1] == 1:
            moved = torch.addcmul(start, change, weight)
        else:
            moved = torch.baddbmm(start.expand(len(block), -1, -1), change, weight)
        rows = max(ROWS, CACHED // moved.shape[2])
        after = torch.cat([self._flat(self._later(part)) for part in moved.flatten(0, 1).split(rows)])
        unmoved = torch.cat([self._flat(self._later(part)) for part in self.start.split(rows)])
        difference = after.view(len(block), shuffles, len(self.x), -1) - unmoved
        outputs = self._of_outputs(difference)
        if self.straight is not None:
            outputs = outputs + (change @ self.straight[block.columns]).view_as(outputs)
        return outputs.square().sum(-1).mean((1, 2))

    def _later(self, rows: Tensor) -> Tensor:
        assert self.parts is not None
        later, prefix = self.parts.later, self.parts.prefix
        output: Tensor = functional_call(later, {name: self.tensors[prefix + name] for name in _names(later)}, (rows,))
        return output

    def _at(self, tables: Tensor) -> Tensor:
        call, net, context = self.model.call, self.model.net, self.model.context
        parts = tables.split(ROWS if context is None else len(tables))
        return self._of_outputs(torch.cat([self._flat(call(net, self.tensors, rows)) for rows in parts]))

    def _of_outputs(self, values: Tensor) -> Tensor:
        """Subtract the mean over the classes, on which no probability depends, if the outputs are logits."""
        return values - values.mean(-1, keepdim=True) if self.centred else values

    @staticmethod
    def _mean_square(change: Tensor) -> Tensor:
        return change.square().sum(-1).mean()

    @staticmethod
    def _flat(output: Tensor) -> Tensor:
        return output.reshape(len(output), -1)
