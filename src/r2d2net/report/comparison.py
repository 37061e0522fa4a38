"""Our results beside the paper's figures, cell by cell: mean +- standard error over replicates, and how they compare.

    better          ours is better, by more than two standard errors of the difference
    within error    the two differ by less
    worse           ours is worse, by more
    one run         ours has no standard error, so no more than the difference is known
    not run         we have no result

The paper gives standard deviations in some tables only; where it does they enter the error of the difference, as those
of one run, since the paper does not say of how many they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from r2d2net.report.paper_tables import Figure, figures

LOWER_IS_BETTER = {"mse", "rmse", "nll", "inference_error", "function_error", "function_distance", "ece", "brier"}
ERRORS = 2.0  # standard errors beyond which a difference counts


class Compared(NamedTuple):
    """One entry of a table: our mean over replicates and the paper's figure."""

    setting: str
    row: str
    metric: str
    mean: float | None
    error: float | None  # standard error of the mean; None with one replicate
    replicates: int
    paper: Figure | None

    @property
    def mark(self) -> str:
        """How ours compares with the paper's; "" where the paper has no figure."""
        if self.mean is None:
            return "not run"
        if self.paper is None:
            return ""
        if self.error is None:
            return "one run"
        difference = self.paper.value - self.mean if self.metric in LOWER_IS_BETTER else self.mean - self.paper.value
        error = math.hypot(self.error, self.paper.sd or 0.0)
        if abs(difference) <= ERRORS * error:
            return "within error"
        return "better" if difference > 0 else "worse"


def compare(
    results: Iterable[dict[str, Any]],
    table: str,
    metrics: Sequence[str],
    *,
    expected: Iterable[tuple[str, str]] = (),
) -> list[Compared]:
    """All entries of a table.

    Args:
        results: Result files whose settings have ``setting`` and ``row``, and whose result has the metrics.
        table: The paper's table; "" where it has none.
        metrics: Which numbers to compare.
        expected: (setting, row) of cells that were asked for, whether or not there is a result.
    """
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    keys = dict.fromkeys((setting, row) for setting, row in expected)
    for one in results:
        setting, row = one["settings"]["setting"], one["settings"]["row"]
        keys[setting, row] = None
        for metric in metrics:
            if one["result"].get(metric) is not None:
                values[setting, row, metric].append(float(one["result"][metric]))
    keys |= dict.fromkeys((s, r) for t, s, r, m in figures() if t == table and m in metrics)
    return [_entry(s, r, m, values[s, r, m], figures().get((table, s, r, m))) for s, r in keys for m in metrics]


def _entry(setting: str, row: str, metric: str, values: list[float], paper: Figure | None) -> Compared:
    if not values:
        return Compared(setting, row, metric, None, None, 0, paper)
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Compared(setting, row, metric, fmean(values), error, len(values), paper)


def markdown(entries: Sequence[Compared], metric: str) -> str:
    """One metric's table: a line for each row, a column for each setting; ours, the paper's in brackets, the mark."""
    chosen = [entry for entry in entries if entry.metric == metric]
    settings = list(dict.fromkeys(entry.setting for entry in chosen))
    rows = list(dict.fromkeys(entry.row for entry in chosen))
    cells = {(entry.setting, entry.row): entry for entry in chosen}
    lines = ["| " + " | ".join(["row", *settings]) + " |", "|" + "---|" * (len(settings) + 1)]
    for row in rows:
        texts = [_text(cells[s, row]) if (s, row) in cells else "" for s in settings]
        lines.append("| " + " | ".join([row, *texts]) + " |")
    return "\n".join(lines) + "\n"


def _text(entry: Compared) -> str:
    if entry.mean is None and entry.paper is None:
        return ""
    ours = "-" if entry.mean is None else number(entry.mean)
    if entry.error is not None:
        ours += f" ± {number(entry.error)}"
    paper = "" if entry.paper is None else f" ({number(entry.paper.value)})"
    mark = f", {entry.mark}" if entry.mark else ""
    return f"{ours}{paper}{mark}"


def number(value: float) -> str:
    """Four digits, none of them lost to rounding of large numbers.

    >>> number(0.01236), number(9.381), number(98.754), number(2720.93)
    ('0.01236', '9.381', '98.75', '2721')
    """
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
