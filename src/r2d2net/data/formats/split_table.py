"""Text tables with a column that marks the training rows, read by pandas."""

from __future__ import annotations

from pathlib import Path

import torch

from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.table import Table, table_from_frame


def read_split_table(
    path: Path, target: str, train: str | None = None, *, separator: str = ",", numbered: bool = False
) -> Table:
    """Read a table whose published split is one of its columns.

    Args:
        path: The file, with a header.
        target: The column to predict.
        train: The column that is true (True, T or 1) for training rows; the split it makes is split 0.
        separator: What stands between columns.
        numbered: Whether the first column only numbers the rows.
    """
    import pandas as pd

    kind = "a table"
    with reading(path, kind):
        index = 0 if numbered else None
        frame = pd.read_csv(path, sep=separator, index_col=index, true_values=["T"], false_values=["F"])
        if train is None:
            return table_from_frame(path, frame, target)
        if train not in frame.columns or not frame[train].isin([0, 1]).all():
            raise damaged(path, kind, f"it has no column {train!r} of true and false")
        training = torch.tensor(frame[train].to_numpy(dtype=bool))
        table = table_from_frame(path, frame.drop(columns=train), target)
        split = (torch.nonzero(training)[:, 0], torch.nonzero(~training)[:, 0])
        return Table(table.x, table.y, table.names, (split,), table.classes)
