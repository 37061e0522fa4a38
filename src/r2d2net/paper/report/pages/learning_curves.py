"""The page of "learning-curves": training and validation loss by epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_ranking import R2D2_SVGI
from r2d2net.paper.report.row_styles import line_style
from r2d2net.paper.report.row_tables import Columns, results_by_row, row_table
from r2d2net.report.drawing import hide_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GUESSING = {"nll": math.log(10), "auroc": 0.5}  # of ten classes
UNITS = {"nll": "negative log likelihood, nats an image", "auroc": "1 - AUROC"}


def text(grid: GridResults) -> str:
    """Write how the runs end, and in how many epochs R2D2-Net leads."""
    if not grid.results:
        return ""
    columns: Columns = {
        "training loss at the end": lambda result: result["training"][-1],
        "validation loss at the end": lambda result: result["validation"][-1],
        "least validation loss": lambda result: min(result["validation"]),
        "test accuracy, %": "accuracy",
    }
    held = {
        "nll": "of held-out images under the predictive distribution of 20 draws",
        "auroc": "held-out images have one minus the AUROC of 20 draws, by which the epoch is chosen",
    }
    return (
        "## How the runs end\n\nLeNet on CIFAR-10. Losses are negative log likelihoods in nats an image: of training "
        f"images at one draw of the weights, as a step sees it; {held[grid.results[0]['result']['score']]}. "
        "The paper names neither network, set nor unit.\n\n" + row_table(grid, columns) + "\n" + _lead(grid)
    )


def _lead(grid: GridResults) -> str:
    curves = mean_curves(grid, "validation")
    if R2D2_SVGI not in curves or len(curves) < 2:
        return ""
    ours = curves.pop(R2D2_SVGI)
    leads = sum(value <= min(others) for value, *others in zip(ours, *curves.values(), strict=True))
    return (
        "The paper observes that R2D2-Net is consistently ahead from epoch to epoch. Here it has the least validation "
        f"loss of all designs in {leads} of {len(ours)} epochs.\n"
    )


def mean_curves(grid: GridResults, name: str) -> dict[str, list[float]]:
    """Return the mean over replicates at every epoch, for each row."""
    return {
        row: [sum(values) / len(values) for values in zip(*(result[name] for result in results), strict=True)]
        for row, results in results_by_row(grid).items()
    }


def draw(grid: GridResults) -> dict[str, Figure]:
    """Draw the training and the validation loss of all designs."""
    from matplotlib.figure import Figure

    if not grid.results:
        return {}
    figure = Figure(figsize=(11, 5), layout="constrained")
    panels = figure.subplots(1, 2)
    for ax, name in zip(panels, ("training", "validation"), strict=True):
        for row, values in mean_curves(grid, name).items():
            ax.plot(range(1, len(values) + 1), values, linewidth=2.4 if row == R2D2_SVGI else 1.6, **line_style(row))
        unit = grid.results[0]["result"]["score"] if name == "validation" else "nll"
        ax.axhline(GUESSING[unit], color="0.5", linestyle=":", linewidth=1)
        last = len(grid.results[0]["result"]["validation"])
        at = {"xytext": (0, 3), "textcoords": "offset points", "ha": "right"}
        ax.annotate("guessing", (last, GUESSING[unit]), color="0.4", fontsize=9, **at)
        ax.set(xlabel="epoch", ylabel=UNITS[unit], title=f"{name.capitalize()} images")
        ax.xaxis.get_major_locator().set_params(integer=True)
    hide_frame(*panels)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return {"Loss of LeNet on CIFAR-10 by epoch, mean over replicates": figure}
