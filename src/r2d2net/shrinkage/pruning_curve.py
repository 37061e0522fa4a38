"""What a fitted network loses as ever more of its weights go: a curve, without any training in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from r2d2net.errors import require, require_whole
from r2d2net.notebook_tables import axes_for, html_table
from r2d2net.posterior import Posterior
from r2d2net.shrinkage.pruned import PrunedDraws, prunable
from r2d2net.shrinkage.pruning import BYS, By, Cut, Standing, require_rows, standing
from r2d2net.shrinkage.weight_scores import SCORES, Score

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

RATIOS = (1, 2, 5, 10, 20, 50, 100, 200)


@dataclass(frozen=True)
class PruningCurve:
    """A network at several numbers of weights.

    Attributes:
        weights: Number of weights left of matrices and filters.
        of: Number of all of them.
        standings: How the posterior does on the rows with so many weights.
        error_name: "error", the share of wrong classes, or "rmse".
        score: What the weights were ranked by.
    """

    weights: tuple[int, ...]
    of: int
    standings: tuple[Standing, ...]
    error_name: str
    score: str

    @property
    def ratios(self) -> tuple[float, ...]:
        """How many times fewer weights are left."""
        return tuple(self.of / count for count in self.weights)

    def table(self) -> pd.DataFrame:
        """Build a table of the curve.

        Returns:
            A row for each number of weights.
        """
        import pandas as pd

        return pd.DataFrame(self._rows(), columns=self._header()).set_index("weights")

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the log density of a row, with its standard error, against the ratio.

        Args:
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes.

        Raises:
            ParameterError: If matplotlib is not installed.
        """
        ax = axes_for(ax)
        density = [each.log_density for each in self.standings]
        ax.errorbar(self.ratios, density, [each.standard_error for each in self.standings], marker="o", ms=4)
        ax.axhline(density[0] - self.standings[0].standard_error, ls=":", color="0.6")
        ax.set(xscale="log", xlabel=f"all weights / weights left, by {self.score}", ylabel="log density of a row")
        return ax

    def __str__(self) -> str:
        def text(cell: object) -> str:
            return f"{cell:>12.4g}" if isinstance(cell, float) else f"{cell:>12}"

        rows: list[list[Any]] = [self._header(), *self._rows()]
        return "\n".join(" ".join(map(text, row)) for row in rows)

    def _repr_html_(self) -> str:
        return html_table(f"weights ranked by {self.score}", self._header(), self._rows())

    def _header(self) -> list[str]:
        return ["weights", "ratio", "log density", "std. error", self.error_name]

    def _rows(self) -> list[list[Any]]:
        each = zip(self.weights, self.ratios, self.standings, strict=True)
        return [[count, ratio, one.log_density, one.standard_error, one.error] for count, ratio, one in each]


def pruning_curve(
    posterior: Posterior[Any],
    data: tuple[Any, Any],
    ratios: Sequence[float] = RATIOS,
    *,
    score: Score = "snr",
    by: By = "network",
    draws: int = 20,
) -> PruningCurve:
    """Prune a posterior at several ratios and predict rows with each.

    Args:
        posterior: The fitted network.
        data: Rows (x, y) that were not used for training. A ratio chosen by them is not judged by them.
        ratios: How many times fewer weights are left; those above the number of weights are left out.
        score: What weights are ranked by, as in `prune`.
        by: "network" or "layer".
        draws: Posterior draws of a prediction.

    Returns:
        The curve, from the most weights to the least.

    Raises:
        ParameterError: If an argument lies outside its range.
        DataError: If ``data`` does not fit the network.
    """
    require(by in BYS, "by", by, "use 'network' or 'layer'")
    require(score in SCORES, "score", score, f"use one of {', '.join(SCORES)}")
    require_whole("draws", draws)
    rows, cut = require_rows(data, "data"), Cut.of(posterior, score, by)
    fits = len(ratios) > 0 and all(isinstance(r, (int, float)) and 1 <= r < math.inf for r in ratios)
    require(fits, "ratios", ratios, "use numbers from 1")
    counts = sorted({max(1, round(cut.total / ratio)) for ratio in ratios if ratio <= cut.total}, reverse=True)
    require(len(counts) > 0, "ratios", ratios, f"use one up to {cut.total}, the number of weights")
    pruned = [cut.made(cut.mask(count), f"ratio={cut.total / count:g}", quietly=True) for count in counts]
    standings = tuple(standing(each, rows, draws) for each in pruned)
    kept = tuple(left_of(each) for each in pruned)
    name = "error" if posterior.model.likelihood.has_classes else "rmse"
    return PruningCurve(kept, cut.total, standings, name, score)


def left_of(posterior: Posterior[Any]) -> int:
    """Count the weights of matrices and filters that a pruned posterior has left.

    Args:
        posterior: A posterior that `prune` made.

    Returns:
        The number.
    """
    source = posterior.source
    slots = prunable(posterior.model)
    if not isinstance(source, PrunedDraws):
        return sum(slot.stop - slot.start for slot in slots)
    return sum(int(slot.of(source.keep).sum()) for slot in slots)
