"""Figure "weight-densities": posterior draws of the first-layer weights that are nearest zero, design by design.

The paper takes "the weights that have the least magnitude |E w| from the first layer of a three-layer MLP" and leaves
open of which data and how many. Ours are of scenario 2 and the five of least |E w|; quantiles of |w| are those of the
least tenth together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from r2d2net import nets
from r2d2net.json_arrays import pack
from r2d2net.paper.experiments import TITLES, simulated_regressions
from r2d2net.paper.experiments.artefact import Artefact, Scale, cells_of_rows
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.simulated_regressions import simulated_rows

ROWS = ("gauss-svi", "gauss-svgi", "hs-svi", "hs-svgi", "r2d2-svgi")
SMALLEST, SHARE, QUANTILES, NEAR_ZERO = 5, 0.1, 101, 0.01
DRAWS = 1000  # densities need more of them than the paper's 100


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row in every replicate."""
    settings = {"scenario": "2", "layers": 3, **simulated_regressions.SIZES[scale]}
    return cells_of_rows(ROWS, replicates or simulated_regressions.REPLICATES[scale], 3100, settings)


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row; return draws of the weights nearest zero, and how near zero they are."""
    rows = simulated_rows(settings)
    chosen = fit_row(settings, nets.paper_mlp(rows.x.shape[1], settings["layers"]), rows, place)
    layer = chosen.posterior.model.bayesian[0]
    order = layer.of(chosen.posterior.mean()).flatten().abs().argsort()
    drawn = layer.of(chosen.posterior.sample(DRAWS, seed=settings["seed"])).flatten(1)[:, order]
    least = drawn[:, : max(SMALLEST, round(SHARE * len(order)))]
    return {
        "parameter": layer.name,
        "weights": len(order),
        "least": least.shape[1],
        "deviation": float(least.std(dim=0).square().mean().sqrt()),
        "near_zero": float((least.abs() < NEAR_ZERO).float().mean()),
        "all_near_zero": float((drawn.abs() < NEAR_ZERO).float().mean()),
        "tried": chosen.tried,
        "draws": pack(drawn[:, :SMALLEST].T, digits=3),
        "quantiles": _quantiles(least),
        "all_quantiles": _quantiles(drawn),
    }


def _quantiles(weights: Tensor) -> dict[str, Any]:
    """Return quantiles of |w| at equally spaced probabilities from 0 to 1."""
    return pack(np.quantile(weights.abs().numpy(), np.linspace(0, 1, QUANTILES)))


ARTEFACT = Artefact(
    name="weight-densities",
    title=TITLES["weight-densities"],
    cells=cells,
    compute=compute,
    reduced=simulated_regressions.reduced,
)
