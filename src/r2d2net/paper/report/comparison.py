"""Our means beside the paper's figures, entry by entry, with a verdict on each.

    better          ours is better, by more than the error of the difference
    within error    the two differ by less than that
    worse           ours is worse, by more than that
    few runs        ours are fewer than three replicates, whose interval would hold nearly any figure
    not run         we have no result
    other measure   the two do not measure the same, so that neither is better

The error is that of a 95% interval: our standard error times the quantile of Student's t for so few replicates (4.3
with three). With two replicates it would be 12.7 and figures far apart would be within error, so there is no verdict.
The paper gives standard deviations in some of its tables. Where it does, twice the deviation is added in quadrature, as
that of a single run, since the paper does not say over how many runs its figures are means.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.stats import t as student

from r2d2net.paper.report.paper_tables import PaperFigure, paper_figures
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
VERDICTS = ("better", "within error", "worse", "few runs", "not run", "other measure")
LEAST_RUNS = 3  # replicates for a verdict
WIDEST = 6  # columns of a table


class ComparedMean(NamedTuple):
    """One entry of a table: our mean over replicates and the paper's figure.

    Attributes:
        setting: The column.
        row: The row.
        metric: The metric, under the paper's name where it has one.
        mean: Our mean; None without a result.
        error: The standard error of our mean; None with one replicate.
        replicates: The number of our replicates.
        paper: The paper's figure; None where it has none.
        same_measure: Whether ours and the paper's measure the same on the same data.
    """

    setting: str
    row: str
    metric: str
    mean: float | None
    error: float | None
    replicates: int
    paper: PaperFigure | None
    same_measure: bool = True

    @property
    def verdict(self) -> str:
        """How our mean compares with the paper's figure, one of `VERDICTS`; "" where the paper has no figure."""
        if self.mean is None:
            return "not run"
        if self.paper is None:
            return ""
        if not self.same_measure:
            return "other measure"
        if self.error is None or self.replicates < LEAST_RUNS:
            return "few runs"
        difference = self.paper.value - self.mean if self.metric in LOWER_IS_BETTER else self.mean - self.paper.value
        quantile = float(student.ppf((1 + CONFIDENCE) / 2, self.replicates - 1))
        if abs(difference) <= math.hypot(quantile * self.error, 2 * (self.paper.sd or 0.0)):
            return "within error"
        return "better" if difference > 0 else "worse"

    @property
    def cell(self) -> Cell | None:
        """The entry as a cell of a report's table; None where there is neither a result nor a figure."""
        if self.mean is None and self.paper is None:
            return None
        return Cell(self.ours, self.theirs, self.verdict)

    @property
    def ours(self) -> str:
        """Our mean and its standard error."""
        return format_mean(self.mean, self.error)

    @property
    def theirs(self) -> str:
        """The paper's figure; "" where it has none."""
        return "" if self.paper is None else format_mean(self.paper.value, self.paper.sd)


def compare(
    results: Iterable[dict[str, Any]],
    table: str,
    metrics: Sequence[str],
    *,
    expected: Iterable[tuple[str, str]] = (),
    same_measure: bool = True,
) -> list[ComparedMean]:
    """Compare results with one of the paper's tables.

    Args:
        results: Results whose settings have ``setting`` and ``row``, and whose result has the metrics.
        table: The name of the paper's table; "" where it has none.
        metrics: The names of the numbers to compare.
        expected: Setting and row of every cell of the grid, which have an entry even without a result.
        same_measure: Whether ours and the paper's measure the same on the same data.

    Returns:
        All entries of the table, those of the paper first and in its order.
    """
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    keys = dict.fromkeys((s, r) for t, s, r, m in paper_figures() if t == table and m in metrics)
    keys |= dict.fromkeys(expected)
    for cell in results:
        setting, row = cell["settings"]["setting"], cell["settings"]["row"]
        keys[setting, row] = None
        for metric in metrics:
            if cell["result"].get(metric) is not None:
                values[setting, row, metric].append(float(cell["result"][metric]))
    entries = []
    for setting, row in keys:
        for metric in metrics:
            ours, paper = values[setting, row, metric], paper_figures().get((table, setting, row, metric))
            entries.append(ComparedMean(setting, row, metric, *mean_with_error(ours), len(ours), paper, same_measure))
    return entries


def mean_with_error(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Compute the mean of values and its standard error; None where there are too few values.

    >>> mean_with_error([1.0, 3.0]), mean_with_error([1.0]), mean_with_error([])
    ((2.0, 1.0), (1.0, None), (None, None))
    """
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return (fmean(values) if values else None), error


def column_groups(entries: Sequence[ComparedMean]) -> list[list[str]]:
    """Divide the settings of a table into groups that fit the width of a page.

    Args:
        entries: The entries of one metric.

    Returns:
        The settings of each table: grouped by their first word where that makes tables of two to six columns, else
        six at a time.
    """
    settings = list(dict.fromkeys(entry.setting for entry in entries))
    if len(settings) <= WIDEST:
        return [settings] if settings else []
    groups: dict[str, list[str]] = defaultdict(list)
    for setting in settings:
        groups[setting.split(" ")[0]].append(setting)
    if all(1 < len(group) <= WIDEST for group in groups.values()):
        return list(groups.values())
    return [settings[i : i + WIDEST] for i in range(0, len(settings), WIDEST)]


def comparison_block(entries: Sequence[ComparedMean]) -> Comparison:
    """Lay out the entries of one metric as a table, with a line for each row and a column for each setting."""
    settings = list(dict.fromkeys(entry.setting for entry in entries))
    rows = dict.fromkeys(entry.row for entry in entries)
    cells = {(entry.row, entry.setting): entry.cell for entry in entries}
    return Comparison(settings, [(row, [cells.get((row, s)) for s in settings]) for row in rows], "paper")


def format_mean(mean: float | None, error: float | None = None) -> str:
    """Write a mean and its error with few digits.

    >>> format_mean(98.754, 0.2), format_mean(9.4), format_mean(None)
    ('98.75 ± 0.2', '9.4', '-')
    """
    if mean is None:
        return "-"
    digits = "" if error is None else f" ± {error:.2g}" if abs(error) < 100 else f" ± {error:.0f}"
    return format_number(mean) + digits


def format_number(value: float) -> str:
    """Write a number with four digits, or all digits before the point.

    >>> format_number(0.01236), format_number(9.381), format_number(98.754), format_number(2720.93)
    ('0.01236', '9.381', '98.75', '2721')
    """
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
