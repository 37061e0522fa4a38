"""`r2d2net predict`: rows in, predictions out, a block at a time, so that memory does not grow with the file."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from r2d2net.errors import DataError, ParameterError
from r2d2net.files import replace_when_written
from r2d2net.tables.checking import require_no_spreadsheet
from r2d2net.tables.column_kinds import Counts
from r2d2net.tables.columns import chosen, ignored, notes_of
from r2d2net.tables.reading import PARQUET, encoding_note, is_parquet, read_blocks, require_parquet
from r2d2net.tables.rows import names_of, prediction_columns
from r2d2net.tables.run_folder import FittedRun

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Summary:
    """What was predicted."""

    rows: int = 0
    unlike: int = 0
    filled: int = 0
    opening: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=Counter)

    @property
    def notes(self) -> list[str]:
        filled = f"{self.filled:,} of {self.rows:,} rows are predicted with cells filled in: see the column filled"
        return self.opening + ignored(self.extra) + notes_of(self.counts) + [filled] * (self.filled > 0)


class Write(Protocol):
    """Writes one block of predictions."""

    def __call__(self, block: pd.DataFrame) -> None: ...


def predict_file(
    run: FittedRun,
    data: Path,
    out: Path | None,
    stdout: IO[str],
    *,
    form: str = "csv",
    level: float | None = None,
    keep: tuple[str, ...] = (),
    draws: int | None = None,
    seed: int | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Summary:
    """Predict all rows of a file into another, or to standard output as "csv" or JSON "lines".

    Nothing is written under the name of the output, nor to standard output, before all rows are predicted.
    """
    if out is not None and out.exists() and out.samefile(data):
        raise ParameterError(f"-o {out} is the file of the rows itself: give another name")
    require_no_spreadsheet(data)
    summary = Summary()
    kept: list[str] = []
    with _writing(out, stdout, form) as write:
        for block in read_blocks(data, run.block_rows(draws)):
            if summary.rows == 0:
                summary.extra, kept = _checked(run, data, [str(name) for name in block.columns], keep)
            if len(block) == 0:
                continue
            encoded = run.columns.encode(block, summary.counts)
            interval = run.settings.level if level is None else level
            prediction = run.predict(encoded.x, draws, seed)
            rows = prediction_columns(prediction, run.typicality(encoded), encoded.filled, run.task, interval)
            for place, name in enumerate(kept):
                rows.insert(place, name, block[name].to_numpy())
            write(rows)
            summary.rows += len(rows)
            summary.unlike += int(rows["unlike"].sum())
            summary.filled += int((encoded.filled > 0).sum())
            progress(summary.rows)
        if summary.rows == 0:
            raise DataError(f"{data} has no rows: give at least one")
        summary.opening = encoding_note(data)
        run.columns.require_cells(summary.counts, summary.rows, str(data))
    return summary


def _checked(run: FittedRun, data: Path, found: list[str], keep: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Columns that the model does not know, and those to copy."""
    extra, kept = run.columns.match(found, str(data), run.task.target), chosen(keep, found, "keep")
    taken = [name for name in kept if name in names_of(run.task)]
    if taken or len(set(kept)) < len(kept):
        raise ParameterError(
            f"--keep {','.join(keep)} names a column twice or one that is written anyway: leave it out"
        )
    return [name for name in extra if name not in kept], kept


@contextmanager
def _writing(out: Path | None, stdout: IO[str], form: str) -> Iterator[Write]:
    """How blocks are written: to a file that appears when complete, or at the end to standard output."""
    if out is None:
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as spool:
            yield _json_lines(spool) if form == "lines" else _csv(spool)
            spool.seek(0)
            shutil.copyfileobj(spool, stdout)
        return
    if out.is_dir() or not out.parent.is_dir():
        what = "is a folder" if out.is_dir() else "lies in a folder that is not there"
        raise ParameterError(f"-o {out} {what}: give the name of a CSV or Parquet file")
    if out.suffix.lower() not in (".csv", ".txt", ".tsv", "", *PARQUET):
        raise ParameterError(f"-o {out} ends in {out.suffix}: predictions are written as .csv or .parquet")
    require_parquet(out)
    with replace_when_written(out) as partial:
        if is_parquet(out):
            with _parquet(partial) as write:
                yield write
        else:
            with open(partial, "w", encoding="utf-8", newline="") as file:
                yield _csv(file)


def _csv(file: IO[str]) -> Write:
    def write(block: pd.DataFrame) -> None:
        block.to_csv(file, index=False, header=file.tell() == 0, lineterminator="\n", float_format="%.7g")

    return write


def _json_lines(file: IO[str]) -> Write:
    def write(block: pd.DataFrame) -> None:
        block.to_json(file, orient="records", lines=True, force_ascii=False)

    return write


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    writer: Any = None

    def write(block: pd.DataFrame) -> None:
        nonlocal writer
        if writer is None:
            table = pa.Table.from_pandas(block, preserve_index=False)
            writer = ParquetWriter(path, table.schema)
        else:
            table = pa.Table.from_pandas(block, schema=writer.schema, preserve_index=False)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
