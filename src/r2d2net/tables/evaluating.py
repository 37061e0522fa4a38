"""`r2d2net evaluate`: how good a run's predictions of a file with known targets are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from r2d2net.columns.column_encoders import Counts
from r2d2net.columns.input_columns import ignored, notes_of
from r2d2net.columns.phrases import counted
from r2d2net.errors import DataError
from r2d2net.tables.file_reader import digest, encoding_note, read_blocks
from r2d2net.tables.novelty import ALARM, is_unlike
from r2d2net.tables.run_folder import FittedRun
from r2d2net.tables.scores import Scored, constant_losses
from r2d2net.tables.target_scores import TargetScores
from r2d2net.tables.validation import require_no_spreadsheet
from r2d2net.tables.verdict import CONSTANT, judge

SEEN = "its rows include those that the model was trained on, so new rows may be predicted worse"


def evaluate_file(
    run: FittedRun, data: Path, *, level: float | None = None, draws: int | None = None, seed: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Measure the predictions of all rows of a file that have a target.

    Args:
        run: A finished run.
        data: CSV or Parquet file with the columns of the training table and the target.
        level: Level of the intervals; by default the run's.
        draws: Networks drawn from the posterior; by default the run's number.
        seed: Seed of the draws; by default the run's.

    Returns:
        The metrics, ready for JSON, and notes for the user.

    Raises:
        DataError: The file lacks columns, or is written otherwise than the training table.
    """
    require_no_spreadsheet(data)
    task = run.task
    scored = (TargetScores if task.parts else Scored)(task, run.estimator.posterior_.calibration)
    interval = run.settings.level if level is None else level
    counts: Counts = Counter()
    extra = None
    numbers: list[np.ndarray] = []  # of the rows that are scored, from 1
    read = rows = flagged = without = unknown = 0
    for block in read_blocks(data, run.block_rows(draws)):
        if extra is None:
            names = [str(name) for name in block.columns]
            extra = run.columns.match(names, str(data), *task.targets)
            lacking = next((name for name in task.targets if name not in names), None)
            if lacking is not None:
                raise DataError(f"lacks the target {lacking!r}", value=data, fix="`r2d2net predict` needs none")
        y = task.read_from(block)
        there = ~(np.isnan(y) if y.ndim == 1 else np.isnan(y).any(1))
        known = there & (y >= 0 if not task.is_regression else True)
        without, unknown = without + int((~there).sum()), unknown + int((there & ~known).sum())
        read += len(block)
        if not known.any():
            continue
        numbers.append(read - len(block) + np.flatnonzero(known) + 1)
        encoded = run.columns.encode(block[known], counts)
        scored.add(run.predict(encoded.x, draws, seed), y[known], interval)
        flagged += int(is_unlike(run.typicality(encoded)).sum())
        rows += len(encoded.x)
    if rows == 0:
        raise DataError(f"has no row with a known {task.target}", value=data, fix="give at least one")
    run.columns.require_cells(counts, rows, str(data))
    notes = encoding_note(data) + ignored(extra or [])
    if digest(data) == run.content["data"].get("sha256"):
        notes.insert(0, f"{data.name} is the file of the fit: {SEEN}")
    if without:
        notes.append(f"{counted(without, 'row')} without a readable {task.target} left out")
    if unknown:
        notes.append(f"{counted(unknown, 'row')} of classes that the model does not know left out")
    baseline = run.content["baseline"]
    places = np.concatenate(numbers)
    if isinstance(scored, TargetScores):
        verdict = scored.verdict(baseline, places)
    else:
        constant = constant_losses(task, np.concatenate(scored.y), baseline)
        verdict = judge(scored.losses(), {CONSTANT: constant}, places)
    metrics = {
        **scored.metrics(baseline, interval),
        "unlike": flagged / rows,
        "unlike_expected": ALARM,
        "verdict": verdict,
    }
    return metrics, notes + notes_of(counts)
