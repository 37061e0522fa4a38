"""Parts of the page of a run: test rows as a table, the charts of the first screen, scores by class, the worst rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from r2d2net.report import run_charts
from r2d2net.report.calibration_words import words_of_intervals
from r2d2net.report.interactive_page import Tile
from r2d2net.report.run_charts import Panel
from r2d2net.report.svg_charts import table

if TYPE_CHECKING:
    import pandas as pd

MOST_WORST = 15
NUMBERS = ("observed", "mean", "sd", "low", "high")
MOST_CLASSES = 50  # of the table of scores by class


class Tested(NamedTuple):
    """What the page says of one target.

    Attributes:
        target: Its name.
        rows: The test rows (see `tested_rows`).
        metrics: Their metrics.
        before: What titles begin with: the name of the target where there are several, else "".
    """

    target: str
    rows: pd.DataFrame
    metrics: dict[str, Any]
    before: str = ""


def tested_targets(folder: Path, task: dict[str, Any], metrics: dict[str, Any]) -> list[Tested]:
    """Read the predictions of the test rows target by target.

    Args:
        folder: The folder of the run.
        task: The task, as run.json has it.
        metrics: The metrics of the test rows.

    Returns:
        One entry for each target, with its own columns and metrics.
    """
    rows = tested_rows(folder, task["classes"])
    if "targets" not in metrics:
        return [Tested(task["target"], rows, metrics)]
    shared = {name: metrics[name] for name in ("unlike", "unlike_expected")}
    entries = []
    for name, own in metrics["targets"].items():
        columns = {f"{name}_{part}": part for part in NUMBERS}
        view = rows[["row", *columns, "typicality", "unlike", "filled"]].rename(columns=columns)
        entries.append(Tested(name, view, {**own, **shared}, f"{name}: "))
    return entries


def tested_rows(folder: Path, classes: Sequence[str]) -> pd.DataFrame:
    """Read the predictions of the test rows.

    Args:
        folder: The folder of the run.
        classes: The classes; none for numbers.

    Returns:
        The rows; classes are texts, also where they look like numbers or like nothing.
    """
    import pandas as pd

    path = folder / "test_predictions.csv"
    if not classes:
        return pd.read_csv(path)
    texts = {"observed": str, "prediction": str}
    return pd.read_csv(path, dtype=texts, keep_default_na=False)


def main_panels(rows: pd.DataFrame, metrics: dict[str, Any], target: str, classes: Sequence[str]) -> list[Panel]:
    """Draw the three charts of the first screen.

    Args:
        rows: The test rows (see `tested_rows`).
        metrics: Their metrics.
        target: The name of the target.
        classes: The classes; none for numbers.

    Returns:
        Predictions beside observations, errors, calibration.
    """
    if not classes:
        charts = run_charts.predicted_and_observed(rows, metrics, target), run_charts.residuals(rows, target)
        return [*charts, run_charts.calibration(metrics)]
    observed, predicted = rows["observed"].to_numpy(str), rows["prediction"].to_numpy(str)
    event = classes[1] if len(classes) == 2 else "the predicted class"
    return [
        run_charts.confusion(observed, predicted, classes),
        run_charts.true_probabilities(true_probability(rows)),
        run_charts.reliability(metrics, event),
    ]


def true_probability(rows: pd.DataFrame) -> np.ndarray:
    """Return the predicted probability of each row's observed class.

    Args:
        rows: Test rows with a column p(class) for each class.
    """
    columns = {name: rows[name].to_numpy(float) for name in rows.columns if name.startswith("p(")}
    nothing = np.zeros(len(rows))
    observed = rows["observed"].to_numpy(str)
    probability = np.zeros(len(rows))
    for label in np.unique(observed):
        there = observed == label
        probability[there] = columns.get(f"p({label})", nothing)[there]
    return probability


def class_scores(rows: pd.DataFrame, classes: Sequence[str]) -> Markup:
    """Write precision, recall and F1 of each class as a table.

        precision = right / predicted as the class,  recall = right / of the class,  F1 = their harmonic mean

    Args:
        rows: The test rows.
        classes: The classes, of which the first `MOST_CLASSES` are shown.

    Returns:
        The table.
    """
    observed, predicted = rows["observed"].to_numpy(str), rows["prediction"].to_numpy(str)
    lines = []
    for label in classes[:MOST_CLASSES]:
        right = int(((observed == label) & (predicted == label)).sum())
        there, said = int((observed == label).sum()), int((predicted == label).sum())
        precision, recall, score = _share(right, said), _share(right, there), _share(2 * right, there + said)
        lines.append([label, f"{there:,}", f"{said:,}", precision, recall, score])
    return table(["class", "rows", "predicted so", "precision", "recall", "F1"], lines)


def worst_rows(rows: pd.DataFrame, classes: Sequence[str], number: Any) -> Markup:
    """Write the rows that surprise the model most as a table.

    Args:
        rows: The test rows.
        classes: The classes; none for numbers.
        number: Writes a number.

    Returns:
        The table: rows with the largest error in units of the predicted deviation, or with the least probability of
        the observed class.
    """
    if classes:
        probability = true_probability(rows)
        order = np.argsort(probability, kind="stable")[:MOST_WORST]
        shown = rows.iloc[order]
        lines = [
            [str(row["row"]), row["observed"], f"{p:.1%}", row["prediction"], _unlike(row)]
            for (_, row), p in zip(shown.iterrows(), probability[order], strict=True)
        ]
        header = ["row of the file", "observed", "its probability", "predicted", "unlike training rows"]
    else:
        z = (rows["observed"] - rows["mean"]) / rows["sd"].clip(lower=1e-300)
        shown = rows.iloc[np.argsort(-z.abs().to_numpy(), kind="stable")[:MOST_WORST]]
        lines = [
            [
                str(int(row["row"])),
                number(row["observed"]),
                number(row["mean"]),
                f"{number(row['low'])} to {number(row['high'])}",
                f"{z[place]:+.1f}",
                _unlike(row),
            ]
            for place, row in shown.iterrows()
        ]
        header = ["row of the file", "observed", "predicted", "interval", "error in sd", "unlike training rows"]
    return table(header, lines, [f"row {row}" for row in shown["row"]])


def baselines_table(metrics: dict[str, Any], labels: dict[str, str], number: Any) -> Markup:
    """Write the scores of the model beside those of baselines as a table.

    Args:
        metrics: Metrics of the test rows, with those of baselines under "baselines" where there are any.
        labels: Names of the metrics, in their order.
        number: Writes the value of a metric, given its name and the value.

    Returns:
        The table.
    """
    models = {"this model": metrics, **(metrics.get("baselines") or {}), "best constant": metrics.get("constant") or {}}
    lines = []
    for name, label in labels.items():
        values = [scores.get(name) for scores in models.values()]
        if values[0] is not None:
            lines.append([label, *("" if value is None else number(name, value) for value in values)])
    return table(["on test rows", *models], lines)


def tiles(metrics: dict[str, Any], target: str, number: Any) -> list[Tile]:
    """Choose the numbers of the first screen.

    Args:
        metrics: Metrics of the test rows.
        target: The name of the target.
        number: Writes the value of a metric, given its name and the value.

    Returns:
        The tiles.
    """
    constant = metrics.get("constant") or {}

    def tile(name: str, label: str) -> list[Tile]:
        if metrics.get(name) is None:
            return []
        beside = f"best constant {number(name, constant[name])}" if constant.get(name) is not None else ""
        return [Tile(number(name, metrics[name]), label, beside)]

    if "rmse" in metrics:
        inside = f"rows inside their {metrics['level']:.0%} interval"
        first = [
            *tile("rmse", f"root mean squared error{target and ' of ' + target}"),
            *tile("r2", "R², variance explained"),
        ]
        covered = [
            Tile(entry.value, entry.name, words_of_intervals(metrics).split(":")[0].lower())
            for entry in tile("coverage", inside)
        ]
        return [*first, *covered, *tile("nll", "negative log likelihood, nats a row")]
    first = [*tile("accuracy", "accuracy"), *tile("nll", "negative log likelihood, nats a row")]
    return [*first, *tile("auroc", "AUROC, mean over classes"), *tile("ece", "expected calibration error")]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _unlike(row: Any) -> str:
    return "yes" if str(row.get("unlike", "")) == "True" else ""
