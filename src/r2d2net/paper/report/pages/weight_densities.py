"""The page of "weight-densities": densities of the five weights nearest zero, and how many draws stay near it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from r2d2net.json_arrays import unpack
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_styles import line_style
from r2d2net.paper.report.row_tables import SAME_ALGORITHM, Columns, check_least, first_results, row_table
from r2d2net.report.drawing import hide_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 81  # odd, so that zero is in the middle of a bin
SHOWN = 0.5  # share of the largest draw to which the histogram reaches


def text(grid: GridResults) -> str:
    """Write how near zero the smallest weights of each design stay."""
    if not grid.results:
        return ""
    columns: Columns = {
        "weights of the layer": "weights",
        "posterior deviation of the least tenth": "deviation",
        "their draws with |w| < 0.01, %": lambda result: 100 * result["near_zero"],
        "draws of the whole layer with |w| < 0.01, %": lambda result: 100 * result["all_near_zero"],
    }
    return (
        "## How near zero the smallest weights stay\n\nFirst layer of an MLP with three hidden layers on scenario 2, "
        "whose four inputs all matter. The paper names neither the data nor the number of weights; here they are the "
        "tenth of the layer with the least |E w|. Inputs are standardised, so weights of all designs are in the "
        "same unit.\n\n"
        + row_table(grid, columns)
        + "\n"
        + check_least(grid, "deviation", "The paper observes that R2D2-Net's are the most concentrated at zero")
        + SAME_ALGORITHM
        + "\nUnder every design here the posterior of one weight is a Gaussian: a pole of the prior at zero shows as a "
        "small deviation, not as a pole.\n"
    )


def draw(grid: GridResults) -> dict[str, Figure]:
    """Draw the densities of the smallest weights, and the cumulative shares of |w|."""
    from matplotlib.figure import Figure

    rows = first_results(grid)
    if not rows:
        return {}
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    reach = SHOWN * max(float(np.abs(unpack(result["draws"])).max()) for result in rows.values())
    edges = np.linspace(-reach, reach, BINS + 1)
    for row, result in rows.items():
        style = line_style(row)
        left.stairs(density(unpack(result["draws"]), edges), edges, linewidth=1.8, **style)
        quantiles, of_all = unpack(result["quantiles"]), unpack(result["all_quantiles"])
        probabilities = np.linspace(0, 1, len(quantiles))
        right.plot(quantiles[1:], probabilities[1:], linewidth=2.2, **style)
        right.plot(of_all[1:], probabilities[1:], linewidth=0.9, color=style["color"], linestyle=style["linestyle"])
    left.set(
        xlabel="weight w (standardised inputs)",
        ylabel="posterior density, per unit of w",
        yscale="log",
        title="Draws of the five weights of least |E w|",
    )
    right.set(
        xscale="log",
        xlabel="|w| (standardised inputs)",
        ylabel="share of draws below",
        title="Draws of the least tenth (thick), of all (thin)",
    )
    for ax in (left, right):
        ax.legend(frameon=False)
    hide_frame(left, right)
    return {"Posterior draws of first-layer weights, densities and cumulative shares": figure}


def density(draws: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Compute a histogram as a density.

    Args:
        draws: The draws, of any shape.
        edges: The edges of the bins.

    Returns:
        The share of all draws in each bin, per unit of w; draws beyond the edges count in the whole.
    """
    counts, _ = np.histogram(draws, edges)
    values: np.ndarray = counts / (draws.size * np.diff(edges))
    return values
