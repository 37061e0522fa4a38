"""The page of an artefact: the text and the drawings of its report besides the comparison with the paper's tables.

Each artefact that has such a page has a module here, with the function ``text`` and, where it has drawings, ``draw``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.pages import (
    complexity,
    covariate_shift,
    filters,
    hyperparameters,
    learning_curves,
    out_of_distribution,
    prediction_bands,
    prior_shapes,
    pruning,
    regimes,
    simulation,
    uci,
    weight_densities,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Page(NamedTuple):
    """The page of an artefact; both functions take the results of its grid.

    Attributes:
        text: Writes the text as Markdown, with headings of level 2 and below; "" where there are no results.
        draw: Draws the figures, by their captions; none where there are no results.
    """

    text: Callable[[GridResults], str] | None = None
    draw: Callable[[GridResults], dict[str, Figure]] | None = None


PAGES: dict[str, Page] = {
    "simulation": Page(simulation.text),
    "ood-mnist": Page(out_of_distribution.text),
    "ood-cifar10": Page(out_of_distribution.text),
    "ood-drd": Page(out_of_distribution.text),
    "priors": Page(prior_shapes.text, prior_shapes.draw),
    "prediction-bands": Page(prediction_bands.text, prediction_bands.draw),
    "weight-densities": Page(weight_densities.text, weight_densities.draw),
    "hyperparameters": Page(hyperparameters.text, hyperparameters.draw),
    "filters": Page(filters.text, filters.draw),
    "learning-curves": Page(learning_curves.text, learning_curves.draw),
    "complexity": Page(complexity.text, complexity.draw),
    "regimes": Page(regimes.text),
    "pruning": Page(pruning.text),
    "covariate-shift": Page(covariate_shift.text),
    "uci": Page(uci.text),
}
