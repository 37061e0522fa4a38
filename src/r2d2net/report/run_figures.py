"""The figures of a run of `r2d2net fit`: predictions beside observations, calibration, inputs, the learning curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.report.calibration_words import chance
from r2d2net.report.drawing import BLUE, GREY, ORANGE, RED, hide_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 500  # test rows drawn
MOST_INPUTS = 25


def _figure(panels: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    hide_frame(*axes)
    return figure, list(axes)


def draw_regression(rows: pd.DataFrame, metrics: dict[str, Any], target: str) -> Figure:
    """Draw test rows with their intervals, ordered by predicted mean, and the coverage of intervals of every level.

    Args:
        rows: The test rows, with the columns mean, low, high and observed.
        metrics: The metrics of the test rows; uses level, rows and calibration.
        target: The name of the target.

    Returns:
        The figure.
    """
    figure, (left, right) = _figure(2, 11, 4.6)
    level = metrics["level"]
    drawn = rows.sample(min(len(rows), MOST_POINTS), random_state=0).sort_values("mean")
    mean, bottom, top, seen = (drawn[name].to_numpy(dtype=float) for name in ("mean", "low", "high", "observed"))
    at = np.arange(len(drawn))
    inside = (bottom <= seen) & (seen <= top)
    left.fill_between(at, bottom, top, color=BLUE, alpha=0.2, linewidth=0, step="mid", label=f"{level:.0%} interval")
    left.plot(at, mean, color=BLUE, linewidth=1.5, label="predictive mean")
    for selected, colour, where in ((inside, "0.25", "inside"), (~inside, RED, "outside")):
        label = f"{int(selected.sum())} rows {where}"
        left.plot(at[selected], seen[selected], ".", color=colour, markersize=5, label=label)
    left.set(xlabel="test rows, by predicted mean", ylabel=_literal(target), title="Predictive band")
    left.legend(frameon=False, loc="upper left", fontsize="small")
    curve = metrics["calibration"]
    right.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    share = np.array(curve["level"])
    low, high = chance(share, metrics["rows"])
    right.fill_between(share, low, high, color=GREY, alpha=0.25, linewidth=0, label="chance, 90%")
    right.plot(share, curve["covered"], "o-", color=BLUE, markersize=4, label="this model")
    right.set(xlabel="level of the interval", ylabel="share of test rows inside", title="Calibration of intervals")
    right.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    right.legend(frameon=False, loc="upper left", fontsize="small")
    return figure


def draw_reliability(metrics: dict[str, Any], event: str) -> Figure:
    """Draw predicted probabilities against the share of rows where they came true, and the number of rows in each bin.

    Args:
        metrics: The metrics of the test rows; uses calibration.
        event: The class, or event, whose probability is predicted.

    Returns:
        The figure.
    """
    figure, (left, right) = _figure(2, 10, 4.6)
    bins = metrics["calibration"]
    predicted, true, rows = (np.array(bins[name], dtype=float) for name in ("said", "true", "rows"))
    left.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    left.vlines(predicted, *chance(predicted, rows), color=GREY, linewidth=4, alpha=0.5, label="chance, 90%")
    left.plot(predicted, true, "o-", color=BLUE, markersize=5, label="this model")
    left.set(xlabel=f"predicted probability of {_literal(event)}", ylabel="share of test rows where true")
    left.set(title="Reliability", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    left.legend(frameon=False, loc="upper left", fontsize="small")
    right.bar(predicted, rows, width=0.06, color=BLUE)
    right.set(xlabel=f"predicted probability of {_literal(event)}", ylabel="test rows", title="Rows in each bin")
    right.set(xlim=(-0.05, 1.05))
    return figure


def draw_relevance(inputs: list[dict[str, Any]]) -> Figure:
    """Draw the importance of the first inputs with its deviation, coloured by whether the network needs the input.

    Args:
        inputs: All inputs in the order of their ranks; uses name, importance, importance_std and kept.

    Returns:
        The figure.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = inputs[:MOST_INPUTS][::-1]
    figure, (ax,) = _figure(1, 8, 1.6 + 0.27 * len(drawn))
    heights = range(len(drawn))
    importance = 100 * np.array([row["importance"] for row in drawn])
    deviation = 100 * np.array([row["importance_std"] for row in drawn])
    ax.barh(heights, importance, color=[BLUE if row["kept"] else GREY for row in drawn])
    ax.hlines(
        heights, np.maximum(0, importance - 1.645 * deviation), importance + 1.645 * deviation, "black", linewidth=1
    )
    ax.set_yticks(heights, [_literal(row["name"]) for row in drawn])
    more = f" (first {len(drawn)} of {len(inputs)})" if len(drawn) < len(inputs) else ""
    kept = sum(bool(row["kept"]) for row in inputs)
    ax.set(xlabel="importance, % of the output's variance", title=f"{kept} of {len(inputs)} inputs kept{more}")
    line = Line2D([], [], color="black", linewidth=1, label="± 1.64 sd")
    key = (Patch(color=BLUE, label="kept"), Patch(color=GREY, label="not needed"), line)
    ax.legend(handles=key, frameon=False, loc="lower right", fontsize="small")
    return figure


def draw_learning_curve(history: list[dict[str, float]]) -> Figure:
    """Draw the negative log likelihood of training and validation rows after each epoch.

    Args:
        history: One entry for each epoch; uses epoch, nll and validation.

    Returns:
        The figure.
    """
    figure, (ax,) = _figure(1, 8, 4)
    for name, label, colour in (("nll", "training rows", BLUE), ("validation", "validation rows", ORANGE)):
        points = [(entry["epoch"], entry[name]) for entry in history if name in entry]
        if points:
            ax.plot(*zip(*points, strict=True), color=colour, linewidth=1.5, label=label)
    ax.set(xlabel="epoch", ylabel="negative log likelihood, nats a row", title="Learning curve")
    values = [entry[name] for entry in history for name in ("nll", "validation") if name in entry]
    if len(values) > 20:  # the limits leave out the first epochs, which may be far off
        low, high = np.quantile(values, [0.0, 0.95])
        ax.set_ylim(low - 0.05 * (high - low) - 1e-9, high + 0.3 * (high - low) + 1e-9)
    ax.legend(frameon=False, fontsize="small")
    return figure


def _literal(text: str, longest: int = 40) -> str:
    """A name for matplotlib, which would take text between dollar signs for a formula."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return (shown if len(shown) <= longest else shown[: longest - 1] + "…").replace("$", r"\$")
