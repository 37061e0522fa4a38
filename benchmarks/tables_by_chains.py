"""SVGI, chains and what users would take instead, on eleven tables.

    python benchmarks/tables_by_chains.py [--tables yacht iris] [--splits 0 1 2 3 4] [--out results/benchmarks]
    python benchmarks/tables_by_chains.py --lengths 0.5 1 2 --splits 10 11 [--tables friedman1 diabetes iris]

Five splits of each table (the published ones where there are any). The settings of MCLMC were chosen on splits 10 and
11 of nine of these tables (all but kin8nm and naval), which are not used here. Ours have 50, 50 hidden units, as the
estimators have, or one layer of 50 beside a linear path, and their default lengths; "default, stacked" is what the
estimators do by default. The others are scikit-learn's:
ridge and logistic regression with their penalty by cross-validation, trees with their defaults. A regressor's density
is normal around its prediction, with the root mean squared error of 5-fold cross-validation on the training rows.
Seconds are CPU seconds of one thread. The file has means over all splits ("summary"), and those of all contestants over
the splits that "default, stacked" has been run on ("where_stacked"). With --lengths MCLMC alone is fitted, with so many
times sqrt(number of weights) as the length over which a direction is forgotten; the file is mclmc-length.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from sklearn import datasets
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from r2d2net.run.choice import epochs_for
from r2d2net.run.stacking import fit_stacked

FILE = "tables-by-chains.json"
UCI = {"energy": None, "yacht": None, "boston": None, "wine-red": None, "kin8nm": 1000, "naval": 1000}  # training rows
NAMES = {"wine-red": "wine"}
CLASSES = {"iris": datasets.load_iris, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}
TABLES = (*UCI, "diabetes", "friedman1", *CLASSES)
STACKED = "default, stacked"
OURS = ("SVGI", "MCLMC", "MCLMC, linear path", STACKED)
OTHERS = ("linear", "boosted trees", "random forest")
TEST = 0.2
FRIEDMAN_ROWS, FRIEDMAN_TEST = 300, 1000
LEAST_PROBABILITY = 1e-6  # forests say 0 of classes that no tree votes for
Row = dict[str, Any]


class Rows(NamedTuple):
    """Training and test rows, float32 inputs."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    is_regression: bool


def table(name: str, split: int) -> Rows:
    """Return one split of a table."""
    if name in UCI:
        loaded: Any = rn.data.load(NAMES.get(name, name))
        (x, y), (x_test, y_test) = loaded.split(split)
        most = UCI[name]
        x, y, x_test, y_test = (np.asarray(part, np.float32) for part in (x[:most], y[:most], x_test, y_test))
        return Rows(x, y.reshape(-1), x_test, y_test.reshape(-1), True)
    if name == "friedman1":
        x, y = datasets.make_friedman1(FRIEDMAN_ROWS + FRIEDMAN_TEST, 10, noise=1.0, random_state=split)
        x, y, k = x.astype(np.float32), y.astype(np.float32), FRIEDMAN_ROWS
        return Rows(x[:k], y[:k], x[k:], y[k:], True)
    is_regression = name == "diabetes"
    x, y = (datasets.load_diabetes if is_regression else CLASSES[name])(return_X_y=True)
    how = {"test_size": TEST, "random_state": split, "stratify": None if is_regression else y}
    x, x_test, y, y_test = train_test_split(np.asarray(x, np.float32), y, **how)
    return Rows(x, y.astype(np.float32) if is_regression else y, x_test, y_test, is_regression)


def fit_ours(name: str, rows: Rows, seed: int, length: float = 1.0) -> Row:
    """Fit one of ours and score it on the test rows."""
    inputs, outputs = rows.x.shape[1], 1 if rows.is_regression else int(rows.y.max()) + 1
    beside = name.endswith("linear path")
    net = rn.nets.mlp(inputs, (50,) if beside else (50, 50), outputs, linear=beside)
    likelihood: Any = rn.likelihoods.Gaussian() if rows.is_regression else rn.likelihoods.Categorical()
    method = rn.inference.SVGI() if name == "SVGI" else rn.inference.MCLMC(length=length)
    data, test = (torch.from_numpy(rows.x), torch.from_numpy(rows.y)), torch.from_numpy(rows.y_test)
    model = rn.BayesianModel(net, rn.priors.R2D2(), likelihood)
    start = time.process_time()
    if name == STACKED:
        posterior: Any = fit_stacked(data, likelihood, outputs=outputs, seed=seed, jobs=1, verbose=False)
    else:
        epochs = epochs_for(len(rows.y), None, method, model)
        posterior = rn.fit(model, data, method, epochs=epochs, seed=seed, verbose=False)
    seconds = time.process_time() - start
    predicted: Any = posterior.predict(torch.from_numpy(rows.x_test), 400)
    row: Row = {"nll": -float(predicted.log_prob(test).mean()), "seconds": seconds}
    if rows.is_regression:
        row["error"] = rn.metrics.rmse(test, predicted.mean)
        row["coverage"] = rn.metrics.coverage(test, *predicted.interval(0.9))
    else:
        row["error"] = float((predicted.mean.argmax(-1) != test).double().mean())
    if name != STACKED and "r_hat" in posterior.history[-1]:
        row["r_hat"] = posterior.history[-1]["r_hat"]
    return row


def fit_other(name: str, rows: Rows, seed: int) -> Row:
    """Fit a model of scikit-learn and score it on the test rows."""
    start = time.process_time()
    model = _regressor(name, seed) if rows.is_regression else _classifier(name, seed)
    model.fit(rows.x, rows.y)
    if not rows.is_regression:
        found = model.predict_proba(rows.x_test).clip(LEAST_PROBABILITY, 1)
        found /= found.sum(1, keepdims=True)
        nll = -np.log(found[np.arange(len(found)), rows.y_test]).mean()
        error = (found.argmax(1) != rows.y_test).mean()
        return {"nll": float(nll), "error": float(error), "seconds": time.process_time() - start}
    left_out = cross_val_predict(_regressor(name, seed), rows.x, rows.y, cv=5)
    deviation = float(np.sqrt(np.mean((left_out - rows.y) ** 2)))
    mean = model.predict(rows.x_test)
    distance = np.abs(mean - rows.y_test)
    return {
        "nll": float(-stats.norm.logpdf(rows.y_test, mean, deviation).mean()),
        "error": float(np.sqrt(np.mean(distance**2))),
        "coverage": float((distance <= stats.norm.ppf(0.95) * deviation).mean()),
        "seconds": time.process_time() - start,
    }


def _regressor(name: str, seed: int) -> Any:
    if name == "linear":
        return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 30)))
    if name == "boosted trees":
        return HistGradientBoostingRegressor(random_state=seed)
    return RandomForestRegressor(n_estimators=300, random_state=seed)


def _classifier(name: str, seed: int) -> Any:
    if name == "linear":
        logistic = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=2000)
        return make_pipeline(StandardScaler(), logistic)
    if name == "boosted trees":
        return HistGradientBoostingClassifier(random_state=seed)
    return RandomForestClassifier(n_estimators=300, random_state=seed)


def summary(rows: Sequence[Row]) -> list[Row]:
    """Average over splits, with the standard error of the NLL."""
    found: list[Row] = []
    for name, contestant in dict.fromkeys((row["table"], row["contestant"]) for row in rows):
        own = [row for row in rows if (row["table"], row["contestant"]) == (name, contestant)]
        means = {key: fmean(row[key] for row in own) for key in own[0] if key not in ("table", "contestant", "split")}
        error = stdev(row["nll"] for row in own) / len(own) ** 0.5 if len(own) > 1 else None
        found.append({"table": name, "contestant": contestant, **means, "nll_standard_error": error})
    return found


def by_lengths(tables: Sequence[str], splits: Sequence[int], lengths: Sequence[float], path: Path) -> None:
    """Fit MCLMC with each length; rows of other tables and splits stay in the file."""
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    for name in tables:
        for split in splits:
            data = table(name, split)
            for length in lengths:
                labels = {"table": name, "contestant": f"MCLMC(length={length:g})", "split": split}
                rows = [row for row in rows if {k: row[k] for k in labels} != labels]
                rows.append({**labels, **fit_ours("MCLMC", data, split, length)})
                print(*(f"{v:.3f}" if isinstance(v, float) else v for v in rows[-1].values()), flush=True)
    facts = {"command": sys.argv[1:], "splits": list(splits)}
    write_json(path, {"summary": summary(rows), "rows": rows, **provenance(facts)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--contestants", nargs="+", choices=(*OURS, *OTHERS), default=[*OURS, *OTHERS])
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--lengths", type=float, nargs="+", help="of MCLMC, which alone is fitted then")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if arguments.lengths:
        arguments.out.mkdir(parents=True, exist_ok=True)
        by_lengths(arguments.tables, arguments.splits, arguments.lengths, arguments.out / "mclmc-length.json")
        return
    path = arguments.out / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": []}
    rows: list[Row] = stored["rows"]
    for name in arguments.tables:
        for split in arguments.splits:
            data = table(name, split)
            for contestant in arguments.contestants:
                labels = {"table": name, "contestant": contestant, "split": split}
                scores = (fit_ours if contestant in OURS else fit_other)(contestant, data, split)
                rows = [row for row in rows if {k: row[k] for k in labels} != labels] + [{**labels, **scores}]
                print(*labels.values(), *(f"{k} {v:.3f}" for k, v in scores.items()), flush=True)
            facts = {"command": sys.argv[1:], "splits": arguments.splits}
            same = {(row["table"], row["split"]) for row in rows if row["contestant"] == STACKED}
            where_stacked = summary([row for row in rows if (row["table"], row["split"]) in same])
            alone = summary([row for row in rows if row["contestant"] != STACKED])
            stored = {"summary": alone, "where_stacked": where_stacked, "rows": rows}
            write_json(path, {**stored, **provenance(facts)})
    for line in summary(rows):
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in line.items()))


if __name__ == "__main__":
    main()
