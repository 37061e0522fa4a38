"""One draw of the weights for all processes of a fit, or one for each: the error after as many steps.

    python benchmarks/rank_draws.py [--sizes 2 4] [--seeds 8] [--out results/benchmarks/rank-draws.json]

SVGI that draws weights, `fit(..., rank_draws=...)`, on the same rows, starts and steps. A perceptron 4-50-50-1 on 1,000
rows of the simulated scenario 2, 50 epochs of batches of 128; LeNet on 3,000 images of MNIST, 8 epochs of batches of
128. The error is the negative log predictive density of rows that were not used, of the training split where there is
another: a choice of defaults is none of test rows. Times are not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import Any

import torch

import r2d2net as rn
from r2d2net.data.simulation import simulate
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from rank_processes import outputs_of_ranks

RULES = "shared", "per-rank"
PREDICTION_DRAWS = 50


def simulated(seed: int, rule: Any) -> float:
    """Return the error of a perceptron on simulated rows."""
    data = simulate("2", n=3000, seed=seed)
    torch.manual_seed(seed)
    model = rn.BayesianModel(rn.nets.mlp(data.x.shape[1], [50, 50], 1))
    method = rn.inference.SVGI(estimator="weights")
    options: dict[str, Any] = {"epochs": 50, "batch_size": 128, "seed": seed, "rank_draws": rule, "verbose": False}
    posterior = rn.fit(model, (data.x[:1000], data.y[:1000]), method, **options)
    return -float(posterior.predict(data.x[1000:], PREDICTION_DRAWS).log_prob(data.y[1000:]).mean())


def digits(seed: int, rule: Any) -> float:
    """Return the error of LeNet on images of MNIST."""
    data = rn.data.load("mnist", split="train")
    order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(seed))
    train, held_out = order[:3000], order[3000:6000]
    torch.manual_seed(seed)
    model = rn.BayesianModel(rn.nets.LeNet(1, 10, 28), likelihood=rn.likelihoods.Categorical())
    method = rn.inference.SVGI(estimator="weights")
    options: dict[str, Any] = {"epochs": 8, "batch_size": 128, "seed": seed, "rank_draws": rule, "verbose": False}
    posterior = rn.fit(model, (data.images[train].float() / 255, data.labels[train]), method, **options)
    predicted = posterior.predict(data.images[held_out].float() / 255, PREDICTION_DRAWS, ranks="split")
    return -float(predicted.log_prob(data.labels[held_out]).mean())


PROBLEMS = {"simulated": simulated, "MNIST": digits}


def rank_work(seeds: int) -> None:
    """Fit on this rank, and let rank 0 tell."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        name: {rule: [error(seed, rule) for seed in range(seeds)] for rule in RULES} for name, error in PROBLEMS.items()
    }
    if os.environ["RANK"] == "0":
        print("FOUND" + json.dumps(found), flush=True)


def world(size: int, seeds: int) -> dict[str, Any]:
    """Start processes that fit together; return the errors by problem and rule."""
    outs = outputs_of_ranks(__file__, size, ["--seeds", str(seeds)])
    return dict(json.loads(next(line for line in outs[0].splitlines() if line.startswith("FOUND"))[5:]))


def summary(errors: dict[str, list[float]]) -> dict[str, Any]:
    """Return the mean errors of both rules, and their mean difference with its standard error over seeds."""
    gaps = [apart - shared for shared, apart in zip(errors["shared"], errors["per-rank"], strict=True)]
    error = statistics.stdev(gaps) / len(gaps) ** 0.5
    means = {rule: statistics.fmean(errors[rule]) for rule in RULES}
    return {**means, "per-rank less shared": statistics.fmean(gaps), "standard error": error, "errors": errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/rank-draws.json"))
    parser.add_argument("--rank", action="store_true", help="fit on one of several processes")
    options = parser.parse_args()
    if options.rank:
        rank_work(options.seeds)
        return
    found = {}
    for size in options.sizes:
        errors = world(size, options.seeds)
        found[f"{size} processes"] = {name: summary(errors[name]) for name in PROBLEMS}
    print(json.dumps(found, indent=2))
    write_json(options.out, {**found, **provenance({"sizes": options.sizes, "seeds": options.seeds}, 0)})


if __name__ == "__main__":
    main()
