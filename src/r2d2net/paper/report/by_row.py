"""Results gathered by row: values over replicates, and tables of their means with standard errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from r2d2net.paper.report.comparison import mean_and_error, mean_of, number
from r2d2net.paper.report.results import Found
from r2d2net.paper.report.standing import FAVOURITE
from r2d2net.report.drawing import name_of
from r2d2net.report.markdown_text import pipe_table

SAME_ALGORITHM = (
    "Designs *by SVGI* have a rival's prior and the algorithm of R2D2-Net: they tell what the prior does from what the "
    "algorithm does.\n"
)
Columns = Mapping[str, str | Callable[[dict[str, Any]], float]]  # title -> metric, or a function of a result


def by_row(found: Found) -> dict[str, list[dict[str, Any]]]:
    """row -> the results of its replicates."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in found.results:
        rows[one["settings"]["row"]].append(one["result"])
    return dict(rows)


def first_of_rows(found: Found) -> dict[str, dict[str, Any]]:
    """row -> the result of its first replicate, which is the one that is drawn."""
    return {row: results[0] for row, results in by_row(found).items()}


def means(found: Found, metric: str) -> dict[str, float]:
    """row -> the mean of a metric over its replicates."""
    return {row: sum(one[metric] for one in results) / len(results) for row, results in by_row(found).items()}


def table(found: Found, columns: Columns) -> str:
    """A line a row, mean ± standard error over replicates."""
    lines = []
    for row, results in by_row(found).items():
        cells = [
            mean_and_error(*mean_of([one[value] if isinstance(value, str) else value(one) for one in results]))
            for value in columns.values()
        ]
        lines.append([name_of(row), *cells])
    return pipe_table(["design", *columns], lines)


def standing(found: Found, metric: str, claim: str) -> str:
    """Whether R2D2-Net has the least of a metric, as the paper says it does; "" where there is nothing to compare."""
    values = means(found, metric)
    if FAVOURITE not in values or len(values) < 2:
        return ""
    ours = values.pop(FAVOURITE)
    best = min(values, key=values.__getitem__)
    ratio = ours / values[best] if values[best] else float("inf")
    by_seed = [
        {one["settings"]["seed"]: one["result"][metric] for one in found.results if one["settings"]["row"] == row}
        for row in (FAVOURITE, best)
    ]
    pairs = [(by_seed[0][seed], by_seed[1][seed]) for seed in by_seed[0] if seed in by_seed[1]]
    wins = sum(mine < theirs for mine, theirs in pairs)
    said = "so it is here" if ours < values[best] else "not so here"
    return (
        f"{claim}: {said}. R2D2-Net's is {number(ratio)} times that of the best other design, {name_of(best)}, and the "
        f"lesser of the two in {wins} of {len(pairs)} runs.\n"
    )
