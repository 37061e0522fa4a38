"""Rows that stand for the average row of training, of which none is a training row.

Of each column K cells are kept: its encoded training cells in ascending order are cut into K equal parts, and the cell
in the middle of each part is taken. So numbers are kept by K quantiles, categories by the shares of their levels. The
cells of each column then get an order of their own: a row of the background joins cells of unrelated rows, and what
belonged together cannot be told from it. With 2 K rows or more the least and the largest cell are not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import ndtri

from r2d2net import checkpoint
from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.input_columns import Columns
from r2d2net.errors import CheckpointError
from r2d2net.manifest import opened
from r2d2net.saved_values import require_values

if TYPE_CHECKING:
    from r2d2net.tables.novelty import Novelty

FILE = "background.safetensors"
ROWS = 32


def learn_background(x: Values, groups: list[list[int]], seed: int) -> Values:
    """Make background rows of the cells of each column.

    Args:
        x: Encoded training rows.
        groups: The inputs that belong to each column.
        seed: Seed of the orders of the cells.

    Returns:
        Encoded rows, (`ROWS`, inputs).
    """
    rng = np.random.default_rng(seed)
    places = ((np.arange(ROWS) + 0.5) / ROWS * len(x)).astype(np.int64)
    background = np.empty((ROWS, x.shape[1]))
    for group in groups:
        cells = x[:, group]
        ascending = cells[np.lexsort(cells.T[::-1])]
        background[:, group] = rng.permutation(ascending[places])
    return background


def save_background(folder: Path, background: Values) -> None:
    """Write the file of the run folder."""
    checkpoint.write(folder / FILE, {"x": torch.from_numpy(background)}, {})


def load_background(folder: Path, columns: Columns, novelty: Novelty, seed: int) -> tuple[Values, bool]:
    """Read the background rows of a run.

    Runs of earlier versions have none: theirs are made of what they do have, the mean of each input (for a level its
    share), numbers as if they were normal within the range of the training rows.

    Args:
        folder: The run folder.
        columns: The columns of the run.
        novelty: The mean of each input.
        seed: Seed of the orders of made cells.

    Returns:
        The rows, and whether they were kept by the fit.

    Raises:
        CheckpointError: The file is damaged or of another run.
    """
    inputs = len(novelty.center)
    with opened(folder) as parts:
        if not parts.has(FILE):
            return _normal_background(columns, novelty.center, seed), False
        tensors, _ = parts.tensors(FILE)
    require_values(tensors, folder / FILE)
    background = tensors.get("x")
    if (
        background is None
        or not background.is_floating_point()
        or background.dim() != 2
        or background.shape[1] != inputs
        or len(background) == 0
    ):
        raise CheckpointError("is of a run with other inputs", value=folder / FILE, fix="fit again")
    return background.double().numpy(), True


def _normal_background(columns: Columns, center: Values, seed: int) -> Values:
    middle = (np.arange(ROWS) + 0.5) / ROWS
    rng = np.random.default_rng(seed)
    background = np.zeros((ROWS, len(center)))
    for column, group in zip(columns.used, columns.groups, strict=True):
        if column.kind == "category":
            ends = np.cumsum(np.maximum(center[group], 0))
            level = np.minimum(np.searchsorted(ends, middle * ends[-1]), len(group) - 1)
            background[np.arange(ROWS), rng.permutation(np.array(group)[level])] = 1.0
        else:
            background[:, group] = center[group] + rng.permutation(ndtri(middle))[:, None]
    return background
