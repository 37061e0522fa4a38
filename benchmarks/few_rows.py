"""Does the KL's slow rise help where rows are few? Every fit twice, with the same seed: by the old rule and always.

    python benchmarks/few_rows.py classes | regression | linear | scenario  [--seeds 201 202] [--out results/benchmarks]

Before, the warm-up was 0.6 with 20 rows or more for each input of the first layer, and else 0; now it is
always 0.6. Problems with more rows than that (scenarios 1 and 2, all UCI tables of `reach.py`) are the same as before
and so not here. "long" is CAVI with the warm-up and four times the epochs. Scores are the log loss of test rows
(classes), their RMSE in units of sd(y) (regression) and their MSE (linear, scenario). Sections are kept in one file,
few-rows.json, and a section replaces its former self.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch import nn

import r2d2net as rn
import reach
from r2d2net.files import write_json
from r2d2net.paper.experiments.regimes import regression
from r2d2net.provenance import provenance
from r2d2net.run.choice import epochs_for

ALWAYS, ROWS_PER_INPUT = 0.6, 20
ALGORITHMS = {"SVGI": rn.inference.SVGI, "CAVI": rn.inference.CAVI}
PRIORS: dict[str, Any] = {"R2D2": rn.priors.R2D2(), "adaptive": rn.priors.R2D2.adaptive()}
Row = dict[str, Any]


class Rows(NamedTuple):
    """Training and test rows."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def old_rule(rows: int, inputs: int) -> float:
    """Return the warm-up of the old rule."""
    return ALWAYS if rows >= ROWS_PER_INPUT * inputs else 0.0


# --- tables of few rows, by the estimators' default network and length


def wide_classes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw 189 rows of 500 columns, 20 of which have different means in the three classes."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(189) % 3)
    centers = np.zeros((3, 500))
    centers[:, :20] = rng.normal(0, 1.2, (3, 20))
    return centers[labels] + rng.normal(size=(189, 500)), labels


CLASSES: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "wide classes": wide_classes,
    "wine": lambda seed: datasets.load_wine(return_X_y=True),
    "iris": lambda seed: datasets.load_iris(return_X_y=True),
    "breast cancer": lambda seed: datasets.load_breast_cancer(return_X_y=True),
}


def classes(name: str, seed: int) -> Rows:
    x, y = CLASSES[name](seed)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    return Rows(x, y, x_test, y_test)


WIDTHS = {"150 x 150": (150, 150), "60 x 1,000": (60, 1_000)}
TEST = 1_000


def sparse_table(name: str, seed: int) -> Rows:
    """Draw a linear regression of ten relevant columns, with a noise of a third of the signal's deviation."""
    rows, columns = WIDTHS[name]
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows + TEST, columns))
    signal = x[:, :10] @ rng.normal(size=10)
    y = signal + signal.std() / 3 * rng.normal(size=len(x))
    return Rows(x[:rows], y[:rows], x[rows:], y[rows:])


def score_of_table(data: Rows, prior: str, algorithm: str, warm_up: float, seed: int, longer: int = 1) -> float:
    """Fit an estimator; return the log loss of the test rows, or their RMSE in units of sd(y)."""
    are_classes = data.y.dtype.kind in "iu"
    kind = rn.R2D2Classifier if are_classes else rn.R2D2Regressor
    settings: dict[str, Any] = {"prior": PRIORS[prior], "random_state": seed}
    method = ALGORITHMS[algorithm](warm_up=warm_up)
    settings["epochs"] = longer * epochs_for(len(data.y), None, method)
    model: Any = kind(algorithm=method, **settings).fit(data.x, data.y)
    if are_classes:
        probabilities = model.predict_proba(data.x_test)
        return float(-np.log(probabilities[np.arange(len(data.y_test)), data.y_test]).mean())
    return float(np.sqrt(np.mean((model.predict(data.x_test) - data.y_test) ** 2)) / data.y_test.std())


def table_runs(load: Callable[[str, int], Rows], names: Sequence[str], seeds: Sequence[int]) -> list[Row]:
    rows = []
    for name in names:
        for prior in PRIORS:
            for seed in seeds:
                data = load(name, seed)
                for algorithm in ALGORITHMS:
                    warm_ups = dict.fromkeys((old_rule(*data.x.shape), ALWAYS))  # one fit where they are the same
                    scores = [score_of_table(data, prior, algorithm, w, seed) for w in warm_ups]
                    rows.append(shown(name, f"{algorithm} {prior}", seed, scores[0], scores[-1]))
                    if algorithm == "CAVI":
                        rows[-1]["long"] = score_of_table(data, prior, algorithm, ALWAYS, seed, longer=4)
    return rows


# --- the linear regimes and scenario 3 of `reach.py`


def linear_score(kind: str, prior: str, algorithm: str, warm_up: float, seed: int) -> float:
    problem = regression(kind, seed)
    x, y = problem.x, problem.y
    method = ALGORITHMS[algorithm](warm_up=warm_up)
    model = rn.BayesianModel(nn.Linear(200, 1), PRIORS[prior])
    posterior = rn.fit(model, (x[:500], y[:500]), method, epochs=500, batch_size=100, seed=seed, verbose=False)
    return rn.metrics.mse(y[500:], posterior.predict(x[500:]).mean)


def linear_runs(seeds: Sequence[int]) -> list[Row]:
    return [
        shown(kind, f"{algorithm} {prior}", seed, *(linear_score(kind, prior, algorithm, w, seed) for w in (0, ALWAYS)))
        for kind in ("sparse", "correlated", "big", "dense")
        for prior in PRIORS
        for algorithm in ALGORITHMS
        for seed in seeds
    ]


def scenario_runs(seeds: Sequence[int]) -> list[Row]:
    def score(layers: int, warm_up: float, seed: int) -> float:
        method = rn.inference.SVGI(warm_up=warm_up)
        return float(reach.scenario(3, layers, seed, jobs=1, algorithm=method)["mse"])

    return [
        shown(f"scenario 3, {layers} hidden", "SVGI R2D2", seed, *(score(layers, w, seed) for w in (0, ALWAYS)))
        for layers in (0, 1, 2, 3)
        for seed in seeds
    ]


# --- sections


def shown(case: str, contestant: str, seed: int, before: float, after: float) -> Row:
    print(f"{case}  {contestant}  seed {seed}  {before:.4f} -> {after:.4f}", flush=True)
    return {"case": case, "contestant": contestant, "seed": seed, "before": before, "after": after}


def summary(rows: Sequence[Row]) -> list[Row]:
    """Average over seeds: scores before and after, their paired difference and its standard error."""
    found: list[Row] = []
    for case, contestant in dict.fromkeys((row["case"], row["contestant"]) for row in rows):
        own = [row for row in rows if (row["case"], row["contestant"]) == (case, contestant)]
        changes = [row["after"] - row["before"] for row in own]
        means: Row = {name: fmean(row[name] for row in own) for name in ("before", "after", "long") if name in own[0]}
        error = stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else None
        found.append(
            {"case": case, "contestant": contestant, **means, "difference": fmean(changes), "standard_error": error}
        )
    return found


SECTIONS: dict[str, tuple[Callable[[Sequence[int]], list[Row]], int]] = {
    "classes": (lambda seeds: table_runs(classes, list(CLASSES), seeds), 5),
    "regression": (lambda seeds: table_runs(sparse_table, list(WIDTHS), seeds), 5),
    "linear": (linear_runs, 3),
    "scenario": (scenario_runs, 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=list(SECTIONS))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs, number = SECTIONS[arguments.section]
    seeds = arguments.seeds or list(range(201, 201 + number))
    rows = runs(seeds)
    path = arguments.out / "few-rows.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    facts = {"command": sys.argv[1:], "seeds": list(seeds), "before": "old rule", "after": ALWAYS}
    stored[arguments.section] = {"summary": summary(rows), "rows": rows, **provenance(facts)}
    write_json(path, stored)
    for line in stored[arguments.section]["summary"]:
        print("  ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in line.items()))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
