"""Table "covariate-shift" (ours): accuracy, NLL and calibration on test images that are photographed worse.

The rows are those of the LeNet table, trained on clean CIFAR-10 and measured on its test images, clean and with six
corruptions at five severities (`data.corruptions`). Severity 0 is the clean images; settings are chosen on clean
held-out images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from r2d2net.data.corruptions import SEVERITIES, STRENGTHS, corrupt
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale, cells_of_rows
from r2d2net.paper.experiments.classification import LENET_ROWS, MEMBERS
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.image_rows import class_scores, fit_images
from r2d2net.paper.experiments.images import (
    less_than,
    ours,
    papers,
    short_run,
)

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
    fitted = fit_images(settings, place, "cifar10")
    test = fitted.test

    def measures(pictures: Any) -> dict[str, float]:
        return class_scores(test.labels, fitted.predict(pictures))

    return {
        "clean": measures(test.images),
        "shifts": {
            kind: [measures(corrupt(test.images, kind, severity, seed=settings["seed"])) for severity in SEVERITIES]
            for kind in STRENGTHS
        },
        "tried": fitted.chosen.tried,
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
