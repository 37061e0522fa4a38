"""Outputs of one draw of a network at a table and at the table with shuffled columns.

Shuffling column i changes the output z = W x + b of a first linear layer by W_i (x_i' - x_i) alone. Networks that begin
with such a layer, as perceptrons do, are therefore evaluated from z on: for wide tables that layer is most of the work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from r2d2net.model import BayesianModel, Tensors
from r2d2net.posterior import ROWS


class ShuffledOutputs:
    """Outputs of one draw of a network at a table whose columns can be shuffled.

    Args:
        model: The model.
        weights: One draw of the Bayesian weights.
        fixed: Deterministic parameters of the draw.
        buffers: Buffers of the draw.
        x: The standardised table, (rows, columns).

    Attributes:
        before: Outputs at the table without shuffling, (rows, outputs).
    """

    def __init__(self, model: BayesianModel[Any], weights: Tensor, fixed: Tensor, buffers: Tensors, x: Tensor) -> None:
        self.model, self.x = model, x
        self.tensors = {**model.parameters(weights, fixed), **buffers}
        self.later_layers = _after_first(model, self.tensors)
        model.net.eval()
        self.start = x
        if self.later_layers is not None:
            first = next(model.net.named_children())[0]
            self.weight = self.tensors[f"{first}.weight"]
            self.start = nn.functional.linear(x, self.weight, self.tensors.get(f"{first}.bias"))
        self.before = self._outputs(self.start)

    def shuffled(self, columns: Sequence[int], orders: Sequence[Tensor]) -> Tensor:
        """Compute the outputs after the columns are shuffled together.

        Args:
            columns: Numbers of the columns.
            orders: Permutations of the rows, one for each shuffle.

        Returns:
            The outputs, (orders, rows, outputs).
        """
        values = self.x[:, columns]
        if self.later_layers is not None:
            weight = self.weight[:, columns].T
            starts = [torch.addmm(self.start, values[order] - values, weight) for order in orders]
        else:
            index = torch.tensor(columns, device=self.x.device)
            starts = [self.x.index_copy(1, index, values[order]) for order in orders]
        return self._outputs(torch.cat(starts)).reshape(len(orders), len(self.x), -1)

    def _outputs(self, starts: Tensor) -> Tensor:
        return torch.cat([self._forward(rows).reshape(len(rows), -1) for rows in starts.split(ROWS)])

    def _forward(self, rows: Tensor) -> Tensor:
        if self.later_layers is None:
            return self.model.call(self.model.net, self.tensors, rows)
        tensors = {name: self.tensors[name] for name in _names(self.later_layers)}
        output: Tensor = functional_call(self.later_layers, tensors, (rows,))
        return output


def _after_first(model: BayesianModel[Any], tensors: Tensors) -> nn.Sequential | None:
    """Return the layers after a first linear layer; None if the network begins otherwise or shares its weights."""
    children = list(model.net.named_children())
    if not isinstance(model.net, nn.Sequential) or type(children[0][1]) is not nn.Linear:
        return None
    later_layers = nn.Sequential(OrderedDict(children[1:]))
    return later_layers if all(name in tensors for name in _names(later_layers)) else None


def _names(net: nn.Module) -> list[str]:
    return [name for name, _ in (*net.named_parameters(), *net.named_buffers())]
