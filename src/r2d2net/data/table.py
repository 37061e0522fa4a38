"""`Table`: inputs and targets of a regression or classification with published splits; reading of CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from r2d2net.data.formats.read_errors import reading
from r2d2net.errors import Argument, DataError, ParameterError, Value, require

if TYPE_CHECKING:
    from pandas import DataFrame

FILL = "fill or remove such rows"
Split = tuple[Tensor, Tensor]  # row numbers: train, test


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of inputs and targets.

    Attributes:
        x: Inputs, float32, shape (n, inputs).
        y: Targets, shape (n,): float32 for a regression, int64 labels for a classification.
        names: The name of each input.
        splits: Published train/test splits as pairs of row numbers; empty if there are none.
        classes: The name of each label of a classification.
    """

    x: Tensor
    y: Tensor
    names: tuple[str, ...]
    splits: tuple[Split, ...] = ()
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.x.dim() != 2 or self.y.shape != self.x.shape[:1] or len(self.names) != self.x.shape[1]:
            shapes = f"x {tuple(self.x.shape)}, y {tuple(self.y.shape)}, {len(self.names)} names"
            raise DataError(shapes, fix="give x (n, inputs), y (n,) and a name for each input")
        rows = [part for split in self.splits for part in split]
        if any(len(part) and not 0 <= int(part.min()) <= int(part.max()) < len(self) for part in rows):
            raise DataError(f"a split names rows outside 0 to {len(self) - 1}", fix="give numbers of rows")
        shared = next((k for k, (train, test) in enumerate(self.splits) if bool(torch.isin(test, train).any())), None)
        if shared is not None:
            problem = f"split {shared} has rows that are both for training and for test"
            raise DataError(problem, fix="give each row to one of them")

    def __len__(self) -> int:
        return len(self.y)

    def split(self, k: int = 0) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Select the rows of a published split.

        Args:
            k: The number of the split, counted from 0.

        Returns:
            (x, y) of the training rows and (x, y) of the test rows.

        Raises:
            ParameterError: If there is no such split.
        """
        require(0 <= k < len(self.splits), "k", k, f"the table has {len(self.splits)} splits, counted from 0")
        train, test = self.splits[k]
        return (self.x[train], self.y[train]), (self.x[test], self.y[test])


def read_table(path: str | Path, target: str, inputs: Sequence[str] | None = None) -> Table:
    """Read a .csv (or .csv.gz) or .parquet file with a header.

    Args:
        path: The file.
        target: The column to predict. Numbers make a regression; text or categories make a classification, its
            classes in sorted order.
        inputs: The input columns; all others by default. They must hold numbers (or true/false).

    Returns:
        The table, without splits.

    Raises:
        ParameterError: If a column does not exist.
        DataError: If the file cannot be read, or a column holds something else than finite numbers.
    """
    path = Path(path)
    with reading(path, "a table"):
        frame = _read_frame(path)
    return table_from_frame(path, frame, target, inputs)


def table_from_frame(path: Path, frame: DataFrame, target: str, inputs: Sequence[str] | None = None) -> Table:
    """Convert a data frame to a `Table`; ``path`` is the file it was read from, for messages."""
    frame.columns = [str(name) for name in frame.columns]
    names = [name for name in frame.columns if name != target] if inputs is None else list(inputs)
    missing = [name for name in [target, *names] if name not in frame.columns]
    if missing:
        fix = f"it has {', '.join(map(repr, frame.columns))}"
        raise ParameterError((f"{path} has no column ", Value(missing[0])), fix=fix)
    y, classes = _target(path, frame, target)
    columns = [_numbers(path, frame, name) for name in names]
    x = np.stack(columns, 1) if columns else np.empty((len(frame), 0), np.float32)
    return Table(torch.from_numpy(x), torch.from_numpy(y), tuple(names), classes=classes)


def finite_float32(array: np.ndarray) -> Tensor:
    """Convert an array to float32; a `DataError` says if a value is not finite."""
    with np.errstate(over="ignore"):  # 1e300 is not finite in float32
        values = array.astype(np.float32)
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        problem = ("it holds values that are not finite, such as ", Value(float(array[place])), f" at {place}")
        raise DataError(problem)  # whoever read the file says which it was, and what to do
    return torch.from_numpy(values)


def _read_frame(path: Path) -> DataFrame:
    import pandas as pd

    if path.suffix == ".parquet":
        try:
            return pd.read_parquet(path)
        except ImportError as error:
            raise ParameterError("needs pyarrow", value=path, fix="pip install 'r2d2net[parquet]'") from error
    return pd.read_csv(path)


def _numbers(path: Path, frame: DataFrame, name: str) -> np.ndarray:
    column = frame[name]
    if column.dtype.kind not in "biuf":
        problem = f", column {name!r} holds {column.dtype}, not numbers"
        raise DataError(problem, value=path, fix=("encode it or leave it out of ", Argument("inputs")))
    with np.errstate(over="ignore"):  # 1e300 is not finite in float32
        values = np.array(column, dtype=np.float32)  # a copy: pandas may lend read-only memory
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(f", column {name!r} has no finite number in row {bad[0]}", value=path, fix=FILL)
    return values


def _target(path: Path, frame: DataFrame, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    column = frame[name]
    if column.dtype.kind in "iuf":
        return _numbers(path, frame, name), ()
    if column.isna().any():
        row = int(column.isna().argmax())
        raise DataError(f", column {name!r} is empty in row {row}", value=path, fix=FILL)
    classes, labels = np.unique(column.astype(str).to_numpy(dtype=object), return_inverse=True)
    return labels.astype(np.int64), tuple(str(c) for c in classes)
