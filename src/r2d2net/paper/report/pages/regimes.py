"""The page of "regimes": what the variational modes lose against exact sampling, and whether that has converged."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from r2d2net.paper.report.comparison import format_mean, format_number, mean_with_error
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.report.markdown_text import pipe_table

CONVERGED = 1.01  # largest R-hat of predictions that have converged


def text(grid: GridResults) -> str:
    """Write the table of exact sampling beside the variational modes; "" without exact results."""
    by_mode: dict[tuple[str, str], dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for cell in grid.results:
        settings = cell["settings"]
        by_mode[settings["setting"], settings["prior"]][settings["mode"]][settings["seed"]] = cell["result"]
    lines, rhats = [], []
    for (setting, prior), modes in by_mode.items():
        exact = modes.get("exact", {})
        if not exact:
            continue
        rhats += [result["rhat"] for result in exact.values()]
        largest = max(result["rhat"] for result in exact.values())
        own = format_mean(*mean_with_error([result["mse"] for result in exact.values()]))
        ratios = [_ratio(modes.get(mode, {}), exact) for mode in ("svgi", "cavi")]
        lines.append([setting, prior, own, *ratios, format_number(largest)])
    if not lines:
        return ""
    converged = sum(rhat <= CONVERGED for rhat in rhats)
    return (
        "## Against exact sampling\n\n"
        "Test MSE under the exact posterior of a linear model, and the MSE of the variational modes over it on the "
        "same data. R-hat is the largest of predictions at 200 test rows, over four chains and all replicates; "
        f"**{converged} of {len(rhats)}** runs have at most {CONVERGED}.\n\n"
        + pipe_table(["regime", "prior", "exact", "SVGI over exact", "CAVI over exact", "largest R-hat"], lines)
    )


def _ratio(results: dict[int, dict[str, Any]], exact: dict[int, dict[str, Any]]) -> str:
    """The mean ratio of MSEs over the replicates that both modes have."""
    ratios = [result["mse"] / exact[seed]["mse"] for seed, result in results.items() if seed in exact]
    return format_mean(*mean_with_error(ratios))
