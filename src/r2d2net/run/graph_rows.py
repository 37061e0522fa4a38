"""Data of graphs as rows of numbers: the graph goes to the model as its context, and the rows are nodes or graphs.

((graph, nodes), y)                            rows are nodes, by number or mask
(graphs, y), ((graphs, numbers), y)            rows are graphs
a Data of torch_geometric with a train_mask    the nodes of its mask
a list, Dataset or DataLoader of Data          rows are graphs, with their targets
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from r2d2net.errors import DataError, ParameterError, Value
from r2d2net.graphs import Context, GraphSet, labelled_nodes, rows_in_context
from r2d2net.model import BayesianModel


def in_context(
    model: BayesianModel[Any], data: Any, validation: Any, batch_size: int | None, standardize: bool
) -> tuple[BayesianModel[Any], Any, Any, int | None]:
    """Give a model the graph that data name, and leave rows of numbers; other data are left as they are.

    Args:
        model: The model.
        data: The training data.
        validation: The validation data, a share or None.
        batch_size: Rows of a step; None for the default, or that of a DataLoader.
        standardize: Whether to standardise the features of the nodes, over all nodes.

    Returns:
        The model, data, validation data and batch size.

    Raises:
        DataError: If nodes and targets do not fit together.
        ParameterError: If validation rows are of another graph.
    """
    if not isinstance(model, BayesianModel):
        return model, data, validation, batch_size  # refused with the other arguments
    if isinstance(data, DataLoader) and batch_size is None and _is_graph(_first(data)):
        batch_size = data.batch_size
    known = _rows_and_targets(data, "data")
    if known is None:
        return model, data, validation, batch_size
    context, rows, y = known
    if isinstance(validation, (tuple, list, DataLoader, Dataset)):
        held = _rows_and_targets(validation, "validation")
        if held is not None:
            if not context.is_same(held[0]):
                fix = "give rows of the graph in data"
                raise ParameterError("has another graph", argument="validation", value=held[0], fix=fix)
            validation = held[1:]
    return model.on(context.standardized() if standardize else context), (rows, y), validation, batch_size


def rows_are_nodes(model: object) -> bool:
    """Tell whether a model's rows are nodes of a graph, of which a pass has all."""
    return isinstance(model, BayesianModel) and model.context is not None and model.context.whole_pass


def _rows_and_targets(data: Any, name: str) -> tuple[Context, Tensor, Any] | None:
    """Return the context, numbers of its rows and their targets; None if the data are not of graphs."""
    if _is_graph(data):
        (graph, nodes), y = labelled_nodes(data)
        return graph, nodes, y
    if isinstance(data, (tuple, list)) and len(data) == 2 and not _is_graph(data[0]):
        named = rows_in_context(data[0])
        if named is None:
            return None
        (context, rows), y = named, data[1]
        targets = len(y) if hasattr(y, "__len__") else -1
        if targets == len(context) > len(rows):
            y = torch.as_tensor(y)[rows.to(y.device) if isinstance(y, Tensor) else rows]  # targets of all rows
        elif targets != len(rows):
            problem = ("names ", Value(len(rows)), f" rows of {context} and has {targets} targets")
            raise DataError(problem, argument=name, fix="give a target for each of them, or for all rows of the graph")
        return context, rows, y
    return _graphs_and_targets(data, name) if _is_graph(_first(data)) else None


def _graphs_and_targets(data: Any, name: str) -> tuple[Context, Tensor, Any]:
    source = getattr(data, "dataset", data)
    if len(source) == 1 and getattr(source[0], "train_mask", None) is not None:
        (graph, nodes), y = labelled_nodes(source[0])
        return graph, nodes, y
    targets = [getattr(source[i], "y", None) for i in range(len(source))]
    if any(y is None for y in targets):
        raise DataError("has graphs without y", argument=name, fix="give (graphs, y)")
    graphs = GraphSet.of(source)
    y = torch.cat([torch.as_tensor(y).reshape(1, -1) for y in targets])
    return graphs, graphs.rows(), y.squeeze(1) if y.shape[1] == 1 else y


def _is_graph(thing: Any) -> bool:
    """Whether this is a graph of torch_geometric or alike, and not one of ours."""
    return not isinstance(thing, (Tensor, Context)) and getattr(thing, "edge_index", None) is not None


def _first(data: Any) -> Any:
    """Return the first item of a list, Dataset or DataLoader, if it can be asked for by a number.

    Items of a DataLoader without batches of its own may be asked for by lists. A Dataset may draw as it is asked.
    """
    if isinstance(data, DataLoader) and data.batch_sampler is None:
        return None
    source: Any = data.dataset if isinstance(data, DataLoader) else data
    indexed = isinstance(source, (list, Dataset)) and hasattr(source, "__len__") and hasattr(source, "__getitem__")
    with torch.random.fork_rng(devices=[]):
        return source[0] if indexed and len(source) else None
