"""Errors and power of `rn.shrinkage.select` beside knockoffs with lasso statistics, where the truth is known.

    python benchmarks/selection.py [--replicates 5] [--only friedman]

Tables of normal columns, neighbours correlated by rho (an autoregressive process), n rows, p columns; 80% of the
target's variance is the truth:

    linear         8 columns with coefficients of random sign between 0.5 and 1.5
    friedman       Friedman's function of 5 columns: a product inside a sine, a parabola, two slopes
    interaction    x1 x2 + x3 x4

Ours is `select` as it is for numbers (`shrinkage.term_rates`). Knockoffs are second-order
Gaussian ones of equal correlation with the same shrunk covariance, statistics are differences of LassoCV coefficients,
the threshold is knockoffs+'s. Inputs with a correlation of 0.8 or more are one group, for both: a group is true if one
of its inputs is, and a selected input selects its group. In the file: rows, and means by cell with standard errors.
Rows that are there are not computed again; seeds of a replicate are those of all cells of its size.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LassoCV

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from r2d2net.shrinkage.selection_inputs import groups_of, inputs_of

FILE = "selection.json"
TRUTHS = ("linear", "friedman", "interaction")
SIZES = ((100, 20), (100, 200), (300, 100), (300, 500), (1000, 20), (1000, 200))
CORRELATIONS = (0.0, 0.5, 0.9)
FDR = 0.1
EFFECTS = 8
FEWEST = 5  # tables of a cell whose standard error is looked at
CELL = ("truth", "rows", "columns", "correlation", "contestant")
Row = dict[str, Any]


def table(rows: int, columns: int, correlation: float, generator: torch.Generator) -> torch.Tensor:
    """Draw columns of an autoregressive process."""
    z = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    x = z.clone()
    for j in range(1, columns):
        x[:, j] = correlation * x[:, j - 1] + (1 - correlation**2) ** 0.5 * z[:, j]
    return x


def target(truth: str, x: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, list[int]]:
    """Draw a target and return it with the columns on which it depends."""
    count = {"linear": EFFECTS, "friedman": 5, "interaction": 4}[truth]
    true = torch.randperm(x.shape[1], generator=generator)[:count]
    own = x[:, true]
    if truth == "linear":
        sign = 1 - 2 * torch.randint(2, (count,), generator=generator)
        mean = own @ (sign * (0.5 + torch.rand(count, generator=generator, dtype=torch.float64)))
    elif truth == "friedman":
        u = torch.special.ndtr(own)
        mean = 10 * torch.sin(torch.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]
    else:
        mean = own[:, 0] * own[:, 1] + own[:, 2] * own[:, 3]
    noise = torch.randn(len(x), generator=generator, dtype=torch.float64)
    return mean / mean.std() + 0.5 * noise, true.tolist()


def by_knockoffs(x: np.ndarray, y: np.ndarray, seed: int) -> list[int]:
    """Select by knockoffs+ with statistics of the lasso."""
    generator = np.random.default_rng(seed)
    rows, columns = x.shape
    x = (x - x.mean(0)) / x.std(0)
    covariance, _ = ledoit_wolf(x)
    scale = np.sqrt(np.diag(covariance))
    least = np.linalg.eigvalsh(covariance / scale / scale[:, None])[0]
    s = 0.999 * min(1.0, 2 * least) * scale**2
    precision = np.linalg.inv(covariance)
    mean = x - x @ precision * s
    spread = 2 * np.diag(s) - s[:, None] * precision * s
    normal = generator.standard_normal((rows, columns))
    twins = mean + normal @ np.linalg.cholesky(spread + 1e-9 * np.eye(columns)).T
    both = np.hstack([x, twins])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = np.abs(LassoCV(cv=5).fit((both - both.mean(0)) / both.std(0), y).coef_)
    difference = size[:columns] - size[columns:]
    for threshold in np.sort(np.abs(difference[difference != 0])):
        if (1 + (difference <= -threshold).sum()) / max(1, (difference >= threshold).sum()) <= FDR:
            return [int(i) for i in np.flatnonzero(difference >= threshold)]
    return []


def compare(truth: str, size: tuple[int, int], correlation: float, replicate: int) -> list[Row]:
    """Select by both on one table."""
    generator = torch.Generator().manual_seed(7919 * replicate + sum(size))
    x = table(*size, correlation, generator)
    y, true = target(truth, x, generator)
    labels = {"truth": truth, "rows": size[0], "columns": size[1], "correlation": correlation, "replicate": replicate}
    group = groups_of(x, inputs_of(None, size[1]), 0.8).tolist()
    found: list[Row] = []
    for contestant in ("r2d2net", "knockoffs, lasso"):
        start = time.process_time()
        if contestant == "r2d2net":
            selected = rn.shrinkage.select(None, x, y, fdr=FDR, seed=replicate).indices
        else:
            selected = by_knockoffs(x.numpy(), y.numpy(), replicate)
        seconds = time.process_time() - start
        groups, wanted = {group[i] for i in selected}, {group[i] for i in true}
        scores = {
            "false": len(groups - wanted) / max(1, len(groups)),
            "power": len(groups & wanted) / len(wanted),
            "seconds": seconds,
        }
        found.append({**labels, "contestant": contestant, **scores})
    return found


def by_cell(rows: Sequence[Row], keys: Sequence[str] = CELL) -> list[Row]:
    """Average over replicates, with standard errors."""
    lines: list[Row] = []
    for labels in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        own = [row for row in rows if tuple(row[key] for key in keys) == labels]
        line: Row = {**dict(zip(keys, labels, strict=True)), "replicates": len(own)}
        for measure in ("false", "power", "seconds"):
            values = [row[measure] for row in own]
            line[measure] = fmean(values)
            line[f"{measure}_error"] = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
        lines.append(line)
    return lines


def markdown(lines: Sequence[Row]) -> list[str]:
    """Write the cells as a table: false share and power at each correlation, of both contestants."""
    who = ("r2d2net", "knockoffs, lasso")
    names = [f"{name}, {correlation:g}" for name in ("select", "knockoffs") for correlation in CORRELATIONS]
    table = [f"| truth | rows x columns | tables | {' | '.join(names)} |", "|---" * (3 + len(names)) + "|"]
    for truth, (rows, columns) in itertools.product(TRUTHS, SIZES):
        own = [line for line in lines if (line["truth"], line["rows"], line["columns"]) == (truth, rows, columns)]
        found = {(line["contestant"], line["correlation"]): line for line in own}
        if found:
            cells = [found.get((name, correlation)) for name in who for correlation in CORRELATIONS]
            texts = [f"{cell['false']:.2f} / {cell['power']:.2f}" if cell else "" for cell in cells]
            tables = min(line["replicates"] for line in own)
            table.append(f"| {truth} | {rows} x {columns} | {tables} | {' | '.join(texts)} |")
    return table


def above(lines: Sequence[Row]) -> list[Row]:
    """Return the cells of ours whose false share is above the bound by more than two standard errors."""
    ours = [line for line in lines if line["contestant"] == "r2d2net" and line["replicates"] >= FEWEST]
    return [line for line in ours if line["false"] > FDR + 2 * line["false_error"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=TRUTHS, default=list(TRUTHS))
    parser.add_argument("--most-rows", type=int, default=1000)
    parser.add_argument("--most-columns", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = arguments.out / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["truth"], row["rows"], row["columns"], row["correlation"], row["replicate"]) for row in rows}
    sizes = [size for size in SIZES if size[0] <= arguments.most_rows and size[1] <= arguments.most_columns]
    for replicate in range(arguments.replicates):  # a benchmark that is stopped has whole replicates
        for truth, size, correlation in itertools.product(arguments.only, sizes, CORRELATIONS):
            if (truth, *size, correlation, replicate) in done:
                continue
            new = compare(truth, size, correlation, replicate)
            commit = provenance({})["commit"]
            rows += [{**row, "commit": commit} for row in new]
            scores = (f"{row['contestant']} false {row['false']:.2f} power {row['power']:.2f}" for row in new)
            print(truth, *size, correlation, replicate, *scores, f"{new[0]['seconds']:.1f} s", flush=True)
            write_json(path, {"summary": by_cell(rows), "rows": rows, **provenance({"command": sys.argv[1:]})})


if __name__ == "__main__":
    main()
