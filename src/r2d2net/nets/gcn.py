"""A graph convolutional network (Kipf and Welling, 2017) in plain torch.

    h' = S h W + b,       S = D^(-1/2) (A + I) D^(-1/2),       ReLU and Dropout between layers

D are the degrees of A + I. For rows that are graphs the mean over the nodes of each is what the last layer reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from r2d2net.errors import require, require_whole


class GraphConvolution(nn.Module):
    """One layer: a linear map of each node, then weighted sums over the node and its neighbours.

    Args:
        inputs: Features of a node.
        outputs: Features after the layer.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, h: Tensor, edge_index: Tensor, weight: Tensor, own: Tensor) -> Tensor:
        h = self.linear(h)
        source, target = edge_index
        return (own * h).index_add(0, target, weight * h[source]) + self.bias


class GCN(nn.Module):
    """A graph convolutional network.

    ``net(x, edge_index)`` has outputs of nodes, ``net(x, edge_index, batch)`` of graphs.

    Args:
        inputs: Features of a node.
        hidden: Widths of the hidden layers.
        outputs: Width of the output.
        dropout: Share of the hidden features that are dropped in training.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        require(isinstance(hidden, Sequence), "hidden", hidden, "use a list of widths, such as [16]")
        for name, value in (("inputs", inputs), ("outputs", outputs)):
            require_whole(name, value)
        widths = [inputs, *hidden, outputs]
        self.layers = nn.ModuleList(GraphConvolution(before, after) for before, after in pairwise(widths))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        source, target = edge_index
        degree = x.new_ones(len(x)).index_add(0, target, x.new_ones(len(target)))
        root = degree.rsqrt().unsqueeze(1)
        weight, own = root[source] * root[target], root.square()
        h = x
        for number, layer in enumerate(self.layers):
            h = layer(h if number == 0 else self.dropout(torch.relu(h)), edge_index, weight, own)
        if batch is None:
            return h
        graphs = int(batch[-1]) + 1
        count = h.new_zeros(graphs, 1).index_add(0, batch, h.new_ones(len(h), 1))
        return h.new_zeros(graphs, h.shape[1]).index_add(0, batch, h) / count
