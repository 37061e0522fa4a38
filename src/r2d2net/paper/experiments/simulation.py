"""Table "simulation": test MSE and inference error of 11 rows on 3 scenarios with L = 0, 1, 2, 3 hidden layers.

Three further rows have the rivals' priors by SVGI, so that rivals have the algorithm of R2D2-Net too. Two have R2D2 by
algorithms that the paper does not know: microcanonical chains, and exact Gibbs sampling, which is for linear models.

Three kinds of cells: an oracle for each prior, scenario and depth, by chains (`simulation_oracles`); the rows, measured
on test rows; and a judgement of each row by its oracle, by the paper's distance of mean weights and in function space.
So a row needs no second fit where only oracles are missing, but for one whose draws have been thrown away. The MSE is
given beside that of the true function, of least squares and of the best constant on the same test rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import load_file, save_file
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
METHODS = {"r2d2-gibbs": {"loo_draws": 0}}  # leave-one-out moments of thousands of rows would be most of its time
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
        "chain_epochs": {"r2d2-mclmc": 25, "r2d2-gibbs": 100},
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
                names = [row for row in NAMES if layers == 0 or row not in LINEAR]
                judged = replicate < size["oracles"]
                listed += [_row_cell({"row": row, **problem}, size, judged=judged) for row in names]
                if judged:
                    oracle = {**problem, "oracle": oracle_settings(scale, scenario, layers)}
                    firsts = {ROWS[row].prior: row for row in reversed(names)}
                    listed += [_oracle_cell({"row": row, **oracle}) for row in firsts.values()]
                    listed += [_judgement({"row": row, **oracle}, size) for row in names if row not in OTHER_POSTERIOR]
    return listed


def _row_cell(settings: Settings, size: dict[str, Any], *, judged: bool) -> Cell:
    """Return the cell of a row."""
    name = _name(settings)
    leaves = (f"{name}.safetensors",) if judged and settings["row"] not in OTHER_POSTERIOR else ()
    return Cell(name, {"kind": "row", **settings, **_lengths(settings["row"], size)}, leaves=leaves)


def _oracle_cell(settings: Settings) -> Cell:
    """Return the cell of an oracle, whose prior is that of a row."""
    key = oracle_key(settings)
    return Cell(f"oracle-{key}", {"kind": "oracle", **settings}, leaves=(f"oracle-{key}.safetensors",))


def _judgement(settings: Settings, size: dict[str, Any]) -> Cell:
    """Return the cell in which a row is compared with its oracle."""
    name, needs = _name(settings), f"oracle-{oracle_key(settings)}"
    lengths = _lengths(settings["row"], size)
    return Cell(f"judge-{name}", {"kind": "judgement", **settings, **lengths}, 1, needs=(name, needs))


def _name(settings: Settings) -> str:
    return f"{settings['row']}-s{settings['scenario']}-l{settings['layers']}-{settings['replicate']}"


def _lengths(row: str, size: dict[str, Any]) -> Settings:
    epochs = size["chain_epochs"].get(row, size["epochs"])
    method = {"method": METHODS[row]} if row in METHODS else {}
    return {"epochs": epochs, "batch_size": size["batch_size"], "factors": size["factors"], **method}


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Compute an oracle, fit a row, or compare a row with its oracle."""
    oracle, row = (place.shared / f"{name}.safetensors" for name in (f"oracle-{oracle_key(settings)}", _name(settings)))
    if settings["kind"] == "judgement":
        return _compare(load_file(row), load_file(oracle))
    rows = simulated_rows(settings)
    if settings["kind"] == "oracle":
        return compute_oracle(settings, rows, place.run, oracle)
    chosen = fit_row(settings, nets.paper_mlp(rows.x.shape[1], settings["layers"]), rows, place)
    predicted: Any = chosen.posterior.predict(rows.test_x, DRAWS)
    functions = chosen.posterior.predict(rows.test_x[:REFERENCE], DRAWS).samples
    save_file({"mean": mean_weights(chosen.posterior).contiguous(), "functions": functions.contiguous()}, row)
    return {
        "mse": metrics.mse(rows.test_y, predicted.mean),
        "nll": -float(predicted.log_prob(rows.test_y).mean()),
        "coverage": metrics.coverage(rows.test_y, *predicted.interval(0.9)),
        "tried": chosen.tried,
        "reference": reference_errors(rows),
    }


def _compare(row: dict[str, Tensor], oracle: dict[str, Tensor]) -> dict[str, Any]:
    return {
        "inference_error": metrics.parameter_error(row["mean"], oracle["mean"]),
        "function_error": metrics.function_error(row["functions"], oracle["functions"]),
        "function_distance": metrics.function_distance(row["functions"], oracle["functions"]),
    }


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
