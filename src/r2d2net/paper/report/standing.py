"""Where one of our rows stands among the others of its column: leading, tied with the best, or behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from r2d2net.paper.report.comparison import LOWER_IS_BETTER, Compared, mean_of

FAVOURITE = "r2d2-svgi"


class Standing(NamedTuple):
    """A row in one column."""

    setting: str
    best: str  # the row with the best mean
    gap: float  # how much worse than the best mean; 0 for the best itself
    error: float | None  # standard error of the best row's mean

    @property
    def word(self) -> str:
        """leads, ties (within one standard error of the best), or is behind."""
        if self.gap == 0.0:
            return "leads"
        return "ties" if self.error is not None and self.gap <= self.error else "is behind"


def standings(entries: Sequence[Compared], row: str = FAVOURITE) -> list[Standing]:
    """The row's standing in each setting in which it and another row have results."""
    columns: dict[str, list[Compared]] = defaultdict(list)
    for entry in entries:
        if entry.mean is not None:
            columns[entry.setting].append(entry)
    found = []
    for setting, column in columns.items():
        mine = [entry for entry in column if entry.row == row]
        if not mine or len(column) < 2:
            continue
        sign = 1.0 if mine[0].metric in LOWER_IS_BETTER else -1.0
        best = min(column, key=lambda entry: (sign * (entry.mean or 0.0), entry.row != row))
        gap = sign * ((mine[0].mean or 0.0) - (best.mean or 0.0))
        found.append(Standing(setting, best.row, gap, best.error))
    return found


def paired_error(results: Iterable[dict[str, Any]], setting: str, rows: tuple[str, str], metric: str) -> float | None:
    """Standard error of the difference of two rows over the replicates that both have, which share their data."""
    values: dict[str, dict[Any, float]] = defaultdict(dict)
    for one in results:
        settings = one["settings"]
        if settings.get("setting") == setting and settings.get("row") in rows and metric in one["result"]:
            values[settings["row"]][settings["seed"]] = float(one["result"][metric])
    mine, theirs = (values[row] for row in rows)
    return mean_of([mine[seed] - theirs[seed] for seed in mine if seed in theirs])[1]
