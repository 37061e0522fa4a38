"""`r2d2net explain`: which inputs moved the predictions of single rows away from the average, and how surely.

The average is the mean prediction of the run's background rows, and what an input contributes is its Shapley value over
these (see `r2d2net.shrinkage.contributions` and `background`). Contributions are in the units of the target, or, for
classes, of the probability of the row's predicted class; they add up to the prediction minus the average. Log-normal
and count models multiply: an input that adds a tenth moves a large prediction by more units than a small one, as a note
says. Log-normal predictions are explained with the bound that their means have far outside the training rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from r2d2net.columns.column_encoders import Counts as CellCounts
from r2d2net.columns.input_columns import ignored, notes_of
from r2d2net.columns.phrases import listed
from r2d2net.errors import DataError, ParameterError
from r2d2net.likelihoods.gamma import PositiveAmounts
from r2d2net.likelihoods.log_normal import LogRegression
from r2d2net.likelihoods.negative_binomial import DispersedCounts
from r2d2net.prediction import Classification, Counts
from r2d2net.run.threads import one_thread
from r2d2net.shrinkage import contributions
from r2d2net.tables.background import load_background
from r2d2net.tables.file_reader import encoding_note, read_blocks
from r2d2net.tables.inspecting import relevance_of_run
from r2d2net.tables.novelty import is_unlike
from r2d2net.tables.run_folder import FittedRun
from r2d2net.tables.validation import require_no_spreadsheet

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 200
MOST_INPUTS = 20  # that are told apart; those that rank after them are one input
LONGEST = 60  # characters of a cell
MADE = "the run is of an earlier version and has no background rows: normal ones of its means are used"


def explain_file(
    run: FittedRun,
    data: Path,
    *,
    rows: int = 20,
    target: str | None = None,
    level: float | None = None,
    draws: int | None = None,
    seed: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, Any], list[str]]:
    """Explain the predictions of the first rows of a file.

    Args:
        run: A finished run.
        data: CSV or Parquet file with the columns of the training table.
        rows: How many rows to explain.
        target: Of several targets the one whose prediction is explained; by default the first.
        level: Level of the intervals; by default the run's.
        draws: Networks drawn from the posterior; by default the run's number.
        seed: Seed of the draws and of the orders of inputs; by default the run's.
        progress: Is given how many rows are done, of how many.

    Returns:
        The explanation of each row, ready for JSON, and notes for the user.

    Raises:
        DataError: The file lacks columns or rows, or is written otherwise than the training table.
        ParameterError: The run has no such target.
    """
    targets = run.task.targets
    if target is not None and target not in targets:
        raise ParameterError(
            "is no target of the run", argument="target", value=target, fix=f"use {listed(targets, 'or')}"
        )
    output = targets.index(target or targets[0])
    require_no_spreadsheet(data)
    block = next(iter(read_blocks(data, rows + 1)))
    extra = run.columns.match([str(name) for name in block.columns], str(data), *run.task.targets)
    if len(block) == 0:
        raise DataError("has no rows", value=data, fix="give at least one")
    more, block = len(block) > rows, block.iloc[:rows]
    counts: CellCounts = Counter()
    encoded = run.columns.encode(block, counts)
    run.columns.require_cells(counts, len(block), str(data))
    interval = run.settings.level if level is None else level
    chosen = run.settings.seed if seed is None else seed
    background, kept = load_background(run.folder, run.columns, run.novelty, chosen)
    players, groups = _players(run)
    x = torch.from_numpy(encoded.x)
    prediction = run.predict(encoded.x, draws, chosen)
    labels: list[int | None] = [None] * len(block)
    if isinstance(prediction, Classification):
        labels = [int(label) for label in prediction.label]
    explained: list[dict[str, Any]] = [{} for _ in labels]
    done = 0
    with one_thread():
        for label in dict.fromkeys(labels):
            places = [place for place, other in enumerate(labels) if other == label]
            predict = _predictor(run, label, output, draws, chosen)
            for place in places:
                found = contributions(predict, x[place : place + 1], torch.from_numpy(background), groups, chosen)
                explained[place] = _summary(found, players, interval)
                done += 1
                progress(done, len(block))
    unlike = is_unlike(run.typicality(encoded)).tolist()
    cells = [_cells(block, place) for place in range(len(block))]
    for place, entry in enumerate(explained):
        entry |= {"row": place + 1, "unlike": unlike[place]}
        label = labels[place]
        if label is not None:
            entry["class"] = run.task.classes[label]
        for part in entry["contributions"]:
            part["value"] = cells[place].get(part["input"])
    notes = [*encoding_note(data), *ignored(extra), *notes_of(counts), *([] if kept else [MADE])]
    scale = "probability of the class" if isinstance(prediction, Classification) else f"units of {targets[output]}"
    if isinstance(prediction, (LogRegression, PositiveAmounts, Counts, DispersedCounts)):
        notes.append(
            f"contributions are in units of {targets[output]}, and the model multiplies: the same input moves a large "
            "prediction by more units than a small one"
        )
    if isinstance(prediction, LogRegression):
        notes.append("of log-normal predictions their average over the draws is explained; `predict` gives the median")
    if more:
        first = "row of the file is" if rows == 1 else f"{rows} rows of the file are"
        notes.append(f"the first {first} explained: --rows takes up to {MOST_ROWS}")
    where = {"run": str(run.folder), "data": str(data), "target": targets[output]}
    explanation = {**where, "scale": scale, "level": interval}
    return {**explanation, "rows": explained}, notes


def _players(run: FittedRun) -> tuple[list[str], list[list[int]]]:
    """Return the inputs that are told apart and their columns: those that rank first, and all others as one."""
    groups = dict(zip(run.columns.names, run.columns.groups, strict=True))
    ranked = [entry["name"] for entry in relevance_of_run(run.folder) if entry["name"] in groups]
    ranked += [name for name in groups if name not in set(ranked)]
    first = ranked if len(ranked) <= MOST_INPUTS else ranked[: MOST_INPUTS - 1]
    rest = ranked[len(first) :]
    players, columns = list(first), [groups[name] for name in first]
    if rest:
        players.append(f"{len(rest):,} other inputs")
        columns.append([i for name in rest for i in groups[name]])
    return players, columns


def _predictor(
    run: FittedRun, label: int | None, output: int, draws: int | None, seed: int
) -> Callable[[Tensor], Tensor]:
    """Return a function from rows to the predictions of all draws: means of a target, or probabilities of a class."""

    def predict(rows: Tensor) -> Tensor:
        samples = run.predict(rows.numpy(), draws, seed).samples.double()
        return samples.reshape(*samples.shape[:2], -1)[..., output] if label is None else samples[..., label]

    return predict


def _summary(found: Any, players: list[str], level: float) -> dict[str, Any]:
    """Means and intervals over draws of one row's prediction, average and contributions, the largest first."""
    values = found.values[:, 0].numpy()  # (draws, inputs)
    mean, errors = values.mean(0), found.sampling_error[0].numpy()
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    parts = [
        {
            "input": players[i],
            "contribution": float(mean[i]),
            "low": float(low[i]),
            "high": float(high[i]),
            "sampling_error": float(errors[i]),
        }
        for i in np.argsort(-np.abs(mean), kind="stable")
    ]
    ends = np.quantile(found.prediction[:, 0].numpy(), [(1 - level) / 2, (1 + level) / 2])
    return {
        "prediction": float(found.prediction.mean()),
        "low": float(ends[0]),
        "high": float(ends[1]),
        "average": float(found.average.mean()),
        "contributions": parts,
    }


def _cells(block: pd.DataFrame, place: int) -> dict[str, str]:
    row = block.iloc[place]
    missing = row.isna()
    return {
        str(name): "(missing)" if missing[name] else " ".join(str(row[name]).split())[:LONGEST] for name in row.index
    }
