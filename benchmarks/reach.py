"""Test errors of R2D2-Net on the paper's scenarios, linear regimes and UCI tables, with nothing tuned on test rows.

    python benchmarks/reach.py scenarios | linear | uci  [--seeds 101 102 103] [--out out/reach]

All runs use the default settings of SVGI, which were chosen on validation rows of scenarios 1 and 2 (seeds 0 to 3) and
of UCI splits 10 to 12; the figures here are from other seeds and splits. Each section writes a JSON file with its
provenance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.paper.experiments.regimes import regression
from r2d2net.provenance import provenance

R2D2, SVGI, CAVI = rn.priors.R2D2, rn.inference.SVGI, rn.inference.CAVI
Row = dict[str, Any]

# --- the paper's scenarios: 10,000 rows, 80/20, batches of 1024, 100 epochs; better of two starts by validation

SCENARIO: dict[str, Any] = {"epochs": 100, "batch_size": 1024, "restarts": 2, "validation": 0.1, "verbose": False}


def scenario(number: int, layers: int, seed: int, **options: Any) -> Row:
    """MLP with so many hidden layers on a scenario, beside the oracle, least squares and the best constant."""
    all_rows = rn.data.simulate(number, seed=seed)
    x, y, test = all_rows.x[:8000], all_rows.y[:8000], slice(8000, None)
    model = rn.BayesianModel(rn.nets.paper_mlp(x.shape[1], layers), R2D2())
    start = time.perf_counter()
    posterior = rn.fit(model, (x, y), seed=seed, **{**SCENARIO, **options})
    seconds = time.perf_counter() - start
    x_test, y_test = all_rows.x[test], all_rows.y[test]
    predicted: Any = posterior.predict(x_test)
    least_squares = torch.linalg.lstsq(_with_ones(x), y[:, None]).solution
    return {
        "scenario": number,
        "layers": layers,
        "seed": seed,
        "mse": rn.metrics.mse(y_test, predicted.mean),
        "coverage": rn.metrics.coverage(y_test, *predicted.interval(0.9)),
        "oracle": rn.metrics.mse(y_test, all_rows.mean[test]),
        "least_squares": rn.metrics.mse(y_test, (_with_ones(x_test) @ least_squares)[:, 0]),
        "constant": rn.metrics.mse(y_test, y.mean().expand_as(y_test)),
        "seconds": seconds,
    }


def _with_ones(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones(len(x), 1)], dim=1)


# --- linear regimes (`r2d2net.paper.experiments.regimes`): 200 inputs, 500 training rows, noise 1


class Contestant(NamedTuple):
    """A prior and an algorithm."""

    prior: Any
    algorithm: Any


CONTESTANTS = {
    "adaptive": Contestant(R2D2.adaptive(), SVGI()),
    "adaptive, coordinate ascent": Contestant(R2D2.adaptive(), CAVI()),
    "R2D2": Contestant(R2D2(), SVGI()),
    "R2D2, coordinate ascent": Contestant(R2D2(), CAVI()),
    "R2D2, paper's a_pi": Contestant(R2D2.paper(), SVGI()),
    "horseshoe": Contestant(rn.priors.Horseshoe(), SVGI()),
    "Gaussian": Contestant(rn.priors.Gaussian(), SVGI()),
}


def linear_run(kind: str, name: str, seed: int) -> Row:
    """Compute a contestant's test error and the AUROC by which |E w| separates relevant inputs from the others."""
    problem = regression(kind, seed)
    x, y = problem.x, problem.y
    model = rn.BayesianModel(nn.Linear(200, 1), CONTESTANTS[name].prior)
    posterior = rn.fit(
        model, (x[:500], y[:500]), CONTESTANTS[name].algorithm, epochs=500, batch_size=100, seed=seed, verbose=False
    )
    row = {"kind": kind, "contestant": name, "seed": seed}
    row["mse"] = rn.metrics.mse(y[500:], posterior.predict(x[500:]).mean)
    if kind != "dense":
        row["auroc"] = rn.metrics.auroc(problem.relevant, posterior.mean()[:200].abs())
    return row


# --- UCI: 50 ReLU units, the published splits, 10,000 steps of 64 rows

UCI = ("boston", "energy", "wine", "yacht", "kin8nm")


def uci_run(name: str, split: int) -> Row:
    table: Any = rn.data.load(name)
    (x, y), (x_test, y_test) = table.split(split)
    y, y_test = y.squeeze(-1), y_test.squeeze(-1)
    model = rn.BayesianModel(rn.nets.mlp(x.shape[1], [50], 1), R2D2())
    epochs = max(1, 10_000 // -(-len(y) // 64))
    posterior = rn.fit(model, (x, y), epochs=epochs, batch_size=64, seed=split, verbose=False)
    predicted: Any = posterior.predict(x_test)
    return {
        "set": name,
        "split": split,
        "rmse": rn.metrics.rmse(y_test, predicted.mean),
        "nll": rn.metrics.nll(y_test, predicted),
        "coverage": rn.metrics.coverage(y_test, *predicted.interval(0.9)),
    }


# --- sections


def scenarios_section(seeds: Sequence[int]) -> list[Callable[[], Row]]:
    return [
        lambda s=s, k=k, n=n: scenario(k, n, s, jobs=1)  # type: ignore[misc]
        for s in seeds
        for k in (1, 2, 3)
        for n in (0, 1, 2, 3)
    ]


def linear_section(seeds: Sequence[int]) -> list[Callable[[], Row]]:
    kinds = ("sparse", "correlated", "big", "dense")
    return [lambda s=s, k=k, c=c: linear_run(k, c, s) for s in seeds for k in kinds for c in CONTESTANTS]  # type: ignore[misc]


def uci_section(seeds: Sequence[int]) -> list[Callable[[], Row]]:
    return [lambda s=s, n=n: uci_run(n, s) for n in UCI for s in seeds]  # type: ignore[misc]


SECTIONS = {
    "scenarios": (scenarios_section, [101, 102, 103]),
    "linear": (linear_section, [101, 102, 103, 104, 105]),
    "uci": (uci_section, [0, 1, 2, 3, 4]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=list(SECTIONS))
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds, or splits of the UCI tables")
    parser.add_argument("--out", type=Path, default=Path("out/reach"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    section, default = SECTIONS[arguments.section]
    seeds = default if arguments.seeds is None else arguments.seeds
    rows = []
    for run in section(seeds):
        rows.append(run())
        print(
            "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    settings = {"command": sys.argv[1:], "seeds": list(seeds)}
    path = arguments.out / f"{arguments.section}.json"
    write_json(path, {"rows": rows, "provenance": provenance(settings)})
    print(f"written to {path}")


if __name__ == "__main__":
    main()
