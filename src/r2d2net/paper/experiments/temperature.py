"""Table "temperature" (ours): cold posteriors, the KL weighted by 0.001 to 1.

LeNet on CIFAR-10 under three priors by SVGI, which minimises E[-log p(y | w)] + T KL(q | p): at T = 1 the posterior of
Bayes, below it a cold one. The table shows whether colder ones are better on test images, in accuracy and in
calibration. Held-out images choose the step size at each temperature; they do not choose among temperatures here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.image_rows import class_scores, fit_images
from r2d2net.paper.experiments.images import (
    SHORT_RUN,
    less_than,
    ours,
    papers,
)

ROWS = ("gauss-svgi", "hs-svgi", "r2d2-svgi")
TEMPERATURES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
REPLICATES: dict[Scale, int] = {"smoke": 1, "machine": 2, "paper": 5}
SIZES: dict[Scale, Settings] = {
    "smoke": ours(200, 100, 1, 5, 1.0, batch_size=64),
    "machine": ours(20_000, 2_000, 6, 20, *SHORT_RUN),
    "paper": papers(1000),
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row at every temperature, in every replicate."""
    common = {"net": "lenet", "validation": 0.1, **SIZES[scale]}
    return [
        Cell(
            f"{row}-{temperature:g}-{replicate}",
            {
                "row": row,
                "setting": f"T = {temperature:g}",
                "temperature": temperature,
                "method": {"temperature": temperature},
                "replicate": replicate,
                "seed": 4300 + replicate,
                **common,
            },
        )
        for replicate in range(replicates or REPLICATES[scale])
        for temperature in TEMPERATURES
        for row in ROWS
    ]


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row at a temperature and measure it on test images."""
    fitted = fit_images(settings, place, "cifar10")
    return {**class_scores(fitted.test.labels, fitted.predict()), "tried": fitted.chosen.tried}


ARTEFACT = Artefact(
    name="temperature",
    title=TITLES["temperature"],
    cells=cells,
    compute=compute,
    reduced=lambda scale: less_than(SIZES[scale], SIZES["paper"]),
    data=("cifar10",),
    gpu=True,
)
