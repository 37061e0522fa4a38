"""Which of the paper's tables an artefact is, and which of its numbers stand in it. A new table is a line of TABLES."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from r2d2net.errors import DataError
from r2d2net.paper.report.comparison import Compared, compare
from r2d2net.paper.report.results import Found

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
    "paper_aupr": "AUPR (%) by the paper's convention, the larger of both directions",
    "accuracy": "Accuracy (%)",
    "macro_f1": "Macro F1 (%)",
    "ece": "Expected calibration error",
    "relevance_auroc": "How well |E w| tells relevant inputs from the others (AUROC)",
}


class Table(NamedTuple):
    """One of the paper's tables, or of our own."""

    paper: str  # its name in paper_tables.csv; "" where the paper has none
    metrics: dict[str, str]  # ours -> the paper's name; "" where the paper has none
    drawn: tuple[str, ...] = ()  # metrics that are drawn as well
    note: str = ""  # what is said of it after each metric's title
    titles: Mapping[str, str] = MappingProxyType({})  # of metrics that are called otherwise here
    unlike: tuple[str, ...] = ()  # metrics that measure something else than the paper's figure beside them


class Compare(NamedTuple):
    """One metric of a table."""

    metric: str  # our name of it
    title: str
    entries: list[Compared]
    drawn: bool


DIRECTED = {
    "auroc": "AUROC (%) with its direction: uncertain is outside",
    "aupr": "AUPR (%) with its direction: images outside are the positives",
}
OOD = {"auroc": "auroc", "paper_auroc": "auroc", "aupr": "aupr", "paper_aupr": "aupr", "fpr95": ""}
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

TABLES: dict[str, tuple[Table, ...]] = {
    # the paper does not say in which units its weights are: ours are those of standardised data
    "simulation": (Table("simulation", SIMULATION, ("mse", "function_distance"), unlike=("inference_error",)),),
    "ood-mnist": (Table("ood_mnist_lenet", OOD, DRAWN, titles=DIRECTED, unlike=tuple(DIRECTED)),),
    "ood-cifar10": (Table("ood_cifar10_lenet", OOD, DRAWN, titles=DIRECTED, unlike=tuple(DIRECTED)),),
    "ood-drd": (Table("ood_drd_lenet", OOD, DRAWN, titles=DIRECTED, unlike=tuple(OOD)),),  # another set of retinas
    "classification-lenet": (Table("classification_lenet", {**LABELS_F1, "nll": "", "ece": ""}, ("accuracy",)),),
    "classification-alexnet": (
        Table("classification_alexnet", LABELS, ("accuracy",)),
        Table("classification_alexnet_f1", LABELS_F1, note=", beside the paper's second table, which has F1"),
    ),
    "architectures": (Table("architectures_cifar10", LABELS, ("accuracy",)),),
    "regimes": (Table("", {"mse": "", "nll": "", "coverage": "", "relevance_auroc": ""}, ("mse",)),),
    "uci": (Table("", {"rmse": "", "nll": "", "coverage": ""}, ("rmse",)),),
}
# The paper's simulation was computed on the variant `table` of its scenarios.
OTHER_DATA = {("simulation", "text")}


def compared(found: Found) -> Iterator[Compare]:
    """Each metric of an artefact's tables, and its entries."""
    tables = TABLES.get(found.name, ())
    if not tables:
        return
    flat = [one for result in found.results for one in by_setting(result)]
    cells = [cell["settings"] for cell in found.about["cells"]]
    expected = [
        (one["setting"], one["row"])
        for one in cells
        if {"setting", "row"} <= one.keys() and one.get("kind") != "oracle"
    ]
    for table in tables:
        for ours, theirs in table.metrics.items():
            name = theirs or ours
            values = [{**one, "result": {name: one["result"].get(ours)}} for one in flat]
            paper = table.paper if theirs and (found.name, found.variant) not in OTHER_DATA else ""
            entries = compare(values, paper, [name], expected=expected, same_measure=ours not in table.unlike)
            if any(entry.mean is not None or entry.paper is not None for entry in entries):
                title = table.titles.get(ours, METRICS[ours]) + table.note
                yield Compare(ours, title, entries, ours in table.drawn)


def by_setting(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A result of several settings (an out-of-distribution run has one for each set) as one for each."""
    settings, values = result["settings"], result["result"]
    if settings.get("kind") == "oracle":
        return
    if "row" not in settings or not ("setting" in settings or isinstance(values.get("settings"), dict)):
        raise DataError(f"the result {result['key']} has no row and setting: it is none of this artefact's, remove it")
    inner = values.get("settings", {settings.get("setting"): values})
    for setting, numbers in inner.items():
        yield {**result, "settings": {**settings, "setting": setting}, "result": numbers}
