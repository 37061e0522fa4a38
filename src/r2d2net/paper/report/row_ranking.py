"""The place of R2D2-SVGI among the rows of a table, in each column: leading, tied with the best, or behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from r2d2net.paper.report.comparison import LOWER_IS_BETTER, ComparedMean, mean_with_error

R2D2_SVGI = "r2d2-svgi"


class Placement(NamedTuple):
    """The place of a row in one column.

    Attributes:
        setting: The column.
        best: The row with the best mean.
        gap: How much worse the row's mean is than the best; 0 for the best itself.
        error: The standard error of the best row's mean; None with one replicate.
    """

    setting: str
    best: str
    gap: float
    error: float | None

    @property
    def word(self) -> str:
        """One of "leads", "ties" (within one standard error of the best) and "is behind"."""
        if self.gap == 0.0:
            return "leads"
        return "ties" if self.error is not None and self.gap <= self.error else "is behind"


def placements(entries: Sequence[ComparedMean], row: str = R2D2_SVGI) -> list[Placement]:
    """Return the place of a row in each column in which it and at least one other row have results.

    Rows with fewer replicates than this one are left out: their means are of other data sets.

    Args:
        entries: The entries of one metric.
        row: The row.
    """
    columns: dict[str, list[ComparedMean]] = defaultdict(list)
    for entry in entries:
        if entry.mean is not None:
            columns[entry.setting].append(entry)
    places = []
    for setting, column in columns.items():
        mine = [entry for entry in column if entry.row == row]
        compared = [entry for entry in column if mine and entry.replicates >= mine[0].replicates]
        if len(compared) < 2:
            continue
        sign = 1.0 if mine[0].metric in LOWER_IS_BETTER else -1.0
        best = min(compared, key=lambda entry: (sign * (entry.mean or 0.0), entry.row != row))
        gap = sign * ((mine[0].mean or 0.0) - (best.mean or 0.0))
        places.append(Placement(setting, best.row, gap, best.error))
    return places


def paired_error(results: Iterable[dict[str, Any]], setting: str, rows: tuple[str, str], metric: str) -> float | None:
    """Compute the standard error of the mean difference of two rows over the replicates that both have.

    Replicates share their data, so this error is free of the differences between data sets.

    Args:
        results: The results of all cells.
        setting: The column.
        rows: The two rows.
        metric: The metric.

    Returns:
        The standard error; None with fewer than two common replicates.
    """
    values: dict[str, dict[Any, float]] = defaultdict(dict)
    for cell in results:
        settings = cell["settings"]
        if settings.get("setting") == setting and settings.get("row") in rows and metric in cell["result"]:
            values[settings["row"]][settings["seed"]] = float(cell["result"][metric])
    mine, theirs = (values[row] for row in rows)
    return mean_with_error([mine[seed] - theirs[seed] for seed in mine if seed in theirs])[1]
