"""Results grouped by the rows of a table: means over replicates as Markdown, and checks of the paper's claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from r2d2net.paper.report.comparison import format_mean, format_number, mean_with_error
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_ranking import R2D2_SVGI
from r2d2net.paper.report.row_styles import display_name
from r2d2net.report.markdown_text import pipe_table

SAME_ALGORITHM = (
    "Designs *by SVGI* have a rival's prior and the algorithm of R2D2-Net: they tell what the prior does from what the "
    "algorithm does.\n"
)
Columns = Mapping[str, str | Callable[[dict[str, Any]], float]]  # heading -> metric, or a function of a result


def results_by_row(grid: GridResults) -> dict[str, list[dict[str, Any]]]:
    """Return the results of all replicates of each row."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for cell in grid.results:
        rows[cell["settings"]["row"]].append(cell["result"])
    return dict(rows)


def first_results(grid: GridResults) -> dict[str, dict[str, Any]]:
    """Return the result of the first replicate of each row, which is the one that figures show."""
    return {row: results[0] for row, results in results_by_row(grid).items()}


def row_means(grid: GridResults, metric: str) -> dict[str, float]:
    """Return the mean of a metric over the replicates of each row."""
    return {
        row: sum(result[metric] for result in results) / len(results) for row, results in results_by_row(grid).items()
    }


def row_table(grid: GridResults, columns: Columns) -> str:
    """Write a Markdown table with a line for each row: mean ± standard error over replicates.

    Args:
        grid: The results.
        columns: The headings, each with a metric of the result or a function that computes it from the result.

    Returns:
        The table.
    """
    lines = []
    for row, results in results_by_row(grid).items():
        values = [
            [result[metric] if isinstance(metric, str) else metric(result) for result in results]
            for metric in columns.values()
        ]
        lines.append([display_name(row), *(format_mean(*mean_with_error(column)) for column in values)])
    return pipe_table(["design", *columns], lines)


def check_least(grid: GridResults, metric: str, claim: str) -> str:
    """Say whether R2D2-Net has the least mean of a metric, as the paper claims.

    Args:
        grid: The results.
        metric: The metric.
        claim: The paper's claim, the beginning of the sentence.

    Returns:
        A sentence of Markdown; "" where R2D2-Net or all other rows have no results.
    """
    means = row_means(grid, metric)
    if R2D2_SVGI not in means or len(means) < 2:
        return ""
    ours = means.pop(R2D2_SVGI)
    best = min(means, key=means.__getitem__)
    ratio = ours / means[best] if means[best] else float("inf")
    by_seed = [
        {cell["settings"]["seed"]: cell["result"][metric] for cell in grid.results if cell["settings"]["row"] == row}
        for row in (R2D2_SVGI, best)
    ]
    pairs = [(by_seed[0][seed], by_seed[1][seed]) for seed in by_seed[0] if seed in by_seed[1]]
    wins = sum(mine < theirs for mine, theirs in pairs)
    finding = "so it is here" if ours < means[best] else "not so here"
    return (
        f"{claim}: {finding}. R2D2-Net's is {format_number(ratio)} times that of the best other design, "
        f"{display_name(best)}, and the lesser of the two in {wins} of {len(pairs)} runs.\n"
    )
