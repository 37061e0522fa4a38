"""A predictive check in notebooks and scripts: a verdict, a table, four panels.

check.plot()       density, PIT or classes, calibration, and residuals over the most suspicious input
print(check)       the verdict and the inputs with the smallest p-values
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.notebook_tables import axes_for, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 5  # inputs of a table
HISTOGRAM = 10  # bins of the PIT


class PredictiveCheckViews(ABC):
    """What a check shows; the numbers are those of `r2d2net.predictive_checks.PredictiveCheck`."""

    kind: str
    residual: np.ndarray
    pit: np.ndarray | None
    density: Any
    calibration: Any
    inputs: tuple[Any, ...]
    p_values: dict[str, float]

    @property
    @abstractmethod
    def verdict(self) -> str:
        """What the check found, in one line."""

    def __repr__(self) -> str:
        lines = [self.verdict, *(f"  p-value of {name:<6} {value:.2g}" for name, value in self.p_values.items())]
        lines += [f"  {entry.name}: mean {entry.p_mean:.2g}, size {entry.p_size:.2g}" for entry in self.inputs[:SHOWN]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show the verdict and the p-values in a notebook."""
        rows = [[f"{name} of the residuals", f"{value:.2g}", ""] for name, value in self.p_values.items()]
        rows += [[entry.name, f"{entry.p_mean:.2g}", f"{entry.p_size:.2g}"] for entry in self.inputs[:SHOWN]]
        return html_table(self.verdict, ["", "p-value (mean)", "p-value (size)"], rows)

    def plot(self) -> Figure:
        """Draw density, PIT, calibration and the residuals over the input with the smallest p-value.

        Returns:
            The figure.

        Raises:
            ParameterError: If matplotlib is not installed.
        """
        first = axes_for(None, 9.0, 6.5)  # asks for matplotlib
        figure = first.figure
        figure.clear()
        panels = figure.subplots(2, 2).flatten()
        for axes in panels:
            axes.spines[["top", "right"]].set_visible(False)
        self.plot_density(ax=panels[0])
        self.plot_pit(ax=panels[1])
        self.plot_calibration(ax=panels[2])
        self.plot_residuals(ax=panels[3])
        return figure  # type: ignore[return-value]

    def plot_density(self, *, ax: Axes | None = None) -> Axes:
        """Draw the targets' distribution beside the expected one, with what chance allows.

        Args:
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes.
        """
        axes, own = axes_for(ax), self.density
        unit = 1.0 if self.kind == "classes" else np.diff(own.edges)
        axes.stairs(own.observed / unit, own.edges, fill=True, alpha=0.35, label="observed")
        middle = (own.edges[:-1] + own.edges[1:]) / 2
        axes.plot(middle, own.expected / unit, linewidth=1.5, color="C1", label="predicted")
        axes.fill_between(
            middle, own.low / unit, own.high / unit, alpha=0.25, color="C1", linewidth=0, label="by chance, 90%"
        )
        of_classes = self.kind == "classes"
        axes.set(xlabel="class" if of_classes else "target", ylabel="share" if of_classes else "density")
        axes.legend(frameon=False, fontsize="small")
        return axes

    def plot_pit(self, *, ax: Axes | None = None) -> Axes:
        """Draw the histogram of the PIT, flat for right predictions; of classes the residuals.

        Args:
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes.
        """
        axes, rows = axes_for(ax), len(self.residual)
        if self.pit is None:
            axes.hist(self.residual, bins=30, alpha=0.5)
            axes.set(xlabel="event (0 or 1) minus its probability", ylabel="rows")
            return axes
        axes.hist(self.pit, bins=HISTOGRAM, range=(0, 1), alpha=0.5)
        expected = rows / HISTOGRAM
        spread = 1.645 * (expected * (1 - 1 / HISTOGRAM)) ** 0.5
        axes.axhspan(expected - spread, expected + spread, alpha=0.2, color="C1", linewidth=0)
        axes.axhline(expected, color="C1", linewidth=1)
        axes.set(xlabel="probability of less than the target (PIT)", ylabel="rows", xlim=(0, 1))
        return axes

    def plot_calibration(self, *, ax: Axes | None = None) -> Axes:
        """Draw the share of rows inside intervals of each level, or of events over their probability.

        Args:
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes.
        """
        axes, own = axes_for(ax), self.calibration
        spread = 1.645 * np.sqrt(own.said * (1 - own.said) / own.rows)
        axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--")
        axes.fill_between(own.said, own.said - spread, own.said + spread, alpha=0.2, color="C1", linewidth=0)
        axes.plot(own.said, own.true, marker="o", markersize=4, linewidth=1.5)
        of_classes = self.kind == "classes"
        label = "predicted probability of the event" if of_classes else "level of the interval"
        axes.set(xlabel=label, ylabel="came true" if of_classes else "rows inside", xlim=(0, 1), ylim=(0, 1))
        return axes

    def plot_residuals(self, which: int = 0, *, ax: Axes | None = None) -> Axes:
        """Draw the mean residuals, and their size, over the values of an input.

        Args:
            which: Number of the input in ``inputs``: 0 is that with the smallest p-value.
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes.
        """
        axes = axes_for(ax)
        if not self.inputs:
            axes.text(0.5, 0.5, "no inputs", ha="center", va="center", transform=axes.transAxes)
            axes.set_axis_off()
            return axes
        own = self.inputs[which]
        of_classes = self.kind == "classes"
        error = 1.645 * np.sqrt(np.mean(self.residual**2) if of_classes else 1.0) / np.sqrt(own.rows)
        axes.axhline(0, color="grey", linewidth=1, linestyle="--")
        axes.errorbar(own.place, own.mean, yerr=error, marker="o", markersize=4, capsize=2, label="mean, 90%")
        if not of_classes:
            axes.plot(own.place, own.size, marker="s", markersize=3, color="C1", label="root mean square, ideal 1")
        unit = "event minus its probability" if of_classes else "residuals, in predicted standard deviations"
        axes.set(xlabel=own.name, ylabel=unit)
        axes.legend(frameon=False, fontsize="small")
        return axes
