"""Our results beside the paper's figures, cell by cell: mean +- standard error over replicates, and how they compare.

    better          ours is better, by more than the error of the difference
    within error    the two differ by less
    worse           ours is worse, by more
    few runs        ours are fewer than three replicates, whose interval would hold nearly anything
    not run         we have no result
    other measure   the two do not measure the same, so that neither is better

The error is that of a 95% interval: our standard error times Student's t of so few replicates (4.3 with three). With
two it would be 12.7: figures far apart would be within error, so there is no verdict. The paper gives standard
deviations in some tables only; where it does they enter twice, as those of one run, since the paper does not say of how
many they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.stats import t as student

from r2d2net.paper.report.paper_tables import Figure, figures
from r2d2net.report.document import Cell, Comparison

LOWER_IS_BETTER = {
    "mse",
    "rmse",
    "nll",
    "inference_error",
    "function_error",
    "function_distance",
    "ece",
    "brier",
    "fpr95",
}
CONFIDENCE = 0.95
MARKS = ("better", "within error", "worse", "few runs", "not run", "other measure")
LEAST_RUNS = 3  # replicates for a verdict
WIDEST = 6  # settings beside each other in a table


class Compared(NamedTuple):
    """One entry of a table: our mean over replicates and the paper's figure."""

    setting: str
    row: str
    metric: str
    mean: float | None
    error: float | None  # standard error of the mean; None with one replicate
    replicates: int
    paper: Figure | None
    same_measure: bool = True  # as the paper's

    @property
    def mark(self) -> str:
        """How ours compares with the paper's; "" where the paper has no figure."""
        if self.mean is None:
            return "not run"
        if self.paper is None:
            return ""
        if not self.same_measure:
            return "other measure"
        if self.error is None or self.replicates < LEAST_RUNS:
            return "few runs"
        difference = self.paper.value - self.mean if self.metric in LOWER_IS_BETTER else self.mean - self.paper.value
        times = float(student.ppf((1 + CONFIDENCE) / 2, self.replicates - 1))
        if abs(difference) <= math.hypot(times * self.error, 2 * (self.paper.sd or 0.0)):
            return "within error"
        return "better" if difference > 0 else "worse"

    @property
    def cell(self) -> Cell | None:
        """The entry as a table shows it; None where there is nothing to show."""
        if self.mean is None and self.paper is None:
            return None
        return Cell(self.ours, self.theirs, self.mark)

    @property
    def ours(self) -> str:
        """Our mean and its standard error."""
        return mean_and_error(self.mean, self.error)

    @property
    def theirs(self) -> str:
        """The paper's figure; "" where it has none."""
        return "" if self.paper is None else mean_and_error(self.paper.value, self.paper.sd)


def compare(
    results: Iterable[dict[str, Any]],
    table: str,
    metrics: Sequence[str],
    *,
    expected: Iterable[tuple[str, str]] = (),
    same_measure: bool = True,
) -> list[Compared]:
    """All entries of a table, those of the paper first and in its order.

    Args:
        results: Result files whose settings have ``setting`` and ``row``, and whose result has the metrics.
        table: The paper's table; "" where it has none.
        metrics: Which numbers to compare.
        expected: (setting, row) of cells that were asked for, whether or not there is a result.
        same_measure: Whether ours and the paper's measure the same on the same data.
    """
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    keys = dict.fromkeys((s, r) for t, s, r, m in figures() if t == table and m in metrics)
    keys |= dict.fromkeys(expected)
    for one in results:
        setting, row = one["settings"]["setting"], one["settings"]["row"]
        keys[setting, row] = None
        for metric in metrics:
            if one["result"].get(metric) is not None:
                values[setting, row, metric].append(float(one["result"][metric]))
    entries = []
    for setting, row in keys:
        for metric in metrics:
            ours, paper = values[setting, row, metric], figures().get((table, setting, row, metric))
            entries.append(Compared(setting, row, metric, *mean_of(ours), len(ours), paper, same_measure))
    return entries


def mean_of(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and its standard error; None for what is not to be had.

    >>> mean_of([1.0, 3.0]), mean_of([1.0]), mean_of([])
    ((2.0, 1.0), (1.0, None), (None, None))
    """
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return (fmean(values) if values else None), error


def columns(entries: Sequence[Compared]) -> list[list[str]]:
    """The settings of a table, cut into tables that a page can hold: by their first word, or six at a time."""
    settings = list(dict.fromkeys(entry.setting for entry in entries))
    if len(settings) <= WIDEST:
        return [settings] if settings else []
    groups: dict[str, list[str]] = defaultdict(list)
    for setting in settings:
        groups[setting.split(" ")[0]].append(setting)
    if all(1 < len(group) <= WIDEST for group in groups.values()):
        return list(groups.values())
    return [settings[i : i + WIDEST] for i in range(0, len(settings), WIDEST)]


def comparison_block(entries: Sequence[Compared]) -> Comparison:
    """One metric's entries as a table: a line for each row, a column for each setting; ours and the paper's."""
    settings = list(dict.fromkeys(entry.setting for entry in entries))
    rows = dict.fromkeys(entry.row for entry in entries)
    cells = {(entry.row, entry.setting): entry.cell for entry in entries}
    return Comparison(settings, [(row, [cells.get((row, s)) for s in settings]) for row in rows], "paper")


def mean_and_error(mean: float | None, error: float | None = None) -> str:
    """A mean and its error in digits.

    >>> mean_and_error(98.754, 0.2), mean_and_error(9.4), mean_and_error(None)
    ('98.75 ± 0.2', '9.4', '-')
    """
    if mean is None:
        return "-"
    return number(mean) + ("" if error is None else f" ± {error:.2g}" if abs(error) < 100 else f" ± {error:.0f}")


def number(value: float) -> str:
    """Four digits, none of them lost to rounding of large numbers.

    >>> number(0.01236), number(9.381), number(98.754), number(2720.93)
    ('0.01236', '9.381', '98.75', '2721')
    """
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
