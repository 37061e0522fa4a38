"""A real table drowned in noise: scikit-learn's diabetes with 90 columns of pure noise, `r2d2net fit` by its defaults.

    python benchmarks/noise_columns.py  [--seeds 2000 2001 2002 2003 2004] [--only default] [--out out/bench]

442 rows, a fifth of them for the test. Each seed has its own noise, split and fit. Beside the default stand the same
network with other priors and algorithms, and ridge regression, its penalty by cross-validation on the rows that are not
for the test. Given are the errors on test rows, and how well the inputs' rank tells the ten true columns from the noise
(AUROC; for ridge by |coefficient|; last, by each column's |correlation| with the target, which needs no model). Results
are written to noise-columns.json as they come, and those that are there are not computed again; with ``--only`` other
contestants keep the results that they have, and "older" names the commit that these are of.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from r2d2net.files import write_json
from r2d2net.provenance import provenance

NOISE = 90
FITS = {
    "default": [],
    "R2D2 by SVGI": ["--algorithm", "svgi"],
    "R2D2 by chains": ["--algorithm", "auto"],
    "R2D2, linear, exact": ["--algorithm", "auto", "--hidden", "0"],
    "adaptive R2D2": ["--prior", "adaptive"],
    "horseshoe": ["--prior", "horseshoe"],
    "Gaussian": ["--prior", "gaussian"],
    "MC dropout": ["--prior", "gaussian", "--algorithm", "mcdropout"],
    "deep ensemble": ["--prior", "gaussian", "--algorithm", "deepensemble"],
}
RIDGE, CORRELATION = "ridge regression", "|correlation|"


def drowned(seed: int) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with columns of noise added, and the names of the true columns."""
    x, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    noise = np.random.default_rng(seed).normal(size=(len(x), NOISE))
    extra = pd.DataFrame(noise, columns=[f"noise{i}" for i in range(NOISE)], index=x.index)
    return pd.concat([x, extra, y.rename("progression")], axis=1), list(x.columns)


def fitted(data: Path, options: list[str], seed: int, true: list[str], run: Path) -> dict[str, Any]:
    """Run `r2d2net fit` on a file and return its test metrics and the AUROC of its ranking of the columns."""
    command = [str(Path(sys.executable).with_name("r2d2net")), "fit", str(data), "--target", "progression"]
    subprocess.run([*command, *options, "--seed", str(seed), "--out", str(run), "--quiet"], check=True)
    test = json.loads((run / "metrics.json").read_text())["test"]
    inputs = json.loads((run / "relevance.json").read_text())["inputs"]
    is_true = [column["name"] in true for column in inputs]
    area = roc_auc_score(is_true, range(len(inputs), 0, -1))  # the most important column comes first
    return {"mse": test["rmse"] ** 2, "nll": test["nll"], "coverage": test["coverage"], "auroc": float(area)}


def ridge(table: pd.DataFrame, test: np.ndarray, true: list[str]) -> dict[str, Any]:
    """Fit ridge regression to the same rows; its noise is the deviation of its cross-validated residuals."""
    x, y = table.drop(columns="progression"), table["progression"].to_numpy()
    train = np.setdiff1d(np.arange(len(y)), test)
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 5, 50)))
    residuals = y[train] - cross_val_predict(model, x.iloc[train], y[train], cv=10)
    mean, sd = model.fit(x.iloc[train], y[train]).predict(x.iloc[test]), residuals.std()
    sizes = np.abs(model[-1].coef_)
    z = (y[test] - mean) / sd
    return {
        "mse": float(np.square(y[test] - mean).mean()),
        "nll": -float(norm.logpdf(z).mean()) + float(np.log(sd)),
        "coverage": float((np.abs(z) <= norm.ppf(0.95)).mean()),
        "auroc": float(roc_auc_score(x.columns.isin(true), sizes)),
    }


def correlation(table: pd.DataFrame, test: np.ndarray, true: list[str]) -> dict[str, Any]:
    """Rank the columns by their correlation with the target on the rows that are not test rows."""
    strength = table.drop(index=table.index[test]).corr()["progression"].drop("progression").abs()
    return {"auroc": float(roc_auc_score(strength.index.isin(true), strength))}


def run_seed(seed: int, only: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Run contestants on the table of one seed."""
    table, true = drowned(seed)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "diabetes.csv"
        table.to_csv(data, index=False)
        runs = {name: Path(folder) / f"run-{i}" for i, name in enumerate(only)}
        metrics = {name: fitted(data, FITS[name], seed, true, run) for name, run in runs.items()}
        rows = [pd.read_csv(run / "test_predictions.csv")["row"].to_numpy() - 1 for run in runs.values()]
        assert all(np.array_equal(rows[0], other) for other in rows)
        return {**metrics, RIDGE: ridge(table, rows[0], true), CORRELATION: correlation(table, rows[0], true)}


def show(results: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print means over seeds, with standard errors."""
    table = Table(title=f"diabetes with {NOISE} columns of noise, seeds {', '.join(results)}", title_justify="left")
    for column in ("", "test MSE", "test NLL", "90% cover", "AUROC of the true columns"):
        table.add_column(column, justify="left" if not column else "right")
    for name in (*FITS, RIDGE, CORRELATION):
        columns = []
        for metric, digits in (("mse", 0), ("nll", 3), ("coverage", 3), ("auroc", 3)):
            values = np.array([of_seed[name][metric] for of_seed in results.values() if metric in of_seed[name]])
            if not len(values):
                columns.append("-")
                continue
            error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
            columns.append(f"{values.mean():.{digits}f}{error}")
        table.add_row(name, *columns)
    Console().print(table)


def main() -> None:
    """Run the seeds without results and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2000, 2001, 2002, 2003, 2004])
    parser.add_argument("--only", nargs="+", choices=list(FITS), default=list(FITS))
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "noise-columns.json"
    runs: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    settings = {"noise": NOISE, "fits": FITS, "beside": [RIDGE, CORRELATION]}
    seeds = [str(seed) for seed in options.seeds]
    for seed in seeds:
        if seed not in runs or runs[seed]["settings"] != settings:
            kept = {k: v for k, v in runs.get(seed, {}).get("results", {}).items() if k in FITS}
            if kept.keys() | set(options.only) < FITS.keys():
                raise SystemExit(
                    f"seed {seed} has no results of {sorted(FITS.keys() - kept.keys() - set(options.only))}"
                )
            older = {k: runs[seed]["commit"] for k in kept if k not in options.only}
            new = run_seed(int(seed), options.only)
            runs[seed] = {"results": {**kept, **new}, "older": older, **provenance(settings, int(seed))}
            write_json(file, runs)
    results = {seed: runs[seed]["results"] for seed in seeds}
    show(results)


if __name__ == "__main__":
    main()
