"""Which of the paper's tables an artefact reproduces, and which metrics the table has: one line of TABLES each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from r2d2net.errors import DataError, Shown
from r2d2net.paper.report.comparison import ComparedMean, compare
from r2d2net.paper.report.grid_results import GridResults

METRICS = {
    "mse": "Test MSE",
    "rmse": "Test RMSE",
    "nll": "Negative log predictive density of a test row",
    "coverage": "Share of test rows inside the 90% interval",
    "inference_error": "Inference error: distance of mean weights from the oracle's, as in the paper",
    "function_error": "Distance of mean predictions from the oracle's (root mean square)",
    "function_distance": "Distance of predictions from the oracle's, in function space (Wasserstein-1)",
    "auroc": "AUROC (%)",
    "aupr": "AUPR (%)",
    "fpr95": "False alarms (%) where 95% of the images outside are found",
    "paper_auroc": "AUROC (%) by the paper's convention, the larger of both directions",
    "novelty_auroc": "AUROC (%) of the novelty score, by layers and posterior together",
    "paper_aupr": "AUPR (%) by the paper's convention, the larger of both directions",
    "accuracy": "Accuracy (%)",
    "macro_f1": "Macro F1 (%)",
    "ece": "Expected calibration error",
    "relevance_auroc": "How well |E w| tells relevant inputs from the others (AUROC)",
}


class TableLayout(NamedTuple):
    """The layout of one of the paper's tables, or of one of our own.

    Attributes:
        paper: The name of the table in paper_tables.csv; "" where the paper has none.
        metrics: Our names of the metrics and the paper's names of them; "" where the paper does not have the metric.
        drawn: The metrics that are also drawn.
        note: What is added to the title of each metric.
        titles: The titles of metrics that are not called as in `METRICS`.
        unlike: The metrics that do not measure the same as the paper's figures beside them.
    """

    paper: str
    metrics: dict[str, str]
    drawn: tuple[str, ...] = ()
    note: str = ""
    titles: Mapping[str, str] = MappingProxyType({})
    unlike: tuple[str, ...] = ()


class MetricComparison(NamedTuple):
    """One metric of a table: its name, its title, all entries, and whether they are also drawn."""

    metric: str
    title: str
    entries: list[ComparedMean]
    drawn: bool


DIRECTED = {
    "auroc": "AUROC (%) with its direction: uncertain is outside",
    "aupr": "AUPR (%) with its direction: images outside are the positives",
}
OOD = {"auroc": "auroc", "paper_auroc": "auroc", "aupr": "aupr", "paper_aupr": "aupr", "fpr95": "", "novelty_auroc": ""}
DRAWN = ("auroc", "paper_auroc")
LABELS = {"accuracy": "accuracy", "auroc": "auroc"}
LABELS_F1 = {**LABELS, "macro_f1": "macro_f1"}
SIMULATION = {
    "mse": "mse",
    "inference_error": "inference_error",
    "function_distance": "",
    "function_error": "",
    "coverage": "",
    "nll": "",
}

TABLES: dict[str, tuple[TableLayout, ...]] = {
    # the paper does not say in which units its weights are: ours are those of standardised data
    "simulation": (TableLayout("simulation", SIMULATION, ("mse", "function_distance"), unlike=("inference_error",)),),
    "ood-mnist": (TableLayout("ood_mnist_lenet", OOD, DRAWN, titles=DIRECTED, unlike=tuple(DIRECTED)),),
    "ood-cifar10": (TableLayout("ood_cifar10_lenet", OOD, DRAWN, titles=DIRECTED, unlike=tuple(DIRECTED)),),
    "ood-drd": (
        TableLayout("ood_drd_lenet", OOD, DRAWN, titles=DIRECTED, unlike=tuple(OOD)),
    ),  # another set of retinas
    "classification-lenet": (TableLayout("classification_lenet", {**LABELS_F1, "nll": "", "ece": ""}, ("accuracy",)),),
    "classification-alexnet": (
        TableLayout("classification_alexnet", LABELS, ("accuracy",)),
        TableLayout("classification_alexnet_f1", LABELS_F1, note=", beside the paper's second table, which has F1"),
    ),
    "architectures": (TableLayout("architectures_cifar10", LABELS, ("accuracy",)),),
    "regimes": (TableLayout("", {"mse": "", "nll": "", "coverage": "", "relevance_auroc": ""}, ("mse",)),),
    "temperature": (TableLayout("", {"accuracy": "", "nll": "", "ece": ""}, ("nll",)),),
    "uci": (TableLayout("", {"rmse": "", "nll": "", "coverage": ""}, ("rmse",)),),
}
# the paper's simulation was computed on the variant `table` of its scenarios
OTHER_DATA = {("simulation", "text")}


def compare_grid(grid: GridResults) -> Iterator[MetricComparison]:
    """Compare the results of a grid with the paper's tables of the same artefact.

    Args:
        grid: The results.

    Yields:
        Each metric of the artefact's tables for which there is a result or a figure of the paper.

    Raises:
        DataError: A result has no row or setting.
    """
    layouts = TABLES.get(grid.name, ())
    if not layouts:
        return
    cells = [part for result in grid.results for part in split_by_setting(result)]
    settings = [cell["settings"] for cell in grid.about["cells"]]
    expected = [
        (cell["setting"], cell["row"])
        for cell in settings
        if {"setting", "row"} <= cell.keys() and cell.get("kind") != "oracle"
    ]
    for layout in layouts:
        for ours, theirs in layout.metrics.items():
            name = theirs or ours
            values = [{**cell, "result": {name: cell["result"].get(ours)}} for cell in cells]
            paper = layout.paper if theirs and (grid.name, grid.variant) not in OTHER_DATA else ""
            entries = compare(values, paper, [name], expected=expected, same_measure=ours not in layout.unlike)
            if any(entry.mean is not None or entry.paper is not None for entry in entries):
                title = layout.titles.get(ours, METRICS[ours]) + layout.note
                yield MetricComparison(ours, title, entries, ours in layout.drawn)


def split_by_setting(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Divide the result of a cell into one for each setting.

    Args:
        result: The result of a cell. Out-of-distribution runs have several settings, one for each set of images.

    Yields:
        A result with a single setting; none for an oracle, which has no row in the tables.

    Raises:
        DataError: The result has no row or setting.
    """
    settings, values = result["settings"], result["result"]
    if settings.get("kind") == "oracle":
        return
    if "row" not in settings or not ("setting" in settings or isinstance(values.get("settings"), dict)):
        fix = "it is none of this artefact's, remove it"
        raise DataError("has no row and setting", value=Shown(f"the result {result['key']}"), fix=fix)
    by_setting = values.get("settings", {settings.get("setting"): values})
    for setting, numbers in by_setting.items():
        yield {**result, "settings": {**settings, "setting": setting}, "result": numbers}
