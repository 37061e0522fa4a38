"""Does a linear path beside a perceptron take the better of linear regression and perceptron? Six tables, three splits.

    python benchmarks/linear_path.py  [--data FOLDER] [--tables friedman1 diabetes] [--seeds 301 302] [--out FOLDER]

The data's folder has prostate.csv; without it that table is left out. Contestants have R2D2, one hidden layer of 50
units and their default length: LinearGibbs (no hidden layer), the perceptron by SVGI and by MCLMC, the perceptron with
a linear path by MCLMC and by LinearFirst. Errors are in units of the standard deviation of the test targets; coverage
is of 90% intervals. Results are written to linear-path.json as they come, and those that are there are not computed
again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance

HIDDEN, DRAWS, TEST = 50, 200, 500
CONTESTANTS: dict[str, tuple[str, list[int], bool]] = {  # algorithm, hidden layers, linear path
    "LinearGibbs": ("lineargibbs", [], False),
    "perceptron, SVGI": ("svgi", [HIDDEN], False),
    "perceptron, MCLMC": ("mclmc", [HIDDEN], False),
    "path, MCLMC": ("mclmc", [HIDDEN], True),
    "path, LinearFirst": ("linearfirst", [HIDDEN], True),
}
Row = dict[str, Any]


class Rows(NamedTuple):
    """Training and test rows."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def cut(x: np.ndarray, y: np.ndarray, train: int) -> Rows:
    return Rows(x[:train], y[:train], x[train:], y[train:])


def split(x: np.ndarray, y: np.ndarray, seed: int) -> Rows:
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.25, random_state=seed)
    return Rows(x, y, x_test, y_test)


def friedman1(seed: int) -> Rows:
    """Draw 300 rows of ten columns, five of them relevant, nonlinear."""
    x, y = datasets.make_friedman1(300 + TEST, 10, noise=1.0, random_state=seed)
    return cut(x, y, 300)


def diabetes(seed: int) -> Rows:
    x, y = datasets.load_diabetes(return_X_y=True)
    return split(x, y, seed)


def dense(seed: int) -> Rows:
    """Draw 130 rows of 300 independent columns, all of them relevant."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(130 + TEST, 300))
    signal = x @ rng.normal(size=300)
    return cut(x, signal + signal.std() / 3 * rng.normal(size=len(x)), 130)


def sparse(seed: int) -> Rows:
    """Draw 130 rows of 300 columns, neighbours of correlation 0.8, ten of them relevant."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(130 + TEST, 300))
    for j in range(1, 300):
        x[:, j] = 0.8 * x[:, j - 1] + 0.6 * x[:, j]
    signal = x[:, rng.choice(300, 10, replace=False)] @ rng.normal(size=10)
    return cut(x, signal + signal.std() / 3 * rng.normal(size=len(x)), 130)


def genes(seed: int) -> Rows:
    """Draw 71 rows of 4,000 columns that follow 12 factors, as expressions of genes do; 20 of them relevant."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(71 + TEST, 12))
    x = factors @ rng.normal(size=(12, 4_000)) / 4 + rng.normal(size=(len(factors), 4_000))
    signal = x[:, :20] @ rng.normal(size=20)
    return cut(x, signal + signal.std() / 2 * rng.normal(size=len(x)), 71)


def prostate(folder: Path) -> Callable[[int], Rows]:
    table = pd.read_csv(folder / "prostate.csv").drop(columns="train")
    x, y = table.drop(columns="lpsa").to_numpy(float), table["lpsa"].to_numpy()
    return lambda seed: split(x, y, seed)


TABLES: dict[str, Callable[[int], Rows]] = {
    "friedman1": friedman1,
    "diabetes": diabetes,
    "dense 130 x 300": dense,
    "sparse 130 x 300": sparse,
    "genes 71 x 4,000": genes,
}


def measured(data: Rows, contestant: str, seed: int) -> Row:
    """Fit a network; return its errors on test rows."""
    algorithm, hidden, linear = CONTESTANTS[contestant]
    x, y, x_test, y_test = (torch.from_numpy(np.asarray(values)).float() for values in data)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = rn.nets.mlp(x.shape[1], hidden, 1, linear=linear)
    start = time.process_time()
    posterior: Any = rn.fit(rn.BayesianModel(net), (x, y), algorithm, seed=seed, verbose=False)
    seconds = time.process_time() - start
    predicted = posterior.predict(x_test, DRAWS)
    low, high = predicted.interval(0.9)
    sd = float(y_test.std(correction=0))
    return {
        "rmse": float((predicted.mean - y_test).square().mean().sqrt()) / sd,
        "nll": -float(predicted.log_prob(y_test).mean()) - float(np.log(sd)),
        "coverage": float(((low <= y_test) & (y_test <= high)).double().mean()),
        "seconds": seconds,
    }


def summary(rows: Sequence[Row]) -> list[Row]:
    """Average over splits."""
    found: list[Row] = []
    for table, contestant in dict.fromkeys((row["table"], row["contestant"]) for row in rows):
        own = [row for row in rows if (row["table"], row["contestant"]) == (table, contestant)]
        means = {name: fmean(row[name] for row in own) for name in ("rmse", "nll", "coverage", "seconds")}
        found.append({"table": table, "contestant": contestant, "splits": len(own), **means})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[301, 302, 303])
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tables = dict(TABLES)
    if arguments.data is not None:
        tables = {"prostate": prostate(arguments.data), **tables}
    path = arguments.out / "linear-path.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    for name in arguments.tables or tables:
        for seed in arguments.seeds:
            data = tables[name](seed)
            for contestant in CONTESTANTS:
                key = {"table": name, "contestant": contestant, "seed": seed}
                if any(key.items() <= row.items() for row in rows):
                    continue
                rows.append({**key, **measured(data, contestant, seed)})
                print("  ".join(f"{v:.3f}" if isinstance(v, float) else f"{v}" for v in rows[-1].values()), flush=True)
                facts = {"seeds": arguments.seeds, "draws": DRAWS, "hidden": HIDDEN}
                write_json(path, {"summary": summary(rows), "rows": rows, **provenance(facts)})
    for line in summary(rows):
        print("  ".join(f"{v:.3f}" if isinstance(v, float) else f"{v}" for v in line.values()))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
