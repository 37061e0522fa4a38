"""Figure "learning-curves": training and validation loss of the BNN designs, epoch by epoch; LeNet on CIFAR-10.

The paper shows "training curves" without their network, set or unit, and says that R2D2-Net has "consistent higher
testing performance from epoch to epoch". Ours are negative log likelihoods: of training images at one draw of the
weights, as the step sees it, and of held-out images under the predictive distribution (by the paper's recipe one minus
AUROC, which chooses its epoch). Test images come in once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale, cells_of_rows
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.image_rows import class_scores, fit_images
from r2d2net.paper.experiments.images import (
    less_than,
    ours,
    papers,
    short_run,
)

ROWS = (
    "mcd",
    "gauss-svi",
    "gauss-svgi",
    "gauss-mfvi",
    "gauss-radial",
    "hs-svi",
    "hs-svgi",
    "sas-svi",
    "sas-svgi",
    "r2d2-svgi",
)

REPLICATES: dict[Scale, int] = {"smoke": 1, "machine": 2, "paper": 5}
SIZES: dict[Scale, Settings] = {
    "smoke": ours(400, 200, 3, 5, 1.0, batch_size=64),
    "machine": short_run(10_000, 2_000, 8, 20),
    "paper": papers(1000),
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row in every replicate."""
    settings = {"net": "lenet", "validation": 0.1, **SIZES[scale]}
    return cells_of_rows(ROWS, replicates or REPLICATES[scale], 3400, settings)


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row; return its losses at every epoch, and its accuracy in the end."""
    fitted = fit_images(settings, place, "cifar10")
    chosen, scores = fitted.chosen, class_scores(fitted.test.labels, fitted.predict())
    history = chosen.posterior.history
    return {
        "accuracy": scores["accuracy"],
        "nll": scores["nll"],
        "tried": chosen.tried,
        "score": chosen.posterior.settings["score"],
        "training": [entry["nll"] for entry in history],
        "validation": [entry["validation"] for entry in history],
    }


ARTEFACT = Artefact(
    name="learning-curves",
    title=TITLES["learning-curves"],
    cells=cells,
    compute=compute,
    reduced=lambda scale: less_than(SIZES[scale], SIZES["paper"]),
    data=("cifar10",),
    gpu=True,
)
