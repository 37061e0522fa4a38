"""The page of "filters": the five largest filters of each design, and what they make of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from r2d2net.json_arrays import unpack
from r2d2net.paper.report.by_row import SAME_ALGORITHM, Columns, first_of_rows, standing, table
from r2d2net.paper.report.results import Found
from r2d2net.report.drawing import name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def text(found: Found) -> str:
    """How noisy the filters are, and how much is lost."""
    if not found.results:
        return ""
    columns: Columns = {
        "test accuracy, %": "accuracy",
        "roughness of the five": "roughness",
        "certain share of the five, %": lambda one: 100 * one["signal"],
        "of all filters, %": lambda one: 100 * one["signal_of_all"],
        "weights near zero, %": lambda one: 100 * one["near_zero"],
        "noise of feature maps": "map_noise",
    }
    return (
        "## How noisy the filters are, and how much is lost\n\nOne convolution of 16 filters of 16 x 16 pixels and one "
        "linear layer on CIFAR-10. Roughness compares neighbouring pixels of the mean filter: 1 is white noise, 0 is "
        "smooth. The certain share is that of E w² which the posterior mean holds. Weights near zero have a mean below "
        "a tenth of He's deviation. The noise of a feature map is its deviation over draws of the weights in units of "
        "its deviation over pixels.\n\n"
        + table(found, columns)
        + "\n"
        + standing(found, "roughness", "The paper sees the least noise in R2D2-Net's filters")
        + SAME_ALGORITHM
    )


def draw(found: Found) -> dict[str, Figure]:
    """One figure of filters, one of feature maps."""
    from matplotlib.figure import Figure

    rows = first_of_rows(found)
    if not rows:
        return {}
    count = len(unpack(next(iter(rows.values()))["filters"]))
    size = (1.75 * (count + 1), 2.05 * len(rows) + 0.3)
    filters, maps = Figure(figsize=size, layout="constrained"), Figure(figsize=size, layout="constrained")
    for figure, first in ((filters, "draw"), (maps, "image")):
        grid = figure.subplots(len(rows), count + 1, squeeze=False)
        for line, (row, result) in zip(grid, rows.items(), strict=True):
            for ax in line:
                _without_axes(ax)
            line[0].set_ylabel(name_of(row), fontsize=11)
            if first == "image":
                line[0].imshow(unpack(result["image"]).transpose(1, 2, 0) / 255)
                line[0].set_title("test image", fontsize=9)
            else:
                line[0].imshow(coloured(unpack(result["drawn"])))
                line[0].set_title("one draw of the first", fontsize=9)
            shown = unpack(result["maps" if first == "image" else "filters"])
            for index, (ax, one) in enumerate(zip(line[1:], shown, strict=True)):
                if first == "image":
                    ax.imshow(one, cmap="cividis")
                    ax.set_title(f"map {index + 1}", fontsize=9)
                else:
                    ax.imshow(coloured(one))
                    ax.set_title(f"mean, norm {result['norms'][index]:.2g}", fontsize=9)
    return {
        "The five filters of largest norm, each to its own largest weight; grey is zero": filters,
        "What these filters make of one test image: mean over draws, light is large": maps,
    }


def _without_axes(ax: Axes) -> None:
    ax.set(xticks=[], yticks=[])


def coloured(weights: np.ndarray) -> np.ndarray:
    """A filter of three channels as a picture, grey where it is zero."""
    largest = max(float(np.abs(weights).max()), 1e-12)
    picture: np.ndarray = 0.5 + 0.5 * weights.transpose(1, 2, 0) / largest
    return picture
