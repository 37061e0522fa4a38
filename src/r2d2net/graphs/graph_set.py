"""Many graphs as the context of rows that are graphs: a batch is one graph of several components.

outputs at graphs i = net(x, edge_index, batch),       batch: for each node the place of its graph in the batch
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value
from r2d2net.graphs.context import Context, Pass
from r2d2net.graphs.graph import Graph


class GraphSet(Context):
    """Graphs with features of their nodes, of the same number.

    Args:
        graphs: The graphs; all or none have ``edge_attr``, which the network then has as its third argument, before
            ``batch``.

    Raises:
        DataError: If there is no graph, or they do not fit together.

    Example:
        >>> one = Graph(torch.eye(3), [[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> GraphSet([one, one])
        GraphSet(2 graphs, 6 nodes, 8 edges, 3 features)
    """

    def __init__(self, graphs: Iterable[Graph]) -> None:
        graphs = list(graphs)
        if not graphs:
            raise DataError("has 0 graphs", argument="graphs", fix="give at least one")
        widths = sorted({graph.x.shape[1] for graph in graphs})
        if len(widths) > 1:
            problem = ("has graphs of ", Value(widths[0]), f" and of {widths[1]} features")
            raise DataError(problem, argument="graphs", fix="they must agree")
        if len({None if graph.edge_attr is None else graph.edge_attr.shape[1:] for graph in graphs}) > 1:
            raise DataError("differ in edge_attr", argument="graphs", fix="give all of them the same or none")
        sizes, edges = torch.tensor([[len(graph), graph.edges] for graph in graphs]).unbind(1)
        self.x = torch.cat([graph.x for graph in graphs])
        self.edge_index = torch.cat([graph.edge_index for graph in graphs], 1)  # each from 0
        attributes = [graph.edge_attr for graph in graphs if graph.edge_attr is not None]
        self.edge_attr = torch.cat(attributes) if attributes else None
        self.sizes, self.edges = sizes, edges

    @classmethod
    def of(cls, data: Any) -> Self:
        """Convert graphs of torch_geometric: a list, a data set, or a DataLoader, whose data set is taken.

        Args:
            data: The graphs.

        Returns:
            The graphs, in their order.
        """
        source = getattr(data, "dataset", data)
        items: Sequence[Any] = [source[i] for i in range(len(source))]
        return cls(Graph.of(item) for item in items)

    def __repr__(self) -> str:
        edges = int(self.edges.sum())
        return f"GraphSet({len(self)} graphs, {len(self.x)} nodes, {edges} edges, {self.x.shape[1]} features)"

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def features(self) -> Tensor:
        return self.x

    def with_features(self, x: Tensor) -> Self:
        changed = copy.copy(self)
        changed.x = x
        return changed

    def tensors(self) -> tuple[Tensor, ...]:
        every = (self.x, self.edge_index, self.sizes, self.edges)
        return every if self.edge_attr is None else (*every, self.edge_attr)

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        if (self.x.device, self.x.dtype) == (device, dtype):
            return self
        moved = self.with_features(self.x.to(device, dtype))
        moved.edge_index = self.edge_index.to(device)
        moved.edge_attr = None if self.edge_attr is None else self.edge_attr.to(device, dtype)
        moved.sizes, moved.edges = self.sizes.to(device), self.edges.to(device)
        return moved

    def batch(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Join graphs to one.

        Args:
            rows: Numbers of the graphs, (graphs,).

        Returns:
            x, edge_index, edge_attr if there is one, and for each node the place of its graph among ``rows``.
        """
        sizes, edges = self.sizes[rows], self.edges[rows]
        nodes, batch = _ranges(self.sizes.cumsum(0)[rows] - sizes, sizes)
        links, owner = _ranges(self.edges.cumsum(0)[rows] - edges, edges)
        edge_index = self.edge_index[:, links] + (sizes.cumsum(0) - sizes)[owner]
        attributes = () if self.edge_attr is None else (self.edge_attr[links],)
        return self.x[nodes], edge_index, *attributes, batch

    def outputs(self, run: Pass, rows: Tensor) -> Any:
        found = run(*self.batch(rows))
        if isinstance(found, Tensor) and found.shape[:1] != rows.shape:
            problem = ("returns shape ", Value(tuple(found.shape)), f" for {len(rows)} graphs")
            raise DataError(problem, argument="net", fix="pool over the nodes of each graph, by its third argument")
        return found


def _ranges(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of several ranges after each other, and for each the place of its range."""
    owner = torch.repeat_interleave(torch.arange(len(starts), device=starts.device), lengths)
    within = torch.arange(len(owner), device=starts.device) - (lengths.cumsum(0) - lengths)[owner]
    return starts[owner] + within, owner
