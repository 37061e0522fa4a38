"""The page of "prediction-bands": for each design the prediction, and below it the distance from the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from r2d2net.json_arrays import unpack
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_styles import display_name
from r2d2net.paper.report.row_tables import SAME_ALGORITHM, Columns, check_least, first_results, row_table
from r2d2net.report.drawing import BLACK, RED, SKY, hide_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAINED = 5.0  # inputs of training rows are between -5 and 5
LEAST = 15.0  # half the height of the lower panels at least: five standard deviations of the noise


def text(grid: GridResults) -> str:
    """Write how wide the bands of each design are, and how often they are right."""
    if not grid.results:
        return ""
    columns: Columns = {
        "test MSE": "mse",
        "MSE of the true function": "noise_floor",
        "deviation of the function under the posterior": "epistemic",
        "mean width of 90% intervals of an observation": "width",
        "test rows inside them, %": lambda result: 100 * result["coverage"],
        "true function inside its 90% band, %": lambda result: 100 * result["function_coverage"],
    }
    return (
        "## How wide the bands are, and how right\n\nMLP of three hidden layers, 100 draws of the weights; test rows. "
        "The paper's prediction variance is that of the function under the posterior. A narrow band is of use only if "
        "it is right, so the share of test rows that intervals hold stands beside it; the noise has deviation 3, so "
        "90% intervals of an observation are 9.87 wide at best.\n\n"
        + row_table(grid, columns)
        + "\n"
        + check_least(grid, "epistemic", "The paper observes that R2D2-Net has the smallest prediction variance")
        + SAME_ALGORITHM
    )


def draw(grid: GridResults) -> dict[str, Figure]:
    """Draw the bands of all designs beside each other."""
    from matplotlib.figure import Figure

    rows = first_results(grid)
    if not rows:
        return {}
    figure = Figure(figsize=(3.3 * len(rows) + 0.6, 7), layout="constrained")
    panels = figure.subplots(2, len(rows), sharex=True, sharey="row", squeeze=False)
    for column, (row, result) in enumerate(rows.items()):
        _panel(panels[0, column], result, relative=False)
        _panel(panels[1, column], result, relative=True)
        panels[0, column].set_title(display_name(row))
        panels[1, column].set_xlabel("x")
    panels[0, 0].set_ylabel("y")
    panels[1, 0].set_ylabel("y minus the true function")
    reach = max(LEAST, *(_farthest(result) for result in rows.values()))
    panels[1, 0].set_ylim(-reach, reach)
    hide_frame(*panels.ravel())
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    return {"Predictions of y = x³ + e; dotted lines end the range of the training rows": figure}


def _panel(ax: Axes, result: dict[str, Any], *, relative: bool) -> None:
    x, mean, low, high, function, test = (
        unpack(result[name]) for name in ("x", "mean", "low", "high", "function", "test")
    )
    shift, test_shift = (x**3, test[0] ** 3) if relative else (0 * x, 0 * test[0])
    level = f"{result['level']:.0%}"
    ax.fill_between(
        x, low - shift, high - shift, color="0.75", alpha=0.5, lw=0, label=f"{level} band of an observation"
    )
    ax.fill_between(
        x, function[0] - shift, function[1] - shift, color=SKY, alpha=0.8, lw=0, label=f"{level} band of the function"
    )
    ax.plot(test[0], test[1] - test_shift, ".", color="0.35", markersize=2.5, label="test rows")
    ax.plot(x, mean - shift, color=RED, linewidth=1.8, label="predictive mean")
    ax.plot(x, x**3 - shift, "--", color=BLACK, linewidth=1, label="true function")
    for end in (-TRAINED, TRAINED):
        ax.axvline(end, color="0.4", linestyle=":", linewidth=1)


def _farthest(result: dict[str, Any]) -> float:
    """The largest distance of the function's band from the truth in the middle nine tenths of the training range."""
    x, function = unpack(result["x"]), unpack(result["function"])
    return 1.1 * float(abs(function - x**3)[:, abs(x) < 0.9 * TRAINED].max())
