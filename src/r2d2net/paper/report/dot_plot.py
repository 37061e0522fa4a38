"""Dots for our means and hollow marks for the paper's figures: a panel for each setting, a line for each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from r2d2net.paper.report.comparison import ComparedMean
from r2d2net.paper.report.row_ranking import R2D2_SVGI

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, RED = "#2166ac", "#c9371e"
LINES: dict[str, tuple[str, Literal["-", "--", ":"], str]] = {
    "oracle": ("0.15", "-", "true function"),
    "least_squares": ("0.35", "--", "least squares"),
    "constant": ("0.35", ":", "best constant"),
}
LOG_FROM = 8.0  # largest over smallest value of a figure from which the axis is logarithmic


def dot_plot(
    entries: Sequence[ComparedMean], label: str, references: Mapping[str, Mapping[str, float]] | None = None
) -> Figure:
    """Draw one metric of a table.

    Args:
        entries: Our means and the paper's figures.
        label: The label of the horizontal axes.
        references: Values to draw as lines across the rows, by setting and by their names in `LINES`.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    settings = list(dict.fromkeys(entry.setting for entry in entries))
    rows = list(dict.fromkeys(entry.row for entry in entries))
    across = min(2, len(settings))
    down = math.ceil(len(settings) / across)
    figure = Figure(figsize=(4.2 * across + 1.2, (0.24 * len(rows) + 1.0) * down + 0.9), layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, setting in zip(panels, settings, strict=False):
        lines = (references or {}).get(setting, {})
        _panel(panel, [entry for entry in entries if entry.setting == setting], rows, lines)
        panel.set_title(setting, fontsize=10)
        panel.set_xlabel(label, fontsize=9)
    for panel in panels[len(settings) :]:
        panel.set_visible(False)
    handles: list[Any] = [
        Line2D([], [], color=BLUE, marker="o", label="ours, ± standard error"),
        Line2D([], [], color=RED, marker="o", label=f"ours, {R2D2_SVGI}"),
        Line2D([], [], color="0.2", marker="D", fillstyle="none", linestyle="", label="the paper's"),
    ]
    names = dict.fromkeys(name for lines in (references or {}).values() for name in lines)
    handles += [
        Line2D([], [], color=LINES[n][0], linestyle=LINES[n][1], label=LINES[n][2]) for n in names if n in LINES
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _panel(panel: Axes, entries: Sequence[ComparedMean], rows: Sequence[str], lines: Mapping[str, float]) -> None:
    values = [v for e in entries for v in (e.mean, e.paper.value if e.paper else None) if v is not None]
    values = [v for v in [*values, *lines.values()] if math.isfinite(v)]
    if values and min(values) > 0 and max(values) / min(values) > LOG_FROM:
        panel.set_xscale("log")
    for name, value in lines.items():
        if name in LINES:
            panel.axvline(value, color=LINES[name][0], linestyle=LINES[name][1], linewidth=1)
    for entry in entries:
        height = rows.index(entry.row)
        colour = RED if entry.row == R2D2_SVGI else BLUE
        if entry.paper is not None:
            panel.plot(entry.paper.value, height, marker="D", color="0.2", fillstyle="none", markersize=5.5)
        if entry.mean is not None:
            panel.errorbar(entry.mean, height, xerr=entry.error, fmt="o", color=colour, markersize=4.5, capsize=2)
    panel.set_yticks(range(len(rows)), rows, fontsize=9)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.grid(axis="y", color="0.92")
    panel.set_axisbelow(True)
    panel.tick_params(axis="x", labelsize=8, which="both")
    panel.spines[["top", "right"]].set_visible(False)
