"""Cells of the figure-type artefacts, made so small that all of them take seconds, on random images."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from r2d2net.data import ImageSet
from r2d2net.paper.experiments import ARTEFACTS, filters, image_rows
from r2d2net.paper.experiments.cell_job import computed
from r2d2net.paper.experiments.grid import Cell, Place

NAMES = (
    "priors",
    "prediction-bands",
    "weight-densities",
    "hyperparameters",
    "filters",
    "learning-curves",
    "complexity",
)
LESS = {"rows": 100, "epochs": 2, "batch_size": 40, "train": 40, "test": 20, "draws": 3}
KEPT = {  # artefact -> words of which a key must have one; all keys where it has none
    "priors": ("horseshoe", "r2d2-paper", "gaussian"),
    "prediction-bands": ("mcd", "hs-svgi", "r2d2"),
    "weight-densities": ("gauss-svgi", "hs-svi", "r2d2"),
    "filters": ("gauss-svi", "r2d2"),
    "hyperparameters": ("-s1-0",),
    "complexity": ("architectures", "freq", "de-", "hs-svi", "r2d2"),
    "learning-curves": ("gauss-svi", "hs-svi", "r2d2"),
}


def random_images(name: str, split: str) -> ImageSet:
    """Pictures of noise, of ten kinds."""
    g = torch.Generator().manual_seed(len(split))
    images = torch.randint(256, (60, 3, 32, 32), generator=g, dtype=torch.uint8)
    return ImageSet(images, torch.arange(60) % 10, tuple("abcdefghij"))


def smaller(cell: Cell) -> Cell:
    return cell._replace(settings={name: LESS.get(name, value) for name, value in cell.settings.items()})


def small_cells(name: str) -> list[Cell]:
    words = KEPT.get(name, ("",))
    cells = ARTEFACTS[name].cells("smoke", 1)
    return [smaller(cell) for cell in cells if any(word in cell.key for word in words)]


def result_of(name: str, cell: Cell) -> dict:
    """What the cell's result file would hold, after its way through JSON."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module in (filters, image_rows):
            patch.setattr(module, "set_of", random_images)
        place = Place(Path(folder) / "run", Path(folder) / "shared")
        return json.loads(json.dumps(computed(cell, ARTEFACTS[name].compute, place)))


@cache
def small_results(name: str) -> dict[str, dict]:
    """key -> result file, of all small cells of an artefact."""
    return {cell.key: result_of(name, cell) for cell in small_cells(name)}
