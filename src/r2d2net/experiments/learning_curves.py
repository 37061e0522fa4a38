"""Figure "learning-curves": training and validation loss of the BNN designs, epoch by epoch; LeNet on CIFAR-10.

The paper shows "training curves" without their network, set or unit, and says that R2D2-Net has "consistent higher
testing performance from epoch to epoch". Ours are negative log likelihoods: of training images at one draw of the
weights, as the step sees it, and of held-out images under the predictive distribution (by the paper's recipe one minus
AUROC, which chooses its epoch). Test images come in once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from r2d2net import metrics
from r2d2net.experiments.artefact import Artefact, Scale
from r2d2net.experiments.grid import Cell, Place, Settings
from r2d2net.experiments.images import first, fitted_row, set_of, training_images
from r2d2net.experiments.regressions import OUR_TRAINING

ROWS = ("mcd", "gauss-svi", "gauss-mfvi", "gauss-radial", "hs-svi", "sas-svi", "r2d2-svgi")

REPLICATES: dict[Scale, int] = {"smoke": 1, "machine": 2, "paper": 5}
SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "train": 400,
        "test": 200,
        "epochs": 3,
        "batch_size": 64,
        "factors": [1.0],
        "draws": 5,
        "recipe": "ours",
        "method": {},
    },
    "machine": {
        "train": 15_000,
        "test": 2_000,
        "epochs": 12,
        "batch_size": 128,
        "factors": [1.0, 0.3],
        "draws": 20,
        "recipe": "ours",
        "method": {},
    },
    "paper": {
        "train": None,
        "test": None,
        "epochs": 1000,
        "batch_size": 1024,
        "factors": [1.0, 0.3, 3.0],
        "draws": 100,
        "recipe": "paper",
        "method": {},
    },
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Every row in every replicate."""
    return [
        Cell(
            f"{row}-{replicate}",
            {
                "row": row,
                "net": "lenet",
                "validation": 0.1,
                "replicate": replicate,
                "seed": 3400 + replicate,
                **SIZES[scale],
            },
        )
        for replicate in range(REPLICATES[scale] if replicates is None else replicates)
        for row in ROWS
    ]


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """A row's losses at every epoch, and its accuracy in the end."""
    train = set_of("cifar10", "train")
    images = training_images(settings, train)
    tuned = fitted_row(settings, images, len(train.classes), place)
    test = first(set_of("cifar10", "test"), settings["test"], settings["seed"])
    predicted: Any = tuned.posterior.predict(images.prepare(test.images), settings["draws"])
    history = tuned.posterior.history
    return {
        "accuracy": 100 * metrics.accuracy(test.labels, predicted.probs),
        "nll": metrics.nll(test.labels, predicted),
        "tried": tuned.tried,
        "score": tuned.posterior.settings["score"],
        "training": [entry["nll"] for entry in history],
        "validation": [entry["validation"] for entry in history],
    }


def reduced(scale: Scale) -> str:
    """What a scale leaves out."""
    size, full = SIZES[scale], SIZES["paper"]
    if scale == "paper":
        return ""
    return (
        f"{size['train']:,} training images of 50,000, {size['epochs']} epochs of up to {full['epochs']}, batches of "
        f"{size['batch_size']}, no augmentation" + OUR_TRAINING
    )


ARTEFACT = Artefact(
    name="learning-curves",
    title="training and validation loss of the BNN designs by epoch, LeNet on CIFAR-10",
    cells=cells,
    compute=compute,
    reduced=reduced,
    data=("cifar10",),
)
