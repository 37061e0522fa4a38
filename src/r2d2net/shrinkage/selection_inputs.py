"""What a selection is made of: a table and its targets, checked; inputs; groups that are tested together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require
from r2d2net.network_inputs import as_tensors
from r2d2net.shrinkage.input_groups import clusters, similarities

CORRELATED = 0.8  # least similarity of the inputs of a group
FEWEST = 8  # rows; with so few hardly anything can be selected


def as_table(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Check a table and its targets.

    Args:
        x: The table.
        y: The targets.

    Returns:
        Both, the table in float64.
    """
    table = as_tensors(x)
    if isinstance(table, tuple) or table.dim() != 2:
        raise DataError("is no table", argument="x", fix="give one table (rows, inputs)")
    targets = _targets(y)
    if targets.dim() == 0 or len(targets) != len(table):
        rows = 1 if targets.dim() == 0 else len(targets)
        raise DataError(("has ", Value(len(table)), f" rows and y has {rows}"), argument="x", fix="they must agree")
    if len(table) < FEWEST:
        raise DataError(("has ", Value(len(table)), " rows"), argument="x", fix=f"a test takes {FEWEST} or more")
    if not bool(torch.isfinite(table).all()):
        raise DataError("holds a number that is not finite", argument="x", fix="fill in missing cells")
    if not bool(torch.isfinite(targets).all()):
        raise DataError("holds a number that is not finite", argument="y", fix="leave out rows without a target")
    if targets.numel() == 0:
        raise DataError("has no columns", argument="y", fix="give one or more")
    if bool((targets == targets.reshape(-1)[0]).all()):
        raise DataError("holds a single value", argument="y", fix="give targets that differ between rows")
    return table.double().cpu(), targets.cpu()


def _targets(y: Any) -> Tensor:
    try:
        return torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError) as error:
        fix = "give numbers, or classes numbered from 0"
        raise DataError(("of type ", Value(type(y)), " is no array of numbers"), argument="y", fix=fix) from error


def inputs_of(groups: Sequence[Sequence[int]] | None, columns: int) -> list[list[int]]:
    """List the columns of each input, and check that no column belongs to two.

    Args:
        groups: Columns of each input; None for one column each.
        columns: Number of columns.
    """
    if groups is None:
        return [[i] for i in range(columns)]
    inputs = [list(group) for group in groups]
    named = [i for group in inputs for i in group]
    known = bool(inputs) and all(inputs) and all(isinstance(i, (int, np.integer)) and 0 <= i < columns for i in named)
    require(known, "groups", groups, f"use lists of columns from 0 to {columns - 1}, none of them empty")
    require(len(named) == len(set(named)), "groups", groups, "let each column belong to one input only")
    return inputs


def groups_of(x: Tensor, inputs: Sequence[Sequence[int]], correlated: float | None) -> Tensor:
    """Number the groups of inputs that are tested together, by complete-linkage clustering.

    Args:
        x: The table.
        inputs: Columns of each input.
        correlated: Least similarity of two inputs of a group; None for one group each.

    Returns:
        The number of each input's group, (inputs,), from 0 in the order of the inputs.
    """
    if correlated is None or len(inputs) < 2:
        return torch.arange(len(inputs))
    if all(len(columns) == 1 for columns in inputs):
        centred = x[:, [columns[0] for columns in inputs]]
        centred = centred - centred.mean(0)
        scaled = centred / centred.norm(dim=0).clamp(min=1e-300)
        alike = (scaled.T @ scaled).abs()
    else:
        alike = similarities(x, inputs)
    first: dict[int, int] = {}
    return torch.tensor([first.setdefault(label, len(first)) for label in clusters(alike, correlated)])
