"""The report of a reproduced table: ours beside the paper's figures, as Markdown. Reads result files only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.files import replace_when_written
from r2d2net.report.comparison import Compared, compare, markdown, number
from r2d2net.report.results import Found, read_folder

METRICS = {
    "mse": "Test MSE",
    "inference_error": "Inference error: distance of mean weights from the oracle's, as in the paper",
    "function_distance": "Distance of predictions from the oracle's, in function space (Wasserstein-1)",
    "auroc": "AUROC (%), uncertain is outside",
    "aupr": "AUPR (%), outside as the positives",
    "paper_auroc": "AUROC (%) by the paper's convention, the larger of both directions",
    "accuracy": "Accuracy (%)",
    "macro_f1": "Macro F1 (%)",
}


class Table(NamedTuple):
    """Which of the paper's tables an artefact is, and which of its metrics are shown; ours -> the paper's name."""

    paper: str
    metrics: dict[str, str]


TABLES = {
    "simulation": Table("simulation", {"mse": "mse", "inference_error": "inference_error", "function_distance": ""}),
    "ood-mnist": Table("ood_mnist_lenet", {"auroc": "auroc", "aupr": "aupr", "paper_auroc": "auroc"}),
    "ood-cifar10": Table("ood_cifar10_lenet", {"auroc": "auroc", "aupr": "aupr", "paper_auroc": "auroc"}),
    "ood-drd": Table("ood_drd_lenet", {"auroc": "auroc", "aupr": "aupr", "paper_auroc": "auroc"}),
}


def compared(found: Found) -> Iterator[tuple[str, list[Compared]]]:
    """Each metric of a table and its entries."""
    table = TABLES[found.about["artefact"]]
    flat = [one for result in found.results for one in _by_setting(result)]
    for ours, theirs in table.metrics.items():
        entries = compare(_renamed(flat, ours, theirs or ours), table.paper if theirs else "", [theirs or ours])
        yield ours, entries


def _by_setting(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A result of several settings (an out-of-distribution run has one for each set) as one for each."""
    if result["settings"].get("kind") == "oracle":
        return
    if "settings" not in result["result"]:
        yield result
        return
    for setting, values in result["result"]["settings"].items():
        yield {"settings": {**result["settings"], "setting": setting}, "result": values}


def _renamed(results: list[dict[str, Any]], ours: str, theirs: str) -> list[dict[str, Any]]:
    return [{"settings": one["settings"], "result": {theirs: one["result"].get(ours)}} for one in results]


def report(folder: Path) -> str:
    """The whole report as Markdown."""
    found = read_folder(folder)
    about = found.about
    parts = [f"# {about['artefact']}: {about['title']}\n", f"Scale `{about['scale']}`. {_sentence(about['reduced'])}\n"]
    if found.missing:
        parts.append(f"{len(found.missing)} of {len(about['cells'])} cells have no result.\n")
    for metric, entries in compared(found):
        parts.append(f"## {METRICS[metric]}\n")
        parts.append("Ours: mean ± standard error over replicates; the paper's figure in brackets.\n")
        name = entries[0].metric if entries else metric
        parts.append(markdown(entries, name))
    seconds = sum(one["seconds"] for one in found.results)
    commits = sorted({str(one["commit"]) for one in found.results})
    parts.append(
        f"\n{len(found.results)} cells, {number(seconds / 3600)} hours of one core; commit {', '.join(commits)}.\n"
    )
    return "\n".join(parts)


def _sentence(text: str) -> str:
    return f"Less than in the paper: {text}." if text else "The paper's settings."


def write_report(folder: Path) -> list[Path]:
    """Write the report into the grid's folder."""
    path = folder / "report.md"
    with replace_when_written(path) as partial:
        partial.write_text(report(folder), encoding="utf-8")
    return [path]
