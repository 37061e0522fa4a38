"""Training data from a graph that has targets and masks, such as `torch_geometric.data.Data`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from r2d2net.errors import ParameterError, Value
from r2d2net.graphs.graph import Graph


def labelled_nodes(data: Any, mask: str = "train_mask") -> tuple[tuple[Graph, Tensor], Tensor]:
    """Select the nodes of a mask with their targets, as `fit` takes them for ``data`` and ``validation``.

    Args:
        data: A `torch_geometric.data.Data`, or any object with the attributes x, edge_index, y and the mask.
        mask: Name of the mask.

    Returns:
        ((graph, nodes), y).

    Raises:
        ParameterError: If it lacks targets or the mask.
    """
    graph, y, chosen = Graph.of(data), getattr(data, "y", None), getattr(data, mask, None)
    if y is None or chosen is None:
        problem = ("of type ", Value(type(data)), f" has no {'y' if y is None else mask}")
        raise ParameterError(problem, argument="data", fix="give ((graph, nodes), y)")
    if chosen.dim() != 1:
        form = (f" {mask} has shape ", Value(tuple(chosen.shape)))
        raise ParameterError(form, argument="data", fix="choose one of its splits: data.train_mask[:, 0]")
    nodes = graph.rows(chosen)
    return (graph, nodes), y[nodes]
