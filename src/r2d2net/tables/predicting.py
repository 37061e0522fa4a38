"""`r2d2net predict`: rows in, predictions out, a block at a time, so that memory does not grow with the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from r2d2net.columns.column_encoders import Counts
from r2d2net.columns.input_columns import chosen_columns, ignored, notes_of
from r2d2net.errors import DataError, ParameterError
from r2d2net.run.threads import one_thread
from r2d2net.tables.file_reader import encoding_note, read_blocks
from r2d2net.tables.prediction_columns import names_of, prediction_columns
from r2d2net.tables.prediction_writer import prediction_writer
from r2d2net.tables.run_folder import FittedRun
from r2d2net.tables.validation import require_no_spreadsheet


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


def predict_file(
    run: FittedRun,
    data: Path,
    out: Path | None,
    stdout: IO[str],
    *,
    form: str = "csv",
    safe: bool = False,
    level: float | None = None,
    keep: tuple[str, ...] = (),
    draws: int | None = None,
    seed: int | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Summary:
    """Predict all rows of a file into another file, or to standard output.

    Nothing is written under the name of the output, nor to standard output, before all rows are predicted.

    Args:
        run: A finished run.
        data: CSV or Parquet file with the columns of the training table.
        out: CSV or Parquet file to write; None for standard output.
        stdout: Standard output.
        form: "csv" or JSON "lines", for standard output.
        safe: Whether texts in CSV are escaped that spreadsheets would take for formulas.
        level: Level of the intervals; by default the run's.
        keep: Columns to copy beside the predictions.
        draws: Networks drawn from the posterior; by default the run's number.
        seed: Seed of the draws; by default the run's.
        progress: Is given the number of rows predicted so far.

    Returns:
        What was predicted, and notes for the user.

    Raises:
        DataError: The file lacks columns or rows, or is written otherwise than the training table.
        ParameterError: The output cannot be written so, or a column cannot be kept.
    """
    if out is not None and out.exists() and out.samefile(data):
        raise ParameterError("is the file of the rows itself", argument="out", value=out, fix="give another name")
    require_no_spreadsheet(data)
    summary = Summary()
    kept: list[str] = []
    with prediction_writer(out, stdout, form, data, safe=safe) as write:
        for block in read_blocks(data, run.block_rows(draws)):
            if summary.rows == 0:
                summary.extra, kept = _checked(run, data, [str(name) for name in block.columns], keep)
            if len(block) == 0:
                continue
            encoded = run.columns.encode(block, summary.counts)
            interval = run.settings.level if level is None else level
            with one_thread() if len(block) < run.block_rows(draws) else nullcontext():
                prediction = run.predict(encoded.x, draws, seed)
            calibration = run.estimator.posterior_.calibration
            typical = run.typicality(encoded)
            rows = prediction_columns(prediction, typical, encoded.filled, run.task, interval, calibration)
            write(block[kept], rows)
            summary.rows += len(rows)
            summary.unlike += int(rows["unlike"].sum())
            summary.filled += int((encoded.filled > 0).sum())
            progress(summary.rows)
        if summary.rows == 0:
            raise DataError("has no rows", value=data, fix="give at least one")
        summary.opening = encoding_note(data)
        run.columns.require_cells(summary.counts, summary.rows, str(data))
    return summary


def _checked(run: FittedRun, data: Path, names: list[str], keep: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return columns that the model does not know, and those to copy."""
    extra, kept = run.columns.match(names, str(data), *run.task.targets), chosen_columns(keep, names, "keep")
    taken = [name for name in kept if name in names_of(run.task)]
    if taken or len(set(kept)) < len(kept):
        problem = "names a column twice or one that is written anyway"
        raise ParameterError(problem, argument="keep", value=keep, fix="leave it out")
    return [name for name in extra if name not in kept], kept
