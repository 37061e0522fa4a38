"""Predictions as CSV, JSON lines or Parquet, beside columns that are copied from the rows as they are.

A file appears under its name when it is complete. Into a pipe, a device or standard output all is written at the end.
Predictions have seven digits in CSV; copied cells have all of theirs.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from r2d2net.columns.cell_parsing import number_text
from r2d2net.errors import ParameterError
from r2d2net.files import is_stream, replace_when_written
from r2d2net.tables.file_reader import PARQUET, is_parquet, require_parquet, stored_types

if TYPE_CHECKING:
    import pandas as pd


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how texts begin that spreadsheets take for formulas


class Write(Protocol):
    """Writes one block: columns that are copied, and predictions."""

    def __call__(self, kept: pd.DataFrame, rows: pd.DataFrame) -> None: ...


@contextmanager
def prediction_writer(
    out: Path | None, stdout: IO[str], form: str, source: Path, *, safe: bool = False
) -> Iterator[Write]:
    """Open the place where predictions are written, block by block.

    Args:
        out: CSV or Parquet file, pipe or device; None for standard output.
        stdout: Standard output.
        form: "csv" or JSON "lines", for standard output.
        source: The file of the rows, whose types copied columns keep in Parquet.
        safe: Whether texts in CSV are escaped that spreadsheets would take for formulas (see `escaped`).

    Yields:
        A function that writes the copied columns and the predictions of a block.

    Raises:
        ParameterError: Nothing can be written under this name.
    """
    if out is None:
        with _spooled(form, safe) as (spool, write):
            yield write
            shutil.copyfileobj(_from_start(spool), stdout)
        return
    if out.is_dir() or not Path(os.path.realpath(out)).parent.is_dir():
        what = "is a folder" if out.is_dir() else "lies in a folder that is not there"
        raise ParameterError(what, argument="out", value=out, fix="give the name of a CSV or Parquet file")
    if out.suffix.lower() not in (".csv", ".txt", ".tsv", "", *PARQUET):
        fix = "predictions are written as .csv or .parquet"
        raise ParameterError(f"ends in {out.suffix}", argument="out", value=out, fix=fix)
    if is_stream(out):
        if is_parquet(out):
            problem = "is a pipe or a device, and Parquet needs a file"
            raise ParameterError(problem, argument="out", value=out, fix="use CSV or another name")
        with _spooled("csv", safe) as (spool, write):
            yield write
            with open(os.open(out, os.O_WRONLY | os.O_APPEND), "w", encoding="utf-8", newline="") as stream:
                shutil.copyfileobj(_from_start(spool), stream)
        return
    require_parquet(out)
    with replace_when_written(out) as partial:
        if is_parquet(out):
            with _parquet(partial, source) as write:
                yield write
        else:
            with open(partial, "w", encoding="utf-8", newline="") as file:
                yield _csv(file, safe)


def copied(column: pd.Series) -> pd.Series:
    """Return cells as plain values with all their digits.

    Args:
        column: The column to copy.

    Returns:
        Whole floats as whole numbers, dates as ISO 8601, None for missing cells.
    """
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        cells = column.astype(str)
    elif pd.api.types.is_float_dtype(column):
        texts = [number_text(value) for value in column.to_numpy()]
        cells = [int(text) if text.lstrip("-").isdigit() else float(text) for text in texts]
    else:
        cells = [_plain(value) for value in column.tolist()]
    return pd.Series(list(cells), index=column.index, dtype=object).mask(column.isna(), None)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float)) else str(value)


@contextmanager
def _spooled(form: str, safe: bool) -> Iterator[tuple[IO[str], Write]]:
    """Open a temporary file and a writer to it."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as spool:
        yield spool, _json_lines(spool) if form == "lines" else _csv(spool, safe)


def _from_start(spool: IO[str]) -> IO[str]:
    spool.seek(0)
    return spool


def _beside(kept: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Join copied columns and predictions."""
    import pandas as pd

    columns = {name: copied(kept[name]).to_numpy() for name in kept.columns}
    return pd.concat([pd.DataFrame(columns, index=rows.index), rows], axis=1)


def escaped(table: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before texts that spreadsheets take for formulas, in cells and names of columns.

    Classes and copied cells are texts of whoever wrote the table: opened in a spreadsheet, one that begins with =, +, -
    or @ is a formula, which may send the other cells away. Numbers stay as they are.

    Args:
        table: The table.

    Returns:
        The table with such texts escaped.

    >>> import pandas as pd
    >>> escaped(pd.DataFrame({"class": ["=1+1", "-3.5", "a"], "=x": [-1.0, 2.0, 3.0]})).to_dict("list")
    {'class': ["'=1+1", '-3.5', 'a'], "'=x": [-1.0, 2.0, 3.0]}
    """
    texts = [place for place in range(table.shape[1]) if table.dtypes.iloc[place].kind not in "biufc"]
    safe = table.copy()
    for place in texts:
        safe.isetitem(place, [_escaped(cell) for cell in table.iloc[:, place].tolist()])
    safe.columns = [_escaped(name) for name in table.columns]
    return safe


def _escaped(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.lstrip().startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _csv(file: IO[str], safe: bool = False) -> Write:
    def write(kept: pd.DataFrame, rows: pd.DataFrame) -> None:
        block = escaped(_beside(kept, rows)) if safe else _beside(kept, rows)
        block.to_csv(file, index=False, header=file.tell() == 0, lineterminator="\n", float_format="%.7g")

    return write


def _json_lines(file: IO[str]) -> Write:
    def write(kept: pd.DataFrame, rows: pd.DataFrame) -> None:
        block = _beside(kept, rows)
        columns = [[_or_null(value) for value in block[name].tolist()] for name in block.columns]
        for cells in zip(*columns, strict=True):
            file.write(json.dumps(dict(zip(block.columns, cells, strict=True)), ensure_ascii=False) + "\n")

    return write


def _or_null(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _parquet(path: Path, source: Path) -> Iterator[Write]:
    """Write Parquet; copied columns have the types of their file, whatever a block of them looks like."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    writer: Any = None

    def write(kept: pd.DataFrame, rows: pd.DataFrame) -> None:
        nonlocal writer
        block = rows.copy()
        for place, name in enumerate(kept.columns):
            block.insert(place, name, kept[name].to_numpy())
        if writer is None:
            types = stored_types(source)
            fields = [pa.field(str(name), types.get(name, pa.string())) for name in kept.columns]
            writer = ParquetWriter(path, pa.schema([*fields, *pa.Schema.from_pandas(rows, preserve_index=False)]))
        writer.write_table(pa.Table.from_pandas(block, schema=writer.schema, preserve_index=False))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
