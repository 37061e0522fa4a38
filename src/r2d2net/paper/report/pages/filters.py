"""The page of "filters": the five largest filters of each design, and their feature maps of one image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from r2d2net.json_arrays import unpack
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_styles import display_name
from r2d2net.paper.report.row_tables import SAME_ALGORITHM, Columns, check_least, first_results, row_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def text(grid: GridResults) -> str:
    """Write how noisy the filters of each design are, and how much of them is lost."""
    if not grid.results:
        return ""
    columns: Columns = {
        "test accuracy, %": "accuracy",
        "roughness of the five": "roughness",
        "certain share of the five, %": lambda result: 100 * result["signal"],
        "of all filters, %": lambda result: 100 * result["signal_of_all"],
        "weights near zero, %": lambda result: 100 * result["near_zero"],
        "noise of feature maps": "map_noise",
    }
    return (
        "## How noisy the filters are, and how much is lost\n\nOne convolution of 16 filters of 16 x 16 pixels and one "
        "linear layer on CIFAR-10. Roughness compares neighbouring pixels of the mean filter: 1 is white noise, 0 is "
        "smooth. The certain share is that of E w² which the posterior mean holds. Weights near zero have a mean below "
        "a tenth of He's deviation. The noise of a feature map is its deviation over draws of the weights in units of "
        "its deviation over pixels.\n\n"
        + row_table(grid, columns)
        + "\n"
        + check_least(grid, "roughness", "The paper sees the least noise in R2D2-Net's filters")
        + SAME_ALGORITHM
    )


def draw(grid: GridResults) -> dict[str, Figure]:
    """Draw a figure of the filters and one of their feature maps."""
    from matplotlib.figure import Figure

    rows = first_results(grid)
    if not rows:
        return {}
    count = len(unpack(next(iter(rows.values()))["filters"]))
    size = (1.75 * (count + 1), 2.05 * len(rows) + 0.3)
    filters, maps = Figure(figsize=size, layout="constrained"), Figure(figsize=size, layout="constrained")
    for figure, first in ((filters, "draw"), (maps, "image")):
        axes = figure.subplots(len(rows), count + 1, squeeze=False)
        for line, (row, result) in zip(axes, rows.items(), strict=True):
            for ax in line:
                _without_axes(ax)
            line[0].set_ylabel(display_name(row), fontsize=11)
            if first == "image":
                line[0].imshow(unpack(result["image"]).transpose(1, 2, 0) / 255)
                line[0].set_title("test image", fontsize=9)
            else:
                line[0].imshow(as_colours(unpack(result["drawn"])))
                line[0].set_title("one draw of the first", fontsize=9)
            shown = unpack(result["maps" if first == "image" else "filters"])
            for index, (ax, picture) in enumerate(zip(line[1:], shown, strict=True)):
                if first == "image":
                    ax.imshow(picture, cmap="cividis")
                    ax.set_title(f"map {index + 1}", fontsize=9)
                else:
                    ax.imshow(as_colours(picture))
                    ax.set_title(f"mean, norm {result['norms'][index]:.2g}", fontsize=9)
    return {
        "The five filters of largest norm, each to its own largest weight; grey is zero": filters,
        "What these filters make of one test image: mean over draws, light is large": maps,
    }


def _without_axes(ax: Axes) -> None:
    ax.set(xticks=[], yticks=[])


def as_colours(weights: np.ndarray) -> np.ndarray:  # (3, height, width) -> (height, width, 3)
    """Convert a filter of three channels to a colour image in [0, 1] that is grey where the weights are zero."""
    largest = max(float(np.abs(weights).max()), 1e-12)
    picture: np.ndarray = 0.5 + 0.5 * weights.transpose(1, 2, 0) / largest
    return picture
