"""Does an algorithm ever return nonsense without a word? 260 random small problems, every algorithm, its defaults.

    python benchmarks/random_problems.py  [--only mclmc sgld] [--problems 260] [--epochs 40] [--out results/benchmarks]

A problem has 5 to 500 rows and 1 to 5,000 columns (log-uniform), inputs and targets of scales 1e-3 to 1e3, columns that
are independent, correlated or heavy-tailed, a linear or curved signal from none to nearly noiseless; two in ten have
classes. Problems from the 201st on have 2 to 4 rows, 1 to 20 columns and no classes. The network is linear or has 20
hidden units. Runs are short on purpose: algorithms must say so where that is too short. Of each fit the outcome is
written, "fits", "warned" or "diverged", and the error as a multiple of the best constant's, on all training rows by 100
draws and on 500 fresh rows.

Nonsense is an error on training rows above 1.1 of the best constant's. Training rows, because an algorithm that sees
only these can be held to what they show: on fresh rows of a problem of 5 rows an honest posterior may be worse than the
mean of the 5, by chance. Errors on fresh rows are in the file too. Rows of algorithms that are
not run stay as they are in the file.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.errors import DivergenceError, FitWarning
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from r2d2net.registry import ALGORITHMS, FOR_CLASSES, FOR_LINEAR_PATH, FOR_ONE_LAYER, SUITABLE_PRIORS

FRESH, WORSE, HIDDEN = 500, 1.1, 20
ORDINARY, FEWEST = 200, (2, 3, 4)  # problems before those of so few rows
HMC_COLUMNS = 30  # a transition of HMC on wide tables takes minutes
SETTINGS: dict[str, dict[str, Any]] = {
    "hmc": {"chains": 1, "max_tree_depth": 5},
    "deepensemble": {"members": 2},
}


class Problem(NamedTuple):
    """Training and fresh rows, and the network for them."""

    x: Tensor
    y: Tensor
    fresh_x: Tensor
    fresh_y: Tensor
    net: nn.Module
    classes: int  # 0 for numbers


def problem(number: int) -> Problem:
    """Draw problem ``number``."""
    rng = np.random.default_rng([20, number])
    n, p = (round(math.exp(rng.uniform(math.log(low), math.log(high)))) for low, high in ((5, 500), (1, 5000)))
    if number >= ORDINARY:
        n, p = FEWEST[number % len(FEWEST)], 1 + p % 20
    rows = n + FRESH
    x = rng.normal(size=(rows, p))
    design = rng.choice(["independent", "correlated", "heavy-tailed"])
    if design == "correlated":
        x = x + rng.normal(size=(rows, 5)) @ rng.normal(size=(5, p))
    elif design == "heavy-tailed":
        x = x / np.sqrt(rng.chisquare(3, size=(rows, p)) / 3)
    relevant = rng.choice(p, size=min(p, int(rng.integers(1, 11))), replace=False)
    signal = x[:, relevant] @ rng.normal(size=len(relevant))
    if rng.random() < 0.3:
        signal = np.sin(signal) + 0.3 * signal**2
    noise = signal.std() * 10 ** rng.uniform(-1, 1)
    y = signal + noise * rng.normal(size=rows)
    classes = int(rng.choice([0, 2, 3], p=[0.8, 0.1, 0.1])) if number < ORDINARY else 0
    if classes:
        target = torch.from_numpy(np.searchsorted(np.quantile(y, np.arange(1, classes) / classes), y))
    else:
        target = torch.from_numpy(y * 10 ** rng.uniform(-3, 3) + rng.normal() * 10).float()
    inputs = torch.from_numpy(x * 10 ** rng.uniform(-3, 3)).float()
    linear, outputs = rng.random() < 0.5, max(1, classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        net = nn.Linear(p, outputs) if linear else rn.nets.mlp(p, [HIDDEN], outputs)
    return Problem(inputs[:n], target[:n], inputs[n:], target[n:], net, classes)


def suits(algorithm: str, given: Problem) -> bool:
    """Return whether an algorithm can be asked to solve a problem."""
    linear = isinstance(given.net, nn.Linear)
    if algorithm in FOR_CLASSES and not given.classes:
        return False
    if algorithm in FOR_ONE_LAYER and not linear:
        return False
    if algorithm in FOR_LINEAR_PATH and given.classes:
        return False
    if algorithm == "mcdropout" and linear:  # there is nothing to drop
        return False
    return algorithm != "hmc" or given.x.shape[1] <= HMC_COLUMNS


def error_ratio(posterior: Any, x: Tensor, y: Tensor, trained: Tensor) -> float:
    """Return RMSE or log loss as a multiple of that of the best constant of the training rows."""
    if y.is_floating_point():
        predicted, constant = posterior.predict(x).mean.double(), trained.double().mean()
        return float((predicted - y).square().mean().sqrt() / (constant - y.double()).square().mean().sqrt())
    probabilities = posterior.predict(x).probs.double()
    own = probabilities[torch.arange(len(y)), y].clamp(min=1e-300)
    shares = torch.bincount(trained, minlength=probabilities.shape[1]).double().clamp(min=0.5) / len(trained)
    return float(own.log().mean() / shares[y].log().mean())


def outcome(number: int, algorithm: str, epochs: int) -> dict[str, Any] | None:
    """Fit one problem by one algorithm; None where they do not go together."""
    given = problem(number)
    if not suits(algorithm, given):
        return None
    prior = rn.priors.Gaussian() if algorithm in SUITABLE_PRIORS else rn.priors.R2D2()
    likelihood: Any = rn.likelihoods.Categorical() if given.classes else rn.likelihoods.Gaussian()
    net = given.net
    if algorithm in FOR_LINEAR_PATH:
        with torch.random.fork_rng(devices=[]):
            net = rn.nets.LinearPath(net, given.x.shape[1])
    model = rn.BayesianModel(net, prior, likelihood)
    method = ALGORITHMS.constructor(algorithm)(**SETTINGS.get(algorithm, {}))
    row: dict[str, Any] = {"problem": number, "algorithm": algorithm, "rows": len(given.y), "columns": given.x.shape[1]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            posterior: Any = rn.fit(
                model, (given.x, given.y), method, epochs=epochs, seed=number, jobs=1, verbose=False
            )
        except DivergenceError as error:
            return {**row, "outcome": "diverged", "message": str(error)}
    told = [str(warning.message) for warning in caught if issubclass(warning.category, (FitWarning, UserWarning))]
    row |= {"outcome": "warned" if told else "fits", "verdict": posterior.health["verdict"]}
    row["training"] = error_ratio(posterior, given.x, given.y, given.y)
    row["fresh"] = error_ratio(posterior, given.fresh_x, given.fresh_y, given.y)
    return {**row, "message": told[0]} if told else row


def is_silent_nonsense(row: dict[str, Any]) -> bool:
    """Return whether a fit is worse than a constant on its training rows and nobody was told."""
    return row["outcome"] == "fits" and not row["training"] <= WORSE


def outcomes(numbers: Sequence[int], algorithms: Sequence[str], epochs: int) -> Iterator[dict[str, Any]]:
    """Yield the outcome of every algorithm on every problem that suits it."""
    for number in numbers:
        for algorithm in algorithms:
            row = outcome(number, algorithm, epochs)
            if row is not None:
                yield row


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count the outcomes of each algorithm."""
    found = []
    for algorithm in dict.fromkeys(row["algorithm"] for row in rows):
        own = [row for row in rows if row["algorithm"] == algorithm]
        quiet = [row for row in own if row["outcome"] == "fits"]
        line: dict[str, Any] = {"algorithm": algorithm, "fits": len(own)}
        line |= {kind: sum(row["outcome"] == kind for row in own) for kind in ("warned", "diverged")}
        line["silent_nonsense"] = sum(map(is_silent_nonsense, own))
        for name in ("training", "fresh"):
            ratios = [row[name] for row in quiet]
            line[f"{name}_median"], line[f"{name}_largest"] = (median(ratios), max(ratios)) if ratios else (None, None)
        found.append(line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=260)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--only", nargs="+", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    path = arguments.out / "random-problems.json"
    stored = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in stored if row["algorithm"] not in arguments.only]
    for row in outcomes(range(arguments.problems), arguments.only, arguments.epochs):
        rows.append(row)
        if is_silent_nonsense(row) or row["outcome"] == "diverged":
            print(row, flush=True)
    facts = {"command": sys.argv[1:], "problems": arguments.problems, "epochs": arguments.epochs}
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(path, {"summary": summary(rows), "rows": rows, **provenance(facts)})
    for line in summary(rows):
        print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in line.items()))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
