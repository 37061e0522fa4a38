"""Figure "prediction-bands": predictive means and bands of the designs on y = x^3 + e; the paper's fig. r2d2_pred.

The paper's shaded area is "the prediction interval". Ours are two: the band of the function, whose width is the paper's
"prediction variance", and the band of a new observation, which can be checked: 90% of test rows should be inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net import metrics, nets
from r2d2net.json_arrays import pack
from r2d2net.paper.experiments import TITLES, simulated_regressions
from r2d2net.paper.experiments.artefact import Artefact, Scale, cells_of_rows
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.simulated_regressions import simulated_rows
from r2d2net.prediction import Regression

ROWS = ("mcd", "gauss-svi", "gauss-svgi", "hs-svi", "hs-svgi", "r2d2-svgi")
LEVEL = 0.9  # of the bands
REACH, POINTS, SHOWN = 6.0, 121, 150  # of the figure: largest |x|, points of a curve, test rows
DRAWS = 100


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row in every replicate."""
    settings = {"scenario": "1", "layers": 3, **simulated_regressions.SIZES[scale]}
    return cells_of_rows(ROWS, replicates or simulated_regressions.REPLICATES[scale], 3000, settings)


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row; return its bands along x, and their widths and coverage on test rows."""
    rows = simulated_rows(settings)
    chosen = fit_row(settings, nets.paper_mlp(rows.x.shape[1], settings["layers"]), rows, place)
    x = torch.linspace(-REACH, REACH, POINTS)
    along = chosen.posterior.predict(x[:, None], DRAWS)
    on_test = chosen.posterior.predict(rows.test_x, DRAWS)
    assert isinstance(along, Regression)
    assert isinstance(on_test, Regression)
    low, high = along.interval(LEVEL)
    return {
        "level": LEVEL,
        "mse": metrics.mse(rows.test_y, on_test.mean),
        "noise_floor": metrics.mse(rows.test_y, rows.test_mean),
        "epistemic": float(on_test.epistemic.square().mean().sqrt()),
        "width": float((on_test.interval(LEVEL)[1] - on_test.interval(LEVEL)[0]).mean()),
        "coverage": metrics.coverage(rows.test_y, *on_test.interval(LEVEL)),
        "function_coverage": metrics.coverage(rows.test_mean, *_ends(on_test.samples)),
        "tried": chosen.tried,
        "x": pack(x),
        "mean": pack(along.mean),
        "low": pack(low),
        "high": pack(high),
        "function": pack(torch.stack(_ends(along.samples))),
        "test": pack(torch.stack([rows.test_x[:SHOWN, 0], rows.test_y[:SHOWN]])),
    }


def _ends(samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ends of the band that contains the function with probability LEVEL at each input."""
    low, high = samples.quantile(torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2]), dim=0)
    return low, high


ARTEFACT = Artefact(
    name="prediction-bands",
    title=TITLES["prediction-bands"],
    cells=cells,
    compute=compute,
    reduced=simulated_regressions.reduced,
)
