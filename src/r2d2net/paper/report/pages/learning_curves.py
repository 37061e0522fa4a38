"""The page of "learning-curves": training and validation loss by epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from r2d2net.paper.report.by_row import Columns, by_row, table
from r2d2net.paper.report.results import Found
from r2d2net.paper.report.standing import FAVOURITE
from r2d2net.report.drawing import line_of, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GUESSING = {"nll": math.log(10), "auroc": 0.5}  # of ten classes
UNITS = {"nll": "negative log likelihood, nats an image", "auroc": "1 - AUROC"}


def text(found: Found) -> str:
    """How the runs end, and in how many epochs R2D2-Net leads."""
    if not found.results:
        return ""
    columns: Columns = {
        "training loss at the end": lambda one: one["training"][-1],
        "validation loss at the end": lambda one: one["validation"][-1],
        "least validation loss": lambda one: min(one["validation"]),
        "test accuracy, %": "accuracy",
    }
    held = {
        "nll": "of held-out images under the predictive distribution of 20 draws",
        "auroc": "held-out images have one minus the AUROC of 20 draws, by which the epoch is chosen",
    }
    return (
        "## How the runs end\n\nLeNet on CIFAR-10. Losses are negative log likelihoods in nats an image: of training "
        f"images at one draw of the weights, as a step sees it; {held[found.results[0]['result']['score']]}. "
        "The paper names neither network, set nor unit.\n\n" + table(found, columns) + "\n" + _lead(found)
    )


def _lead(found: Found) -> str:
    curves = mean_curves(found, "validation")
    if FAVOURITE not in curves or len(curves) < 2:
        return ""
    ours = curves.pop(FAVOURITE)
    leads = sum(value <= min(others) for value, *others in zip(ours, *curves.values(), strict=True))
    return (
        "The paper observes that R2D2-Net is consistently ahead from epoch to epoch. Here it has the least validation "
        f"loss of all designs in {leads} of {len(ours)} epochs.\n"
    )


def mean_curves(found: Found, name: str) -> dict[str, list[float]]:
    """row -> the mean over replicates at every epoch."""
    return {
        row: [sum(values) / len(values) for values in zip(*(one[name] for one in results), strict=True)]
        for row, results in by_row(found).items()
    }


def draw(found: Found) -> dict[str, Figure]:
    """Two panels of all designs."""
    from matplotlib.figure import Figure

    if not found.results:
        return {}
    figure = Figure(figsize=(11, 5), layout="constrained")
    panels = figure.subplots(1, 2)
    for ax, name in zip(panels, ("training", "validation"), strict=True):
        for row, values in mean_curves(found, name).items():
            ax.plot(range(1, len(values) + 1), values, linewidth=2.4 if row == FAVOURITE else 1.6, **line_of(row))
        unit = found.results[0]["result"]["score"] if name == "validation" else "nll"
        ax.axhline(GUESSING[unit], color="0.5", linestyle=":", linewidth=1)
        last = len(found.results[0]["result"]["validation"])
        at = {"xytext": (0, 3), "textcoords": "offset points", "ha": "right"}
        ax.annotate("guessing", (last, GUESSING[unit]), color="0.4", fontsize=9, **at)
        ax.set(xlabel="epoch", ylabel=UNITS[unit], title=f"{name.capitalize()} images")
        ax.xaxis.get_major_locator().set_params(integer=True)
    plain(*panels)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return {"Loss of LeNet on CIFAR-10 by epoch, mean over replicates": figure}
