"""Table "covariate-shift" (ours): accuracy, NLL and calibration on test images that are photographed worse.

The rows are those of the LeNet table, trained on clean CIFAR-10 and measured on its test images, clean and with six
corruptions at five severities (`data.corruptions`). Severity 0 is the clean images; settings are chosen on clean
held-out images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from r2d2net import metrics
from r2d2net.data.corruptions import SEVERITIES, STRENGTHS, corrupt
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale, cells_of_rows
from r2d2net.paper.experiments.classification import LENET_ROWS, MEMBERS
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.images import (
    first,
    image_net,
    less_than,
    ours,
    papers,
    set_of,
    short_run,
    training_images,
)
from r2d2net.paper.experiments.row_fitting import fit_row

REPLICATES: dict[Scale, int] = {"smoke": 1, "machine": 3, "paper": 5}
SIZES: dict[Scale, Settings] = {
    "smoke": ours(200, 100, 1, 5, 1.0, batch_size=64),
    "machine": short_run(20_000, 2_000, 6, 20),
    "paper": papers(1000),
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row in every replicate."""
    common = {"net": "lenet", "validation": 0.1, **SIZES[scale]}

    def settings(row: str) -> Settings:
        return {**common, "method": {"members": MEMBERS[scale]} if row == "de" else {}}

    return cells_of_rows(LENET_ROWS, replicates or REPLICATES[scale], 4200, settings)


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row; measure it on clean and on corrupted test images."""
    train = set_of("cifar10", "train")
    images = training_images(settings, train)
    net = image_net(settings["net"], images, len(train.classes))
    chosen = fit_row(settings, net, images, place, **images.options)
    test = first(set_of("cifar10", "test"), settings["test"], settings["seed"])

    def measures(pictures: Any) -> dict[str, float]:
        predicted: Any = chosen.posterior.predict(images.prepare(pictures), settings["draws"])
        return {
            "accuracy": 100 * metrics.accuracy(test.labels, predicted.probs),
            "nll": metrics.nll(test.labels, predicted),
            "ece": metrics.ece(test.labels, predicted.probs),
        }

    return {
        "clean": measures(test.images),
        "shifts": {
            kind: [measures(corrupt(test.images, kind, severity, seed=settings["seed"])) for severity in SEVERITIES]
            for kind in STRENGTHS
        },
        "tried": chosen.tried,
    }


ARTEFACT = Artefact(
    name="covariate-shift",
    title=TITLES["covariate-shift"],
    cells=cells,
    compute=compute,
    reduced=lambda scale: less_than(SIZES[scale], SIZES["paper"]),
    data=("cifar10",),
    gpu=True,
)
