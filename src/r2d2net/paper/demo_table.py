"""The part of `r2d2net demo` that shows the default model: a real table with noise beside the usual models.

scikit-learn's diabetes (442 rows, ten columns) with ten columns of pure noise goes through `r2d2net fit` as it is: a
CSV file, no option but the seed. The run folder, with report.html, is left beside the figure of the demonstration.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_diabetes

from r2d2net.tables import run_folder
from r2d2net.tables.fitting import fit_table
from r2d2net.tables.settings import Settings
from r2d2net.tables.terminal_output import group_lines

NOISE_COLUMNS = 10
FILE, RUN = "diabetes-noise.csv", "diabetes-run"
TARGET = "progression"


def run_default(
    folder: Path, seed: int, console: Console, options: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[Path]]:
    """Fit the default model to the table and print it beside its baselines.

    Args:
        folder: The folder for the table and the run.
        seed: The seed of noise columns, split and training.
        console: Where the scores are printed.
        options: Options of the fit, by which tests reduce it; None for the default.

    Returns:
        The numbers for the JSON file, and the files that a user may open: the table and the page of the run.
    """
    data, run = folder / FILE, folder / RUN
    frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": TARGET})
    noise = np.random.default_rng(seed).normal(size=(len(frame), NOISE_COLUMNS))
    for i in range(NOISE_COLUMNS):
        frame.insert(i, f"noise{i + 1}", noise[:, i])
    frame.to_csv(data, index=False)
    settings = Settings.of({"target": TARGET, "seed": seed, **(options or {})})
    fit_table(data, run, settings, overwrite=True, verbose=False, say=lambda line: None)
    results = run_folder.read_json(run / run_folder.METRICS)
    inputs = run_folder.read_json(run / run_folder.RELEVANCE)["inputs"]
    show(console, results, inputs)
    return {**results, "inputs": inputs}, [data, run / run_folder.REPORT]


def show(console: Console, results: dict[str, Any], inputs: list[dict[str, Any]]) -> None:
    """Print the scores of the model and its baselines, the verdict, and the inputs by their shares.

    Args:
        console: Where they are printed.
        results: The content of metrics.json.
        inputs: The inputs by rank, of relevance.json.
    """
    test = results["test"]
    title = f"`r2d2net fit` on the diabetes table with {NOISE_COLUMNS} columns of noise"
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    table.add_column(f"on {test['rows']} test rows", no_wrap=True)
    for column in ("RMSE", "MAE", "NLL"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, scores in {"this model": test, **test["baselines"], "best constant": test["constant"]}.items():
        table.add_row(name, f"{scores['rmse']:.4g}", f"{scores['mae']:.4g}", f"{scores['nll']:.3f}")
    console.print(table)
    verdict = results["verdict"]
    console.print(Text(verdict["sentence"]))
    if verdict["warning"]:
        console.print(Text(f"warning: {verdict['warning']}"))
    kept = [f"{entry['name']} {entry['share']:.0%}" for entry in inputs if entry["kept"]]
    console.print(Text(f"inputs kept, by their share in the importance: {', '.join(kept) or 'none'}"))
    for line in group_lines(inputs):
        console.print(Text(line))
    console.print(f"fitted in {results['seconds']:g} s\n")
