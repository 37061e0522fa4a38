"""The page of "pruning": weights that are not zero and weights of dense networks, two counts that are never mixed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from r2d2net.paper.report.grid_results import GridResults
from r2d2net.report.markdown_text import pipe_table

# published: network -> (method, test error in %, how many times fewer weights); from the papers that the page names
ZEROS = {"lenet-300-100": ("SparseVD", 1.92, 68), "lenet-5-caffe": ("SparseVD", 0.75, 280)}
UNITS = {
    "lenet-300-100": ("BC-GHS, 311-86-14", 1.8, 9),
    "lenet-5-caffe": ("BC-GHS, 5-10-76-16", 1.0, 156),
}
SOURCES = "SparseVD: Molchanov, Ashukha and Vetrov (2017); BC-GHS: Louizos, Ullrich and Welling (2017)"


def text(grid: GridResults) -> str:
    """Write two tables for each network: zeros, fitted again or not, and units cut in rounds."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in grid.results:
        settings = cell["settings"]
        found.setdefault((settings["network"], settings["design"]), []).append(cell["result"])
    parts = [f"Means over the seeds that were run, errors in %. Published figures: {SOURCES}.\n"] if found else []
    for network in dict.fromkeys(name for name, _ in found):
        designs = {design: results for (name, design), results in found.items() if name == network}
        parts += [f"## {network}: weights that are not zero\n", _zeros(network, designs)]
        parts += [f"## {network}: weights of the dense network\n", _units(network, designs)]
    return "\n".join(parts)


def _zeros(network: str, designs: dict[str, list[dict[str, Any]]]) -> str:
    ratios = [row["ratio"] for row in next(iter(designs.values()))[0]["zeros"]]
    lines = []
    for design, results in designs.items():
        errors = [_percent([r["zeros"][k]["error"] for r in results]) for k in range(len(ratios))]
        at = [next(row for row in r["zeros"] if row["ratio"] == r["chosen"]) for r in results]
        chosen = f"{mean(r['chosen'] for r in results):.0f}x: {_percent([row['error'] for row in at])}"
        lines.append([design, *errors, chosen, *_scores(at)])
        lines += _masks(design, ratios, [r for r in results if r.get("masks")])
    if network in ZEROS:
        method, error, ratio = ZEROS[network]
        blank = [""] * len(ratios)
        lines.append([f"{method} (published)", *blank, f"{ratio}x: {error:.2f}", "", "", ""])
    return pipe_table(["design", *(f"{r}x" for r in ratios), "by validation", "NLL", "ECE", "AUROC"], lines)


def _masks(design: str, ratios: Sequence[int], results: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Write the row of networks that were fitted again with their zeros; none where no seed has them."""
    if not results:
        return []
    each = [{row["ratio"]: row for row in r["masks"]} for r in results]
    errors = [_percent([own[ratio]["error"] for own in each]) if ratio in each[0] else "" for ratio in ratios]
    at = [own.get(r["chosen_mask"], r["zeros"][0]) for own, r in zip(each, results, strict=True)]
    chosen = f"{mean(r['chosen_mask'] for r in results):.0f}x: {_percent([row['error'] for row in at])}"
    return [[f"{design}, fitted again", *errors, chosen, *_scores(at)]]


def _units(network: str, designs: dict[str, list[dict[str, Any]]]) -> str:
    lines = []
    for design, results in designs.items():
        units = [r["units"] for r in results if r["units"] is not None]
        if units:
            count, ratio = mean(u["dense"] for u in units), mean(u["ratio"] for u in units)
            error = _percent([u["error"] for u in units])
            lines.append([design, f"{count:,.0f}", f"{ratio:.1f}x", error, *_scores(units)])
    if network in UNITS:
        method, error_there, ratio_there = UNITS[network]
        lines.append([f"{method} (published)", "", f"{ratio_there}x", f"{error_there:.2f}", "", "", ""])
    return pipe_table(["design", "weights", "fewer", "error", "NLL", "ECE", "AUROC"], lines)


def _percent(errors: Sequence[float]) -> str:
    return f"{100 * mean(errors):.2f}"


def _scores(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{mean(row[name] for row in rows):.4f}" for name in ("nll", "ece", "auroc")]
