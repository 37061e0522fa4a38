"""What the report of an artefact shows besides its comparison with the paper's tables: a text, and drawings.

A page reads result files only; each artefact that has more to show than numbers has a module here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from r2d2net.paper.report.pages import (
    complexity,
    filters,
    hyperparameters,
    learning_curves,
    ood_page,
    prediction_bands,
    prior_shapes,
    simulation,
    uci,
    weight_densities,
)
from r2d2net.paper.report.results import Found

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Page(NamedTuple):
    """Parts of an artefact's report; both are functions of what its grid left."""

    text: Callable[[Found], str] | None = None  # Markdown, its headings of level 2 and below
    draw: Callable[[Found], dict[str, Figure]] | None = None  # caption -> drawing


PAGES: dict[str, Page] = {
    "simulation": Page(simulation.text),
    "ood-mnist": Page(ood_page.text),
    "ood-cifar10": Page(ood_page.text),
    "ood-drd": Page(ood_page.text),
    "priors": Page(prior_shapes.text, prior_shapes.draw),
    "prediction-bands": Page(prediction_bands.text, prediction_bands.draw),
    "weight-densities": Page(weight_densities.text, weight_densities.draw),
    "hyperparameters": Page(hyperparameters.text, hyperparameters.draw),
    "filters": Page(filters.text, filters.draw),
    "learning-curves": Page(learning_curves.text, learning_curves.draw),
    "complexity": Page(complexity.text, complexity.draw),
    "uci": Page(uci.text),
}
