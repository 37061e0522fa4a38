"""One draw of a network on a table, as it is and with columns shuffled.

Shuffling column i changes what a first linear layer makes of the rows, z = W x + b, by W_i (x_i' - x_i) alone. Networks
that begin with such a layer, as perceptrons do, therefore start from z: for wide tables nearly all work is in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from r2d2net.model import BayesianModel, Tensors
from r2d2net.posterior import ROWS


class ShuffledOutputs:
    """Outputs of one network.

    Args:
        model: The model.
        weights: One draw of its Bayesian weights.
        fixed: Its deterministic parameters.
        buffers: Its buffers.
        x: The table as the network sees it, (rows, columns).

    Attributes:
        before: The outputs at the table as it is, (rows, outputs).
    """

    def __init__(self, model: BayesianModel, weights: Tensor, fixed: Tensor, buffers: Tensors, x: Tensor) -> None:
        self.model, self.x = model, x
        self.tensors = {**model.parameters(weights, fixed), **buffers}
        self.rest = _after_first(model, self.tensors)
        model.net.eval()
        self.start = x
        if self.rest is not None:
            first = next(model.net.named_children())[0]
            self.weight = self.tensors[f"{first}.weight"]
            self.start = nn.functional.linear(x, self.weight, self.tensors.get(f"{first}.bias"))
        self.before = self._outputs(self.start)

    def shuffled(self, columns: Sequence[int], orders: Sequence[Tensor]) -> Tensor:
        """The outputs with these columns in each of these orders of the rows, (orders, rows, outputs)."""
        here = self.x[:, columns]
        if self.rest is not None:
            to_start = self.weight[:, columns].T
            started = [torch.addmm(self.start, here[order] - here, to_start) for order in orders]
        else:
            started = [self.x.index_copy(1, torch.tensor(columns, device=self.x.device), here[o]) for o in orders]
        return self._outputs(torch.cat(started)).reshape(len(orders), len(self.x), -1)

    def _outputs(self, started: Tensor) -> Tensor:
        return torch.cat([self._forward(rows).reshape(len(rows), -1) for rows in started.split(ROWS)])

    def _forward(self, rows: Tensor) -> Tensor:
        if self.rest is None:
            return self.model.call(self.model.net, self.tensors, rows)
        output: Tensor = functional_call(self.rest, {name: self.tensors[name] for name in _names(self.rest)}, (rows,))
        return output


def _after_first(model: BayesianModel, tensors: Tensors) -> nn.Sequential | None:
    """What follows a first linear layer; None where the network does not begin with one, or shares its weights."""
    children = list(model.net.named_children())
    if not isinstance(model.net, nn.Sequential) or type(children[0][1]) is not nn.Linear:
        return None
    rest = nn.Sequential(OrderedDict(children[1:]))
    return rest if all(name in tensors for name in _names(rest)) else None


def _names(net: nn.Module) -> list[str]:
    return [name for name, _ in (*net.named_parameters(), *net.named_buffers())]
