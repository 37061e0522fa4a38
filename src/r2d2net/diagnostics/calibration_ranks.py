"""What ranks of truths among posterior draws say: a table, a figure, and a verdict for each kind of quantity.

Of R tables and quantities j of a kind, with ranks u_rj in (0, 1):

    bias       mean of 1/2 - u          0; above it draws are larger than the truth
    covered    share of |2 u - 1| < l   l; less, and intervals are too narrow (l = 0.5, 0.9)
    uniform    least p-value of Kolmogorov and Smirnov over j, times their number
    symmetric  the same of u against 1 - u, in two samples (VSBC)

Standard errors are those of the means over j of each table, since quantities of one table depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import kolmogorov
from torch import Tensor

from r2d2net.notebook_tables import axes_for, html_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTITIES = ("weights", "sizes of weights", "predictions", "log likelihood")
SURE = 3.0  # standard errors from which a mean is said to be off
REJECTED = 0.01  # corrected p-value of uniformity below which ranks are said to be off
CLOSE = 0.03  # of coverage and bias, below which a difference is called small
ENOUGH = 50  # tables from which what is not seen to be off is said to be trusted
BINS = 10
HEADER = ("quantity", "bias", "50% holds", "90% holds", "uniform", "symmetric", "verdict")


@dataclass(frozen=True)
class Ranks:
    """Ranks of one kind of quantity.

    Attributes:
        name: What is ranked.
        ranks: Of each table and quantity, (tables, quantities), in (0, 1).
    """

    name: str
    ranks: np.ndarray

    def _mean(self, values: np.ndarray) -> tuple[float, float]:
        """Return the mean over tables and quantities, and its standard error over tables."""
        each = values.mean(1)
        return float(each.mean()), float(each.std(ddof=1)) / math.sqrt(len(each))

    @property
    def bias(self) -> tuple[float, float]:
        """Mean of 1/2 - u and its standard error: above 0 draws are larger than the truth."""
        return self._mean(0.5 - self.ranks)

    def covered(self, level: float) -> tuple[float, float]:
        """Compute the share of truths inside central intervals.

        Args:
            level: Level of the intervals.

        Returns:
            The share and its standard error.
        """
        share, error = self._mean((np.abs(2 * self.ranks - 1) < level).astype(float))
        least = math.sqrt(level * (1 - level) / self.ranks.size)  # where all tables agree by chance
        return share, max(error, least)

    @property
    def spread(self) -> tuple[float, float]:
        """Mean of 3 (2 u - 1)^2 and its standard error: 1 if right, above it where draws vary too little."""
        return self._mean(3 * (2 * self.ranks - 1) ** 2)

    @property
    def uniform(self) -> float:
        """p-value of uniform ranks, corrected for the number of quantities."""
        return min(1.0, self.ranks.shape[1] * min(_one_sample(column) for column in self.ranks.T))

    @property
    def symmetric(self) -> float:
        """p-value of ranks that are symmetric around 1/2, corrected for the number of quantities."""
        return min(1.0, self.ranks.shape[1] * min(_two_samples(column, 1 - column) for column in self.ranks.T))

    @property
    def width(self) -> str:
        """How wide intervals are: "right", "narrow" or "wide", by their coverage and the spread of the ranks."""
        spread, error = self.spread
        off = {"spread": (spread - 1) / error}
        for level in (0.5, 0.9):
            share, error = self.covered(level)
            off[str(level)] = (level - share) / error
        most = max(off.values(), key=abs)
        return "right" if abs(most) <= SURE else "narrow" if most > 0 else "wide"

    @property
    def is_trusted(self) -> bool:
        """Whether nothing is seen to be off."""
        bias, error = self.bias
        return self.uniform >= REJECTED and abs(bias) <= SURE * error and self.width == "right"

    @property
    def verdict(self) -> str:
        """Whether these quantities can be trusted, and in which direction they are off."""
        if self.is_trusted:
            return "can be trusted" if len(self.ranks) >= ENOUGH else "nothing wrong seen, of few tables"
        (bias, error), covered = self.bias, self.covered(0.9)[0]
        found = []
        if abs(bias) > SURE * error:
            size = "" if abs(bias) >= CLOSE else "a little "
            found.append(f"draws are {size}too {'large' if bias > 0 else 'small'}")
        if self.width != "right":
            size = "" if abs(covered - 0.9) >= CLOSE else "a little "
            found.append(f"intervals are {size}too {self.width}")
        return " and ".join(found) or "ranks have another shape, without a bias or a wrong width"


@dataclass(frozen=True)
class SimulatedCalibration:
    """How an algorithm is calibrated on tables drawn from a model.

    Attributes:
        algorithm: Name of the algorithm.
        prior: Name of the prior of most weights.
        parts: Ranks of weights, sizes of weights, predictions and log likelihood.
        failed: Number of fits that failed, which are left out.
    """

    algorithm: str
    prior: str
    parts: tuple[Ranks, ...]
    failed: int

    def __getitem__(self, name: str) -> Ranks:
        """Return the ranks of one kind of quantity."""
        return next(part for part in self.parts if part.name == name)

    @property
    def tables(self) -> int:
        """Number of tables."""
        return len(self.parts[0].ranks)

    @property
    def verdict(self) -> str:
        """What can be trusted, and how the rest is off, in one line."""
        trusted = [part.name for part in self.parts if part.is_trusted]
        said = [f"{part.name}: {part.verdict}" for part in self.parts if not part.is_trusted]
        first = f"{_listed(trusted)} can be trusted" if trusted else "nothing can be trusted"
        if trusted and self.tables < ENOUGH:
            first = f"too few tables to trust {_listed(trusted)}, of which nothing wrong is seen"
        failed = [f"{self.failed} fits failed"] if self.failed else []
        return "; ".join([first, *said, *failed])

    def plain(self) -> list[dict[str, Any]]:
        """Write the calibration as rows for JSON.

        Returns:
            One row for each kind of quantity: bias, spread and coverage with errors, p-values, verdict, histogram.
        """
        rows = []
        for part in self.parts:
            (bias, bias_error), (spread, spread_error) = part.bias, part.spread
            (half, half_error), (most, most_error) = part.covered(0.5), part.covered(0.9)
            rows.append(
                {
                    "algorithm": self.algorithm,
                    "prior": self.prior,
                    "quantity": part.name,
                    "tables": self.tables,
                    "failed": self.failed,
                    "bias": bias,
                    "bias_error": bias_error,
                    "spread": spread,
                    "spread_error": spread_error,
                    "covered_50": half,
                    "covered_50_error": half_error,
                    "covered_90": most,
                    "covered_90_error": most_error,
                    "uniform": part.uniform,
                    "symmetric": part.symmetric,
                    "verdict": part.verdict,
                    "histogram": np.histogram(part.ranks, BINS, (0, 1))[0].tolist(),
                }
            )
        return rows

    def __str__(self) -> str:
        lines = [f"{HEADER[0]:<17}" + "".join(f"{name:>14}" for name in HEADER[1:-1]) + f"  {HEADER[-1]}"]
        for part in self.parts:
            first, *cells, last = _cells(part)
            lines.append(f"{first:<17}" + "".join(f"{cell:>14}" for cell in cells) + f"  {last}")
        about = f"{self.algorithm}, {self.prior}, {self.tables} tables drawn from the model"
        return "\n".join([*lines, f"{about}: {self.verdict}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the table and the verdict in a notebook."""
        about = f"{self.algorithm}, {self.prior}, {self.tables} tables: {self.verdict}"
        return html_table(about, HEADER, [_cells(part) for part in self.parts])

    def plot(self) -> Figure:
        """Draw the histograms of the ranks, flat if right, with what chance allows (90%).

        Returns:
            The figure.

        Raises:
            ParameterError: If matplotlib is not installed.
        """
        figure = axes_for(None, 11.0, 2.8).figure
        figure.clear()
        for axes, part in zip(figure.subplots(1, len(self.parts)), self.parts, strict=True):
            counts = np.histogram(part.ranks, BINS, (0, 1))[0] / part.ranks.size
            axes.stairs(counts, np.linspace(0, 1, BINS + 1), fill=True, alpha=0.5)
            spread = 1.645 * math.sqrt((1 / BINS) * (1 - 1 / BINS) / len(part.ranks))
            axes.axhspan(1 / BINS - spread, 1 / BINS + spread, alpha=0.2, color="C1", linewidth=0)
            axes.axhline(1 / BINS, color="C1", linewidth=1)
            axes.set(title=part.name, xlabel="rank of the truth", xlim=(0, 1))
            axes.spines[["top", "right"]].set_visible(False)
        figure.suptitle(f"{self.algorithm}, {self.prior}", fontsize="medium")
        return figure  # type: ignore[return-value]


def calibration_of(ranks: Mapping[str, Tensor], algorithm: str, prior: str, *, failed: int = 0) -> SimulatedCalibration:
    """Judge the ranks of truths.

    Args:
        ranks: Ranks by kind of quantity, each (tables, quantities).
        algorithm: Name of the algorithm.
        prior: Name of the prior.
        failed: Number of fits that failed.

    Returns:
        The calibration.
    """
    parts = tuple(Ranks(name, own.double().cpu().numpy()) for name, own in ranks.items())
    return SimulatedCalibration(algorithm, prior, parts, failed)


def _one_sample(u: np.ndarray) -> float:
    n, ordered = len(u), np.sort(u)
    steps = np.arange(1, n + 1) / n
    distance = max(float((steps - ordered).max()), float((ordered - steps + 1 / n).max()))
    return float(kolmogorov((math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance))


def _two_samples(u: np.ndarray, v: np.ndarray) -> float:
    both = np.sort(np.concatenate([u, v]))
    shares = [np.searchsorted(np.sort(own), both, side="right") / len(own) for own in (u, v)]
    distance, n = float(np.abs(shares[0] - shares[1]).max()), len(u) * len(v) / (len(u) + len(v))
    return float(kolmogorov((math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance))


def _cells(part: Ranks) -> list[str]:
    numbers = [f"{value:+.2f} ± {error:.2f}" for value, error in (part.bias,)]
    numbers += [f"{value:.0%} ± {error:.0%}" for value, error in (part.covered(0.5), part.covered(0.9))]
    return [part.name, *numbers, f"{part.uniform:.2g}", f"{part.symmetric:.2g}", part.verdict]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
