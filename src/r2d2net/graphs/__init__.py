"""Graphs as data: networks that read a whole graph, fitted to rows that are nodes, or to rows that are graphs.

graph = rn.graphs.Graph(x, edge_index)                     # or Graph.of(data) of torch_geometric
posterior = rn.fit(model, ((graph, nodes), y))             # nodes: numbers or a mask
posterior.predict((graph, others)), posterior.predict(graph)
"""

from r2d2net.graphs.block_model import BlockModel, block_model
from r2d2net.graphs.context import Context, rows_in_context
from r2d2net.graphs.graph import Graph, GraphFeatures
from r2d2net.graphs.graph_set import GraphSet
from r2d2net.graphs.reading import labelled_nodes

__all__ = [
    "BlockModel",
    "Context",
    "Graph",
    "GraphFeatures",
    "GraphSet",
    "block_model",
    "labelled_nodes",
    "rows_in_context",
]
