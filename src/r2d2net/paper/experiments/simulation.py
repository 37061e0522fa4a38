"""Table "simulation": test MSE and inference error of 11 rows on 3 scenarios with L = 0, 1, 2, 3 hidden layers.

Three rows more have the rivals' priors by SVGI: rivals have the algorithm of R2D2-Net too.

A first stage has Hamiltonian Monte Carlo find the oracle of each prior, scenario and depth, by chains that start where
variational runs end; the rows are then judged on test rows and against the oracle: by the paper's distance of mean
weights, and in function space. MSE is given beside that of the true function, of least squares and of the best constant
on the same test rows.
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
from r2d2net.paper.experiments.simulated_regressions import simulated_rows
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
    """One oracle for each prior and problem, then every row on every problem, in every replicate."""
    size = SIZES[scale]
    found: list[Cell] = []
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
                    found.append(Cell(f"oracle-{key}", settings, leaves=(f"{key}.safetensors",)))
                for row in NAMES:
                    settings = {"kind": "row", "row": row, **problem}
                    found.append(Cell(f"{row}-{where}", settings, 1, needs=(f"oracle-{_oracle_key(settings)}",)))
    return found


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """One oracle, or one row on one problem."""
    rows = simulated_rows(settings)
    x, y = torch.cat([rows.x, rows.held_x]), torch.cat([rows.y, rows.held_y])
    x_test, y_test = rows.test_x, rows.test_y
    oracle = place.shared / (_oracle_key(settings) + ".safetensors")
    if settings["kind"] == "oracle":
        prior = prior_of(settings["row"], settings["recipe"], len(y))
        model = BayesianModel(nets.paper_mlp(x.shape[1], settings["layers"]), prior)
        chains = [_chain(settings, model, (x, y), number, place.run) for number in range(CHAINS)]
        drawn = torch.cat([one.predict(x_test[:REFERENCE], DRAWS // CHAINS).samples for one in chains])
        mean = torch.stack([one.mean() for one in chains]).mean(0)
        save_file({"mean": mean, "functions": drawn.contiguous()}, oracle)
        found = of_predictions(chains, x_test[:REFERENCE])
        average = torch.stack([one.predict(x_test, DRAWS // CHAINS).mean for one in chains]).mean(0)
        return {
            "rhat": found.worst_rhat,
            "rhat_median": float(found.rhat.median()),
            "ess": found.least_ess,
            "divergences": found.divergences,
            "mse": metrics.mse(y_test, average),
        }

    chosen = fit_row(settings, nets.paper_mlp(x.shape[1], settings["layers"]), rows, place)
    predicted: Any = chosen.posterior.predict(x_test, DRAWS)
    truth = load_file(oracle)
    at_reference = chosen.posterior.predict(x_test[:REFERENCE], DRAWS)
    return {
        "mse": metrics.mse(y_test, predicted.mean),
        "nll": -float(predicted.log_prob(y_test).mean()),
        "coverage": metrics.coverage(y_test, *predicted.interval(0.9)),
        "inference_error": metrics.parameter_error(chosen.posterior.mean(), truth["mean"]),
        "function_error": metrics.function_error(at_reference, truth["functions"]),
        "function_distance": metrics.function_distance(at_reference, truth["functions"]),
        "tried": chosen.tried,
        "reference": reference_errors(x, y, x_test, y_test, rows.test_mean),
    }


def _chain(
    settings: Settings, model: BayesianModel, data: tuple[Tensor, Tensor], number: int, place: Path
) -> Posterior:
    """A chain of Hamiltonian Monte Carlo from the mean of a variational run of its own, with a seed that no row has.

    From random weights hundreds of transitions would be spent on the way to where the posterior's mass is.
    """
    wanted, seed = settings["oracle"], ORACLE_SEED + CHAINS * settings["seed"] + number
    options: dict[str, Any] = {"seed": seed, "verbose": False, "jobs": 1}
    near = fit(
        model,
        data,
        SVGI(),
        epochs=wanted["epochs"],
        batch_size=settings["batch_size"],
        resume=place / f"near-{number}",
        **options,
    )
    net = nets.paper_mlp(data[0].shape[1], settings["layers"])
    net.load_state_dict(near.state_dict())
    sampler = HMC(chains=1, start="net", max_tree_depth=wanted["depth"])
    there = BayesianModel(net, prior_of(settings["row"], settings["recipe"], len(data[1])))
    return fit(there, data, sampler, epochs=wanted["transitions"], resume=place / f"chain-{number}", **options)


def _oracle_key(settings: Settings) -> str:
    prior = ROWS[settings["row"]].prior.lower()
    return f"{prior}-s{settings['scenario']}-l{settings['layers']}-{settings['replicate']}"


def reference_errors(x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor, mean_test: Tensor) -> dict[str, float]:
    """Test MSE of the true function, of least squares and of the best constant."""
    ones, ones_test = (torch.cat([part, torch.ones(len(part), 1)], dim=1).double() for part in (x, x_test))
    line = torch.linalg.lstsq(ones, y[:, None].double()).solution
    return {
        "oracle": metrics.mse(y_test, mean_test),
        # LAPACK's last digits depend on where in memory the rows lie, and a result must not
        "least_squares": float(f"{metrics.mse(y_test, (ones_test @ line)[:, 0]):.9g}"),
        "constant": metrics.mse(y_test, y.mean().expand_as(y_test)),
    }


def reduced(scale: Scale) -> str:
    """What a scale leaves out."""
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
