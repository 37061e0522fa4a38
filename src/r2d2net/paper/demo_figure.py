"""The figure of `r2d2net demo`: a predictive band, predictions of a real table, and the relevance of its inputs."""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from r2d2net.prediction import Regression
from r2d2net.shrinkage import Relevance

BLUE, RED, GREY = "#2166ac", "#c9371e", "0.6"


class Band(NamedTuple):
    """Predictions along a line through the space of inputs, and observations on it.

    Attributes:
        grid: The positions of the predictions.
        truth: The true function there.
        prediction: The predictions.
        at: The positions of the observations.
        observed: The observations.
    """

    grid: Tensor
    truth: Tensor
    prediction: Regression
    at: Tensor
    observed: Tensor


def draw(
    band: Band, y: Tensor, prediction: Regression, inputs: list[str], relevance: Relevance, *, level: float = 0.9
) -> Figure:
    """Draw three panels: the band, the test rows of the real table, the relevance of its inputs.

    Args:
        band: The predictions of scenario 2.
        y: The targets of the test rows of the real table.
        prediction: The predictions of these rows.
        inputs: The names of the inputs of the real table.
        relevance: The relevance of these inputs.
        level: The level of the intervals.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(14, 4.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1.1, 0.8))
    draw_band(left, band, level)
    draw_intervals(middle, y, prediction, level)
    draw_relevance(right, inputs, relevance)
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def draw_band(ax: Axes, band: Band, level: float) -> None:
    """Draw the predictive mean with its bands, the true function and the observations."""
    x = band.grid.numpy()
    for share, alpha in ((level, 0.2), (0.5, 0.35)):
        low, high = band.prediction.interval(share)
        ax.fill_between(x, low.numpy(), high.numpy(), color=BLUE, alpha=alpha, linewidth=0, label=f"{share:.0%} band")
    ax.plot(x, band.prediction.mean.numpy(), color=BLUE, linewidth=2, label="predictive mean")
    ax.plot(x, band.truth.numpy(), "--", color="black", linewidth=1.2, label="true function")
    ax.plot(band.at.numpy(), band.observed.numpy(), ".", color="0.25", markersize=5, label="new observations")
    ax.set(xlabel="x2, with x1 = 1 and x3 = x4 = 0", ylabel="y", title="Scenario 2: what R2D2-Net predicts")
    ax.legend(frameon=False, loc="upper center")


def draw_intervals(ax: Axes, y: Tensor, prediction: Regression, level: float) -> None:
    """Draw the interval and the target of each test row against its predicted mean."""
    mean, target = prediction.mean.numpy(), y.numpy()
    low, high = (end.numpy() for end in prediction.interval(level))
    inside = (low <= target) & (target <= high)
    ax.vlines(mean, low, high, color=BLUE, alpha=0.25, linewidth=1.5, label=f"{level:.0%} interval")
    least, most = min(low.min(), target.min()), max(high.max(), target.max())
    ends = [mean.min(), mean.max()]
    ax.plot(ends, ends, color=BLUE, linewidth=1.2, label="predictive mean")
    for selected, color, label in ((inside, "0.25", "inside"), (~inside, RED, "outside")):
        ax.plot(
            mean[selected], target[selected], ".", color=color, markersize=6, label=f"{selected.sum()} patients {label}"
        )
    ax.set(
        xlabel="predicted progression of diabetes after a year (score)",
        ylabel="actual progression (score)",
        title=f"Diabetes: {len(target)} test rows",
        ylim=(least - 10, most + 0.2 * (most - least)),  # room for the legend
    )
    ax.legend(frameon=False, loc="upper center", ncols=2)


def draw_relevance(ax: Axes, inputs: list[str], relevance: Relevance) -> None:
    """Draw the relevance of each input with its 90% interval."""
    order = relevance.mean.argsort().tolist()
    mean, low, high = (100 * part[order].numpy() for part in (relevance.mean, relevance.low, relevance.high))
    kept = relevance.kept[order].numpy()
    rows = range(len(order))
    ax.barh(rows, mean, color=[BLUE if keep else GREY for keep in kept])
    ax.hlines(rows, low, high, color="black", linewidth=1)
    ax.set_yticks(rows, [inputs[i] for i in order])
    ax.set(xlabel="variance lost when shuffled, %", title=f"Diabetes: {kept.sum()} of {len(inputs)} inputs kept")
    key = [Patch(color=BLUE, label="kept"), Patch(color=GREY, label="dropped")]
    ax.legend(
        handles=[*key, Line2D([], [], color="black", linewidth=1, label="90% interval")],
        frameon=False,
        loc="lower right",
    )
