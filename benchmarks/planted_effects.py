"""Planted effects on the columns of a gene table: power and false discoveries of the ways of `rn.shrinkage.select`.

    python benchmarks/planted_effects.py [--seeds 10] [--ways terms lfdr]

The design has 120 rows and 200 columns: the genes of the leukemia set of Golub et al. (1999) with the largest variances
of the logarithm, intensities being bounded by 100 and 16,000 as its authors did, standardised. Rows are drawn from the
72 patients with replacement, and half a draw of a normal law with the genes' covariance, shrunk by Ledoit and Wolf, is
added, so that no two rows are equal: correlations are those of the genes. The target depends on 8 of them, with
coefficients of random sign between 0.5 and 1.5, and 80% of its variance is the truth. Groups of columns correlated by
0.8 or more count as one, for all ways. The folder of data is that of R2D2NET_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from sklearn.covariance import ledoit_wolf

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from r2d2net.registry import PRIORS
from r2d2net.shrinkage.selection_inputs import groups_of, inputs_of
from r2d2net.shrinkage.selection_models import models_for
from selection import by_knockoffs  # the benchmark beside this one

FILE = "planted-effects.json"
WAYS = ("terms", "lfdr", "lfdr, r2d2", "lfdr, horseshoe", "knockoffs", "knockoffs, lasso", "randomization")
ROWS, COLUMNS, EFFECTS = 120, 200, 8
BOUNDS = (0.1, 0.2)
Row = dict[str, Any]


def genes() -> np.ndarray:
    """Read the genes with the largest variances, standardised."""
    path = Path(os.environ["R2D2NET_DATA"]) / "sparse_regression" / "leukemia_golub.npz"
    with np.load(path) as file:
        tables = [file[name] for name in file.files if file[name].ndim == 2]
    table = np.log(np.concatenate(tables).astype(float).clip(100, 16_000))
    table = table[:, np.argsort(-table.var(0), kind="stable")[:COLUMNS]]
    return (table - table.mean(0)) / table.std(0)


def problem(table: np.ndarray, seed: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Draw a design and a target, and return them with the columns that matter."""
    rng = np.random.default_rng(seed)
    covariance, _ = ledoit_wolf(table, assume_centered=True)
    noise = rng.multivariate_normal(np.zeros(COLUMNS), covariance, size=ROWS, method="cholesky")
    x = table[rng.integers(len(table), size=ROWS)] + 0.5 * noise
    true = rng.choice(COLUMNS, EFFECTS, replace=False)
    mean = x[:, true] @ (rng.choice([-1, 1], EFFECTS) * rng.uniform(0.5, 1.5, EFFECTS))
    y = mean / mean.std() + 0.5 * rng.standard_normal(ROWS)
    return torch.from_numpy(x), torch.from_numpy(y), sorted(int(i) for i in true)


def q_values(way: str, x: torch.Tensor, y: torch.Tensor, seed: int) -> torch.Tensor:
    """Return the least bound at which each column would be selected."""
    select, models = rn.shrinkage.select, models_for(rn.likelihoods.Gaussian(), seed=seed)
    if way == "knockoffs, lasso":
        found = torch.ones(COLUMNS)
        found[by_knockoffs(x.numpy(), y.numpy(), seed)] = BOUNDS[0]
        return found
    if way.startswith("lfdr"):
        prior = PRIORS.constructor(way.removeprefix("lfdr, ") if "," in way else "adaptive")()
        model = rn.BayesianModel(torch.nn.Linear(COLUMNS, 1), prior)
        method = rn.inference.LinearGibbs(loo_draws=0)
        posterior = rn.fit(model, (x.float(), y.float()), method, epochs=400, seed=seed, verbose=False)
        return select(posterior, x, y.float(), method="lfdr", seed=seed).q_value
    if way == "knockoffs":
        return select(None, x, y.float(), method="knockoffs", refit=models, seed=seed).q_value
    if way == "terms":
        return select(None, x, y, seed=seed).q_value
    return select(None, x, y.float(), method="randomization", refit=models, seed=seed).q_value


def measured(way: str, seed: int, table: np.ndarray) -> list[Row]:
    """Select by one way on one problem."""
    x, y, true = problem(table, seed)
    group = groups_of(x, inputs_of(None, COLUMNS), 0.8).tolist()
    wanted = {group[i] for i in true}
    start = time.process_time()
    q = q_values(way, x, y, seed)
    seconds, rows = time.process_time() - start, []
    for bound in BOUNDS if way != "knockoffs, lasso" else BOUNDS[:1]:
        chosen = {group[i] for i in (q <= bound).nonzero().flatten().tolist()}
        scores = {
            "found": len(chosen & wanted) * EFFECTS / len(wanted),
            "selected": len(chosen),
            "false": len(chosen - wanted) / max(1, len(chosen)),
        }
        rows.append({"way": way, "seed": seed, "fdr": bound, "groups": len(set(group)), **scores, "seconds": seconds})
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """Average over seeds, with standard errors."""
    lines = []
    for way, bound in dict.fromkeys((row["way"], row["fdr"]) for row in rows):
        own = [row for row in rows if (row["way"], row["fdr"]) == (way, bound)]
        line: Row = {"way": way, "fdr": bound, "seeds": len(own)}
        for name in ("found", "selected", "false", "seconds"):
            values = [row[name] for row in own]
            line[name] = fmean(values)
            line[f"{name}_error"] = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
        lines.append(line)
    return lines


def markdown(lines: list[Row]) -> list[str]:
    """Write the summary as a table."""
    table = ["| way | fdr | found, of 8 | false | CPU s |", "|---|---|---|---|---|"]
    for line in lines:
        found = f"{line['found']:.1f} ± {line['found_error']:.1f}"
        table.append(f"| {line['way']} | {line['fdr']:g} | {found} | {line['false']:.2f} | {line['seconds']:.1f} |")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path, table = arguments.out / FILE, genes()
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["way"], row["seed"]) for row in rows}
    for way in arguments.ways:
        for seed in range(arguments.seeds):
            if (way, seed) in done:
                continue
            new = measured(way, seed, table)
            rows += [{**row, "commit": provenance({})["commit"]} for row in new]
            text = ", ".join(f"fdr {r['fdr']}: {r['found']:.1f} of 8, false {r['false']:.2f}" for r in new)
            print(way, seed, text, f"{new[0]['seconds']:.1f} s", flush=True)
            write_json(path, {"summary": summary(rows), "rows": rows, **provenance({"command": sys.argv[1:]})})


if __name__ == "__main__":
    main()
