"""One graph as the context of rows that are its nodes: the network reads all of it, and outputs are those of nodes.

outputs at nodes i = net(x, edge_index)[i],        x: (nodes, features), edge_index: (2, edges) from source to target
"""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, Value
from r2d2net.graphs.context import Context, Pass, finite_numbers, whole_numbers


class Graph(Context):
    """A graph with features of its nodes.

    Args:
        x: Features of the nodes, (nodes, features). `fit` standardises them over all nodes, as it does tables.
        edge_index: Source and target of each edge, (2, edges), as torch_geometric has them: an edge of an undirected
            graph is there twice.
        edge_attr: Numbers of each edge, (edges,) or (edges, ...), such as weights; the network then has them as its
            third argument.

    Raises:
        DataError: If the tensors are no graph.

    Example:
        >>> Graph(torch.eye(3), [[0, 1, 1, 2], [1, 0, 2, 1]])
        Graph(3 nodes, 4 edges, 3 features)
    """

    whole_pass = True

    def __init__(self, x: Any, edge_index: Any, edge_attr: Any = None) -> None:
        self.x, self.edge_index = finite_numbers(x, "x"), whole_numbers(edge_index, "edge_index")
        if self.x.dim() != 2 or self.x.numel() == 0:
            raise DataError(("has shape ", Value(tuple(self.x.shape))), argument="x", fix="give (nodes, features)")
        if self.edge_index.dim() != 2 or len(self.edge_index) != 2:
            fix = "give (2, edges): sources and targets"
            raise DataError(("has shape ", Value(tuple(self.edge_index.shape))), argument="edge_index", fix=fix)
        wrong = (self.edge_index < 0) | (self.edge_index >= len(self.x))
        if bool(wrong.any()):
            problem = ("names node ", Value(int(self.edge_index[wrong][0])))
            raise DataError(problem, argument="edge_index", fix=f"use numbers from 0 to {len(self.x) - 1}")
        self.edge_attr = None if edge_attr is None else finite_numbers(edge_attr, "edge_attr")
        if self.edge_attr is not None and self.edge_attr.shape[:1] != self.edge_index.shape[1:]:
            problem = ("has shape ", Value(tuple(self.edge_attr.shape)))
            raise DataError(problem, argument="edge_attr", fix=f"give one entry for each of {self.edges} edges")

    @classmethod
    def of(cls, data: Any) -> Self:
        """Convert a `torch_geometric.data.Data`, or any object with the attributes x and edge_index.

        Args:
            data: The object; its ``edge_weight`` or ``edge_attr`` come with it.

        Returns:
            The graph.

        Raises:
            ParameterError: If it lacks features or edges.
        """
        x, edge_index = getattr(data, "x", None), getattr(data, "edge_index", None)
        if x is None or edge_index is None:
            lacks = "x" if x is None else "edge_index"
            fix = "give a graph with features: torch.eye(nodes) stands for nodes without"
            raise ParameterError(("of type ", Value(type(data)), f" has no {lacks}"), argument="data", fix=fix)
        weight = getattr(data, "edge_weight", None)
        return cls(x, edge_index, getattr(data, "edge_attr", None) if weight is None else weight)

    def __repr__(self) -> str:
        return f"Graph({len(self)} nodes, {self.edges} edges, {self.x.shape[1]} features)"

    def __len__(self) -> int:
        return len(self.x)

    @property
    def edges(self) -> int:
        """Number of edges, each direction counted."""
        return self.edge_index.shape[1]

    @property
    def features(self) -> Tensor:
        return self.x

    def with_features(self, x: Tensor) -> Self:
        changed = copy.copy(self)
        changed.x = x
        return changed

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.x, self.edge_index) if self.edge_attr is None else (self.x, self.edge_index, self.edge_attr)

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        if (self.x.device, self.x.dtype) == (device, dtype):
            return self
        moved = self.with_features(self.x.to(device, dtype))
        moved.edge_index = self.edge_index.to(device)
        moved.edge_attr = None if self.edge_attr is None else self.edge_attr.to(device, dtype)
        return moved

    def outputs(self, run: Pass, rows: Tensor) -> Any:
        every = run(*self.tensors())
        return every[rows] if isinstance(every, Tensor) else every


class GraphFeatures(Context):
    """A graph whose features are the rows: tables of features, one or several under each other, in place of its own.

    Args:
        graph: The graph.
    """

    whole_pass = True

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def features(self) -> Tensor:
        return self.graph.x

    def with_features(self, x: Tensor) -> Self:
        return type(self)(self.graph.with_features(x))

    def tensors(self) -> tuple[Tensor, ...]:
        return self.graph.tensors()

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        return type(self)(self.graph.to(device, dtype))

    def outputs(self, run: Pass, rows: Tensor) -> Any:
        others = self.graph.tensors()[1:]
        return torch.cat([run(table, *others) for table in rows.split(len(self))])
