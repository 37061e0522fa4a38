"""The paper's tables and figures, one declaration each; `artefact` says what one is, `grid` how its cells are run."""

from r2d2net.paper.experiments import (
    classification,
    complexity,
    filters,
    hyperparameters,
    learning_curves,
    ood_detection,
    prediction_bands,
    prior_shapes,
    regimes,
    simulation,
    uci,
    weight_densities,
)
from r2d2net.paper.experiments.artefact import SCALES, Artefact, Scale

ARTEFACTS: dict[str, Artefact] = {
    one.name: one
    for one in (
        simulation.ARTEFACT,
        ood_detection.MNIST,
        ood_detection.CIFAR10,
        ood_detection.DRD,
        classification.BY_LENET,
        classification.BY_ALEXNET,
        classification.BY_ARCHITECTURE,
        prior_shapes.ARTEFACT,
        prediction_bands.ARTEFACT,
        weight_densities.ARTEFACT,
        hyperparameters.ARTEFACT,
        filters.ARTEFACT,
        learning_curves.ARTEFACT,
        complexity.ARTEFACT,
        regimes.ARTEFACT,
        uci.ARTEFACT,
    )
}

__all__ = ["ARTEFACTS", "SCALES", "Artefact", "Scale"]
