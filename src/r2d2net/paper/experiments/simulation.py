"""Table "simulation": test MSE and inference error of 11 rows on 3 scenarios with L = 0, 1, 2, 3 hidden layers.

Three further rows have the rivals' priors by SVGI, so that rivals have the algorithm of R2D2-Net too.

In a first stage Hamiltonian Monte Carlo computes an oracle for each prior, scenario and depth, by chains that start
where variational runs end. The rows are then measured on test rows and against the oracle: by the paper's distance of
mean weights, and in function space. The MSE is given beside that of the true function, of least squares and of the best
constant on the same test rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from r2d2net import metrics, nets
from r2d2net.diagnostics import of_predictions
from r2d2net.inference import HMC, SVGI
from r2d2net.model import BayesianModel
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.simulated_regressions import Rows, simulated_rows
from r2d2net.paper.experiments.table_rows import ROWS, our_training, prior_of
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit

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
)
CHAINS, ORACLE_SEED = 2, 100_000
REFERENCE = 200  # test inputs at which functions are compared
DRAWS = 100

SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "replicates": 1,
        "scenarios": ["2"],
        "layers": [1],
        "rows": 2_500,
        "epochs": 60,
        "batch_size": 128,
        "recipe": "ours",
        "factors": [1.0],
        "oracle": {"epochs": 40, "transitions": 10, "depth": 4},
    },
    "machine": {
        "replicates": 3,
        "scenarios": ["1", "2", "3"],
        "layers": [0, 1, 2, 3],
        "rows": 10_000,
        "epochs": 100,
        "batch_size": 1024,
        "recipe": "ours",
        "factors": [1.0, 0.3],
        "oracle": {"epochs": 100, "transitions": 30, "depth": 5},
    },
    "paper": {
        "replicates": 10,
        "scenarios": ["1", "2", "3"],
        "layers": [0, 1, 2, 3],
        "rows": 10_000,
        "epochs": 100,
        "batch_size": 1024,
        "recipe": "paper",
        "factors": [1.0, 0.3, 3.0],
        "oracle": {"epochs": 1000, "transitions": 2000, "depth": 10},
    },
}


def cells(scale: Scale, replicates: int | None = None, variant: str = "table") -> Sequence[Cell]:
    """Return an oracle for each prior and problem, then every row on every problem, in every replicate."""
    size = SIZES[scale]
    listed: list[Cell] = []
    for replicate in range(size["replicates"] if replicates is None else replicates):
        for scenario in size["scenarios"]:
            for layers in size["layers"]:
                where = f"s{scenario}-l{layers}-{replicate}"
                problem = {
                    "setting": f"S{scenario} L={layers}",
                    "scenario": scenario,
                    "variant": variant,
                    "layers": layers,
                    "replicate": replicate,
                    "seed": 1000 + replicate,
                    **{name: size[name] for name in ("rows", "epochs", "batch_size", "recipe", "factors", "oracle")},
                }
                priors = {ROWS[row].prior: row for row in NAMES}
                for row in priors.values():
                    settings = {"kind": "oracle", "row": row, **problem}
                    key = _oracle_key(settings)
                    listed.append(Cell(f"oracle-{key}", settings, leaves=(f"{key}.safetensors",)))
                for row in NAMES:
                    settings = {"kind": "row", "row": row, **problem}
                    listed.append(Cell(f"{row}-{where}", settings, 1, needs=(f"oracle-{_oracle_key(settings)}",)))
    return listed


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Compute an oracle, or fit a row and compare it with its oracle."""
    rows = simulated_rows(settings)
    oracle = place.shared / (_oracle_key(settings) + ".safetensors")
    if settings["kind"] == "oracle":
        return _compute_oracle(settings, rows, place, oracle)
    chosen = fit_row(settings, nets.paper_mlp(rows.x.shape[1], settings["layers"]), rows, place)
    predicted: Any = chosen.posterior.predict(rows.test_x, DRAWS)
    truth = load_file(oracle)
    at_reference = chosen.posterior.predict(rows.test_x[:REFERENCE], DRAWS)
    return {
        "mse": metrics.mse(rows.test_y, predicted.mean),
        "nll": -float(predicted.log_prob(rows.test_y).mean()),
        "coverage": metrics.coverage(rows.test_y, *predicted.interval(0.9)),
        "inference_error": metrics.parameter_error(chosen.posterior.mean(), truth["mean"]),
        "function_error": metrics.function_error(at_reference, truth["functions"]),
        "function_distance": metrics.function_distance(at_reference, truth["functions"]),
        "tried": chosen.tried,
        "reference": reference_errors(rows),
    }


def _compute_oracle(settings: Settings, rows: Rows, place: Place, file: Path) -> dict[str, Any]:
    """Sample the posterior under a row's prior, and save the mean weights and draws of the function."""
    x, y = _all_training_rows(rows)
    prior = prior_of(settings["row"], settings["recipe"], len(y))
    model = BayesianModel(nets.paper_mlp(x.shape[1], settings["layers"]), prior)
    chains = [_chain(settings, model, (x, y), number, place.run) for number in range(CHAINS)]
    at_reference = rows.test_x[:REFERENCE]
    functions = torch.cat([chain.predict(at_reference, DRAWS // CHAINS).samples for chain in chains])
    mean = torch.stack([chain.mean() for chain in chains]).mean(0)
    save_file({"mean": mean, "functions": functions.contiguous()}, file)
    convergence = of_predictions(chains, at_reference)
    predicted = torch.stack([chain.predict(rows.test_x, DRAWS // CHAINS).mean for chain in chains]).mean(0)
    return {
        "rhat": convergence.worst_rhat,
        "rhat_median": float(convergence.rhat.median()),
        "ess": convergence.least_ess,
        "divergences": convergence.divergences,
        "mse": metrics.mse(rows.test_y, predicted),
    }


def _chain(
    settings: Settings, model: BayesianModel, data: tuple[Tensor, Tensor], number: int, place: Path
) -> Posterior:
    """Run a chain of Hamiltonian Monte Carlo from the mean of a variational run, with a seed that no row has.

    From random weights, hundreds of transitions would be spent on the way to where the posterior's mass is.
    """
    lengths, seed = settings["oracle"], ORACLE_SEED + CHAINS * settings["seed"] + number
    options: dict[str, Any] = {"seed": seed, "verbose": False, "jobs": 1}
    near = fit(
        model,
        data,
        SVGI(),
        epochs=lengths["epochs"],
        batch_size=settings["batch_size"],
        resume=place / f"near-{number}",
        **options,
    )
    net = nets.paper_mlp(data[0].shape[1], settings["layers"])
    net.load_state_dict(near.state_dict())
    sampler = HMC(chains=1, start="net", max_tree_depth=lengths["depth"])
    started = BayesianModel(net, prior_of(settings["row"], settings["recipe"], len(data[1])))
    return fit(started, data, sampler, epochs=lengths["transitions"], resume=place / f"chain-{number}", **options)


def _oracle_key(settings: Settings) -> str:
    prior = ROWS[settings["row"]].prior.lower()
    return f"{prior}-s{settings['scenario']}-l{settings['layers']}-{settings['replicate']}"


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
        f"{full['epochs']}, no early stopping; {our_training(size)}; oracles are {size['oracle']['transitions']} "
        "transitions of two chains, half of them warm-up, from the means of variational runs"
    )


ARTEFACT = Artefact(
    name="simulation",
    title=TITLES["simulation"],
    cells=cells,
    compute=compute,
    reduced=reduced,
    variants=("table", "text"),
)
