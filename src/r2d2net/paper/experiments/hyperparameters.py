"""Figure "hyperparameters": test MSE of an R2D2 MLP with three hidden layers as a_pi, b and rho_0 vary, one at a time.

rho_0 is the paper's start of the variational deviations: s = softplus(rho_0) times the prior's deviation of the weight.
Ours start at `initial_scale` times He's deviation of the layer, whatever the prior, so rho_0 stands for
initial_scale = softplus(rho_0); our default 0.1 is rho_0 = -2.25, the paper's -3 is 0.0486. The paper does not say
which values it tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from r2d2net import metrics, nets
from r2d2net.paper.experiments import TITLES, simulated_regressions
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.simulated_regressions import simulated_rows
from r2d2net.priors import R2D2

DRAWS = 100
REPLICATES: dict[Scale, int] = {**simulated_regressions.REPLICATES, "machine": 2}
OURS = {"a_pi": 0.1, "b": 0.5, "rho_0": -2.25}
PAPERS = {"a_pi": 0.6, "b": 0.5, "rho_0": -3.0}
GRID = {
    "a_pi": [0.01, 0.03, 0.1, 0.3, 0.6, 1.0],
    "b": [0.1, 0.3, 0.5, 1.0, 2.0],
    "rho_0": [-6.0, -4.0, -3.0, -2.25, -1.0, 0.0],
}
SWEEPS: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "scenarios": ["1", "2"],
        "base": OURS,
        "grid": {"a_pi": [0.1, 0.6], "b": [0.5, 2.0], "rho_0": [-4.0, -2.25]},
    },
    "machine": {"scenarios": ["1", "2", "3"], "base": OURS, "grid": GRID},
    "paper": {"scenarios": ["1", "2", "3"], "base": PAPERS, "grid": GRID},
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every value of every hyperparameter with the others at their base, and the base itself once."""
    sweep = SWEEPS[scale]
    by_key = {}
    for replicate in range(REPLICATES[scale] if replicates is None else replicates):
        for scenario in sweep["scenarios"]:
            for name, values in sweep["grid"].items():
                for value in sorted({*values, sweep["base"][name]}):
                    at = {**sweep["base"], name: value}
                    where = "base" if at == sweep["base"] else f"{name}={value:g}"
                    key = f"{where}-s{scenario}-{replicate}"
                    problem = {"scenario": scenario, "layers": 3, "replicate": replicate, "seed": 3200 + replicate}
                    size = {**simulated_regressions.SIZES[scale], "factors": [1.0]}
                    by_key[key] = Cell(key, {"row": "r2d2-svgi", **at, "base": sweep["base"], **problem, **size})
    return list(by_key.values())


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit with the hyperparameters of a cell and measure the error on test rows."""
    rows = simulated_rows(settings)
    start = math.log1p(math.exp(settings["rho_0"]))
    method = {"initial_scale": start}
    prior = R2D2(settings["a_pi"], settings["b"])
    net = nets.paper_mlp(rows.x.shape[1], settings["layers"])
    chosen = fit_row({**settings, "method": method}, net, rows, place, prior=prior)
    predicted: Any = chosen.posterior.predict(rows.test_x, DRAWS)
    return {
        "mse": metrics.mse(rows.test_y, predicted.mean),
        "nll": -float(predicted.log_prob(rows.test_y).mean()),
        "validation": chosen.tried[0]["validation"],
        "initial_scale": start,
        "noise_floor": metrics.mse(rows.test_y, rows.test_mean),
        "constant": metrics.mse(rows.test_y, rows.y.mean().expand_as(rows.test_y)),
    }


ARTEFACT = Artefact(
    name="hyperparameters",
    title=TITLES["hyperparameters"],
    cells=cells,
    compute=compute,
    reduced=lambda scale: simulated_regressions.reduced(scale, REPLICATES[scale]),
)
