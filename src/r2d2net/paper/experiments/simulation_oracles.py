"""Oracles of "simulation": chains from several starts that sample the posterior of the rows, and their own error.

    p(w, s, e | y)    the posterior of a prior's rows: their network, prior, likelihood and training rows
    chains            STARTS runs, each with a start of its own; without hidden layers by exact Gibbs sampling
                      (`linear_oracle`), with them by microcanonical chains from SVGI (`inference.MCLMC`)
    R-hat             of the functions' values at reference inputs, over the chains of all starts
    own error         d(half of the starts, the other half), mean over the three ways to halve four starts

The distances d are those by which a row is compared with its oracle (`function_distance`, `function_error`), so a
row's distance over the oracle's own error says how much of it the oracle can tell. Starts are independent, so chains
that each stay in a mode of their own make that error large and are not taken for agreement. Hidden units can be
exchanged, so weights of different starts do not agree even where their functions do: their R-hat is only shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from r2d2net import metrics, nets
from r2d2net.diagnostics import of_predictions, of_weights
from r2d2net.inference import MCLMC
from r2d2net.model import BayesianModel
from r2d2net.paper.experiments.artefact import Scale
from r2d2net.paper.experiments.grid import Settings
from r2d2net.paper.experiments.linear_oracle import sample_linear
from r2d2net.paper.experiments.simulated_regressions import Rows
from r2d2net.paper.experiments.table_rows import ROWS, prior_of
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit

STARTS, SEED = 4, 100_000  # no row has such a seed
HALVES = ((0, 1), (0, 2), (0, 3))  # the three ways to halve four starts
REFERENCE = 200  # test inputs at which functions are compared
DRAWS = 50  # of each start, at those inputs
WEIGHTS = 200  # most weights whose R-hat is computed

# By hidden layers: chains of each start, steps of an epoch (one sweep without hidden layers), epochs by scenario. With
# hidden layers also directions of the chains' metric, by scenario; the 1,000 inputs of scenario 3 have none.
SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"chains": [2, 1, 1, 1], "sweep_steps": 20, "epochs": {"2": [100, 40, 40, 40]}, "directions": {"2": 50}},
    "machine": {
        "chains": [2, 4, 2, 2],
        "sweep_steps": 20,
        "epochs": {"1": [1_500, 240, 60, 40], "2": [1_500, 240, 60, 40], "3": [3_500, 36, 32, 24]},
        "directions": {"1": 100, "2": 100, "3": 0},
    },
    "paper": {
        "chains": [4, 4, 4, 4],
        "sweep_steps": 20,
        "epochs": {name: [10_000, 5_000, 5_000, 5_000] for name in ("1", "2", "3")},
        "directions": {"1": 100, "2": 100, "3": 0},
    },
}


def oracle_settings(scale: Scale, scenario: str, layers: int) -> dict[str, int]:
    """Return the size of an oracle, plain JSON.

    >>> oracle_settings("paper", "2", 1)
    {'starts': 4, 'chains': 4, 'sweep_steps': 20, 'epochs': 5000, 'directions': 100}
    """
    size = SIZES[scale]
    settings = {
        "starts": STARTS,
        "chains": size["chains"][layers],
        "sweep_steps": size["sweep_steps"] if layers else 1,
        "epochs": size["epochs"][scenario][layers],
    }
    return {**settings, "directions": size["directions"][scenario]} if layers else settings


def oracle_key(settings: Settings) -> str:
    """Return the name of the oracle of a row's prior and problem.

    >>> oracle_key({"row": "r2d2-svgi", "scenario": "2", "layers": 1, "replicate": 0})
    'r2d2-s2-l1-0'
    """
    prior = ROWS[settings["row"]].prior.lower()
    return f"{prior}-s{settings['scenario']}-l{settings['layers']}-{settings['replicate']}"


def compute_oracle(settings: Settings, rows: Rows, run: Path, file: Path) -> dict[str, Any]:
    """Sample the posterior under a row's prior, save mean weights and draws of the function, and measure convergence.

    Args:
        settings: Those of the cell: row, recipe, layers, seed, and oracle, as `oracle_settings` has it.
        rows: The data set; chains see the training rows, as the rows of the table do.
        run: Folder for checkpoints.
        file: Where weights and functions are saved.

    Returns:
        Convergence, own error and test error, plain JSON.
    """
    starts = [_sample(settings, rows, run / f"start-{number}", number) for number in range(STARTS)]
    at_reference = rows.test_x[:REFERENCE]
    functions = [start.predict(at_reference, DRAWS, seed=settings["seed"]).samples for start in starts]
    mean = torch.stack([mean_weights(start) for start in starts]).mean(0)
    save_file({"mean": mean, "functions": torch.cat(functions).contiguous()}, file)
    convergence, weights = of_predictions(starts, at_reference), of_weights(starts, WEIGHTS)
    predicted = torch.stack([start.predict(rows.test_x, DRAWS, seed=settings["seed"]).mean for start in starts])
    return {
        "rhat": convergence.worst_rhat,
        "rhat_median": float(convergence.rhat.median()),
        "rhat_weights": weights.worst_rhat,
        "ess": convergence.least_ess,
        "divergences": convergence.divergences,
        "draws": int(sum(start.state.weights.shape[0] * start.state.weights.shape[1] for start in starts)),
        "function_distance": own_error(functions, metrics.function_distance),
        "function_error": own_error(functions, metrics.function_error),
        "spread": float(torch.cat(functions).std(0).mean()),
        "mse": metrics.mse(rows.test_y, predicted.mean(0)),
    }


def own_error(functions: list[Tensor], distance: Callable[[Tensor, Tensor], float]) -> float:
    """Compute the distance between two halves of the starts, averaged over the three ways to halve them.

    Args:
        functions: Draws of the function by each of four starts, (draws, inputs).
        distance: Distance between two sets of draws.

    Returns:
        The mean distance.

    >>> own_error([torch.tensor([[value]]) for value in (0.0, 1.0, 2.0, 3.0)], metrics.function_error)
    1.0
    """
    found = []
    for half in HALVES:
        parts = ([functions[i] for i in half], [functions[i] for i in range(STARTS) if i not in half])
        found.append(distance(*(torch.cat(part) for part in parts)))
    return sum(found) / len(found)


def mean_weights(posterior: Posterior[Any]) -> Tensor:
    """Return the mean weights of a posterior, as the paper's inference error takes them, even over several chains."""
    stored = getattr(posterior.state, "weights", None)
    return posterior.mean() if stored is None else stored.flatten(0, 1).mean(0)


def _sample(settings: Settings, rows: Rows, run: Path, number: int) -> Posterior[Any]:
    """Run the chains of one start."""
    size, data = settings["oracle"], (rows.x, rows.y)
    prior = prior_of(settings["row"], settings["recipe"], len(rows.y))
    model = BayesianModel(nets.paper_mlp(rows.x.shape[1], settings["layers"]), prior)
    seed = SEED + STARTS * settings["seed"] + number
    if settings["layers"] == 0:
        return sample_linear(model, data, chains=size["chains"], sweeps=size["epochs"], seed=seed)
    chains = MCLMC(chains=size["chains"], sweep_steps=size["sweep_steps"], directions=size["directions"])
    return fit(model, data, chains, epochs=size["epochs"], seed=seed, resume=run, verbose=False, jobs=1)
