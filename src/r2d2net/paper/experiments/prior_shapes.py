"""Figure "priors": the densities of shrinkage priors and the paper's Table 1, rates by theory beside measured ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.prior_rates import labels, rate_row

POINTS: dict[Scale, int] = {"smoke": 25, "machine": 100, "paper": 100}  # of a curve


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return one cell for each prior; nothing is random, so there is one replicate."""
    return [Cell(_key(label), {"prior": label, "points": POINTS[scale], "seed": 0}) for label in labels()]


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Compute the rates and curves of a prior."""
    return rate_row(settings["prior"], settings["points"])._asdict()


def _key(label: str) -> str:
    """Turn a label into a file name.

    >>> _key("R2D2 (paper's setting), a_pi=0.6, b=0.5")
    'r2d2-paper-s-setting-a_pi-0.6-b-0.5'
    """
    return re.sub(r"[^a-z0-9_.+]+", "-", label.lower()).strip("-")


def reduced(scale: Scale) -> str:
    """Say what a scale leaves out; "" for the paper's."""
    return "curves are of 25 points" if scale == "smoke" else ""


ARTEFACT = Artefact(
    name="priors",
    title=TITLES["priors"],
    cells=cells,
    compute=compute,
    reduced=reduced,
)
