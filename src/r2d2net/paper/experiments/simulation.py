"""Table "simulation": test MSE and inference error of 11 rows on 3 scenarios with L = 0, 1, 2, 3 hidden layers.

Three further rows have the rivals' priors by SVGI, so that rivals have the algorithm of R2D2-Net too. Two have R2D2 by
algorithms that the paper does not know: microcanonical chains, and exact Gibbs sampling, which is for linear models.

In a first stage chains compute an oracle for each prior, scenario and depth (`simulation_oracles`). The rows are then
measured on test rows and against the oracle: by the paper's distance of mean weights, and in function space. The MSE is
given beside that of the true function, of least squares and of the best constant on the same test rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from r2d2net import metrics, nets
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.simulated_regressions import Rows, simulated_rows
from r2d2net.paper.experiments.simulation_oracles import (
    REFERENCE,
    STARTS,
    compute_oracle,
    mean_weights,
    oracle_key,
    oracle_settings,
)
from r2d2net.paper.experiments.table_rows import ROWS, our_training

NAMES = (
    "gauss-svi",
    "gauss-svgi",
    "gauss-sgmcmc",
    "gauss-sgld",
    "sas-svi",
    "sas-svgi",
    "sas-sgmcmc",
    "sas-sgld",
    "hs-svi",
    "hs-svgi",
    "hs-sgmcmc",
    "r2d2-sgmcmc",
    "r2d2-sgld",
    "r2d2-svgi",
    "r2d2-mclmc",
    "r2d2-gibbs",
)
LINEAR = {"r2d2-gibbs"}  # rows of linear models alone: one with hidden layers has no exact Gibbs sweep of its weights
OTHER_POSTERIOR = {"r2d2-gibbs"}  # it has a beta prior on R2 in place of the prior's own scale, so no oracle judges it
DRAWS = 100

SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "replicates": 1,
        "oracles": 1,
        "scenarios": ["2"],
        "layers": [1],
        "rows": 2_500,
        "epochs": 60,
        "chain_epochs": {"r2d2-mclmc": 10, "r2d2-gibbs": 200},
        "batch_size": 128,
        "recipe": "ours",
        "factors": [1.0],
    },
    "machine": {
        "replicates": 3,
        "oracles": 1,
        "scenarios": ["1", "2", "3"],
        "layers": [0, 1, 2, 3],
        "rows": 10_000,
        "epochs": 100,
        "chain_epochs": {"r2d2-mclmc": 25, "r2d2-gibbs": 400},
        "batch_size": 1024,
        "recipe": "ours",
        "factors": [1.0, 0.3],
    },
    "paper": {
        "replicates": 10,
        "oracles": 10,
        "scenarios": ["1", "2", "3"],
        "layers": [0, 1, 2, 3],
        "rows": 10_000,
        "epochs": 100,
        "chain_epochs": {"r2d2-mclmc": 500, "r2d2-gibbs": 4_000},
        "batch_size": 1024,
        "recipe": "paper",
        "factors": [1.0, 0.3, 3.0],
    },
}


def cells(scale: Scale, replicates: int | None = None, variant: str = "table") -> Sequence[Cell]:
    """Return every row on every problem in every replicate; in the first ones also the oracles that judge them."""
    size = SIZES[scale]
    listed: list[Cell] = []
    for replicate in range(size["replicates"] if replicates is None else replicates):
        for scenario in size["scenarios"]:
            for layers in size["layers"]:
                problem = {
                    "setting": f"S{scenario} L={layers}",
                    "scenario": scenario,
                    "variant": variant,
                    "layers": layers,
                    "replicate": replicate,
                    "seed": 1000 + replicate,
                    "rows": size["rows"],
                    "recipe": size["recipe"],
                }
                oracle = {"oracle": oracle_settings(scale, scenario, layers)} if replicate < size["oracles"] else {}
                listed += _oracle_cells({**problem, **oracle}) if oracle else []
                listed += [_row_cell(row, problem, oracle, size) for row in NAMES if layers == 0 or row not in LINEAR]
    return listed


def _oracle_cells(problem: Settings) -> list[Cell]:
    """Return the oracle of each prior."""
    listed = []
    for row in {ROWS[name].prior: name for name in reversed(NAMES)}.values():
        settings = {"kind": "oracle", "row": row, **problem}
        key = oracle_key(settings)
        listed.append(Cell(f"oracle-{key}", settings, leaves=(f"{key}.safetensors",)))
    return listed


def _row_cell(row: str, problem: Settings, oracle: Settings, size: dict[str, Any]) -> Cell:
    """Return the cell of a row, which needs its oracle where there is one."""
    where = f"s{problem['scenario']}-l{problem['layers']}-{problem['replicate']}"
    lengths = {
        "epochs": size["chain_epochs"].get(row, size["epochs"]),
        **{name: size[name] for name in ("batch_size", "factors")},
    }
    judge = {} if row in OTHER_POSTERIOR else oracle
    settings = {"kind": "row", "row": row, **problem, **lengths, **judge}
    return Cell(f"{row}-{where}", settings, 1, needs=(f"oracle-{oracle_key(settings)}",) if judge else ())


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Compute an oracle, or fit a row and compare it with its oracle where it has one."""
    rows = simulated_rows(settings)
    oracle = place.shared / (oracle_key(settings) + ".safetensors")
    if settings["kind"] == "oracle":
        return compute_oracle(settings, rows, place.run, oracle)
    chosen = fit_row(settings, nets.paper_mlp(rows.x.shape[1], settings["layers"]), rows, place)
    predicted: Any = chosen.posterior.predict(rows.test_x, DRAWS)
    result = {
        "mse": metrics.mse(rows.test_y, predicted.mean),
        "nll": -float(predicted.log_prob(rows.test_y).mean()),
        "coverage": metrics.coverage(rows.test_y, *predicted.interval(0.9)),
        "tried": chosen.tried,
        "reference": reference_errors(rows),
    }
    if "oracle" in settings:
        truth = load_file(oracle)
        at_reference = chosen.posterior.predict(rows.test_x[:REFERENCE], DRAWS)
        result |= {
            "inference_error": metrics.parameter_error(mean_weights(chosen.posterior), truth["mean"]),
            "function_error": metrics.function_error(at_reference, truth["functions"]),
            "function_distance": metrics.function_distance(at_reference, truth["functions"]),
        }
    return result


def _all_training_rows(rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the rows that are not test rows, held-out rows last."""
    return torch.cat([rows.x, rows.held_x]), torch.cat([rows.y, rows.held_y])


def reference_errors(rows: Rows) -> dict[str, float]:
    """Measure the test MSE of the true function, of least squares and of the best constant.

    Args:
        rows: The data set; least squares and the constant are fitted to all rows that are not test rows.

    Returns:
        The errors by the names oracle, least_squares and constant.
    """
    x, y = _all_training_rows(rows)
    design, test_design = (torch.cat([part, torch.ones(len(part), 1)], dim=1).double() for part in (x, rows.test_x))
    coefficients = torch.linalg.lstsq(design, y[:, None].double()).solution
    return {
        "oracle": metrics.mse(rows.test_y, rows.test_mean),
        # LAPACK's last digits depend on where in memory the rows lie, and a result must not
        "least_squares": float(f"{metrics.mse(rows.test_y, (test_design @ coefficients)[:, 0]):.9g}"),
        "constant": metrics.mse(rows.test_y, y.mean().expand_as(rows.test_y)),
    }


def reduced(scale: Scale) -> str:
    """Say what a scale leaves out; "" for the paper's."""
    size, full = SIZES[scale], SIZES["paper"]
    if scale == "paper":
        return ""
    return (
        f"{size['replicates']} replicates of the paper's {full['replicates']}, {size['epochs']} epochs of "
        f"{full['epochs']}, no early stopping; {our_training(size)}; oracles for {size['oracles']} of the replicates, "
        f"{STARTS} starts each, whose chains are as short as an hour allows"
    )


ARTEFACT = Artefact(
    name="simulation",
    title=TITLES["simulation"],
    cells=cells,
    compute=compute,
    reduced=reduced,
    variants=("table", "text"),
)
