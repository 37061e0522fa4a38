"""Verdicts on inference: how far a row is from its oracle in function space, in units of the oracle's own error.

    k = d(row, oracle) / d(half of the oracle's starts, the other half)

with d the Wasserstein-1 distance of the functions' draws, or the root mean square distance of their means.

    within      k <= 1: the oracle cannot tell the row from its own chains
    k times     the row is farther from the oracle than the oracle's halves are from each other
    (k)         the oracle has not converged (R-hat above 1.01), so k compares the row with how far its starts disagree

Weights are not compared: hidden units can be exchanged, so two exact samplers may have different mean weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from r2d2net.paper.report.comparison import format_mean, format_number, mean_with_error
from r2d2net.report.markdown_text import pipe_table

CONVERGED = 1.01  # largest R-hat of an oracle that has converged
DISTANCES = {
    "function_distance": "Distributions of the predictions (Wasserstein-1 distance)",
    "function_error": "Means of the predictions (root mean square distance)",
}
Results = Sequence[dict[str, Any]]


class Verdict(NamedTuple):
    """A row beside its oracle on one problem.

    Attributes:
        row: The row.
        setting: The problem.
        ratio: k, the mean over replicates.
        converged: Whether the oracles of all replicates have converged.
    """

    row: str
    setting: str
    ratio: float
    converged: bool

    @property
    def word(self) -> str:
        """The verdict as a table shows it.

        >>> Verdict("r2d2-svgi", "S1", 0.8, True).word, Verdict("r2d2-svgi", "S1", 2.34, True).word
        ('within', '2.3 times')
        >>> Verdict("r2d2-svgi", "S1", 2.34, False).word
        '(2.3)'
        """
        if not self.converged:
            return f"({_multiple(self.ratio)})"
        return "within" if self.ratio <= 1 else f"{_multiple(self.ratio)} times"


def _multiple(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


def verdicts(rows: Results, oracles: Results, metric: str = "function_distance") -> list[Verdict]:
    """Compare every row with its oracle.

    Args:
        rows: Judgements of rows by their oracles.
        oracles: Results of oracles.
        metric: Name of the distance d.

    Returns:
        A verdict for each row and problem that have been compared, in the order of the rows.
    """
    by_problem = {_problem(cell["key"].split("-")[1], cell): cell["result"] for cell in oracles}
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for cell in rows:
        row, distance = cell["settings"]["row"], cell["result"].get(metric)
        oracle = by_problem.get(_problem(row.split("-")[0], cell), {})
        if distance is not None and oracle.get(metric):
            found[row, cell["settings"]["setting"]].append((distance / oracle[metric], oracle["rhat"]))
    return [
        Verdict(row, setting, fmean(ratio for ratio, _ in pairs), max(rhat for _, rhat in pairs) <= CONVERGED)
        for (row, setting), pairs in found.items()
    ]


def _problem(prior: str, cell: dict[str, Any]) -> tuple[Any, ...]:
    return prior, cell["settings"]["setting"], cell["settings"]["seed"]


def inference_section(rows: Results, oracles: Results) -> str:
    """Write the section on inference errors; "" where no row has been compared with an oracle.

    Args:
        rows: Judgements of rows by their oracles.
        oracles: Results of oracles.

    Returns:
        Markdown.
    """
    tables = [_tables(title, verdicts(rows, oracles, metric)) for metric, title in DISTANCES.items()]
    if not any(tables):
        return ""
    return (
        "## Inference errors, decided\n\n"
        "The distance of each row's predictions from its oracle's, at 200 test inputs, in units of the oracle's own "
        "error: the distance between two halves of its starts. *within*: the oracle cannot tell the row from its own "
        "chains; *k times*: the row is farther from the oracle than that; *(k)*: the oracle has not converged (R-hat "
        f"above {CONVERGED}), so that k compares the row with how far its starts disagree. An exact sampler would have "
        "k below 1. Functions are compared and not weights, since hidden units can be exchanged.\n\n"
        + "\n".join(tables)
    )


def _tables(title: str, found: list[Verdict]) -> str:
    """Write the verdicts by one distance, and a summary of each row."""
    if not found:
        return ""
    names = list(dict.fromkeys(verdict.row for verdict in found))
    settings = list(dict.fromkeys(verdict.setting for verdict in found))
    words = {(verdict.row, verdict.setting): verdict.word for verdict in found}
    lines = [[row, *(words.get((row, setting), "-") for setting in settings)] for row in names]
    return (
        f"### {title}\n\n"
        + pipe_table(["row", *settings], lines)
        + "\n"
        + pipe_table(
            ["row", "within", "farther", "median k", "median k, oracle not converged"],
            [_summary(row, [verdict for verdict in found if verdict.row == row]) for row in names],
        )
    )


def _summary(row: str, found: list[Verdict]) -> list[str]:
    decided, others = ([v.ratio for v in found if v.converged is known] for known in (True, False))
    within = sum(ratio <= 1 for ratio in decided)
    return [row, str(within), str(len(decided) - within), _median(decided), _median(others)]


def _median(values: Iterable[float]) -> str:
    listed = list(values)
    return _multiple(median(listed)) if listed else "-"


def oracle_section(oracles: Results) -> str:
    """Write the section on how good the oracles are.

    Args:
        oracles: Results of oracles.

    Returns:
        Markdown.
    """
    by_cell: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for oracle in oracles:
        by_cell[oracle["settings"]["setting"], oracle["key"].split("-")[1]].append(oracle)
    lines, converged = [], 0
    for (setting, prior), cells in by_cell.items():
        results = [cell["result"] for cell in cells]
        largest, least = max(result["rhat"] for result in results), min(result["ess"] for result in results)
        converged += largest <= CONVERGED
        mse = format_mean(*mean_with_error([result["mse"] for result in results]))
        numbers = [_chains(cells[0]), format_number(largest), _largest(results, "rhat_median")]
        others = [_largest(results, "rhat_weights"), format_number(least), _own(results), mse]
        lines.append([setting, prior, *numbers, *others, "yes" if largest <= CONVERGED else "no"])
    return (
        "## How good the oracles are\n\n"
        "Chains under each prior, on the rows to which the table's rows are fitted. Without hidden layers exact Gibbs "
        "sampling, with them microcanonical chains, each start from an SVGI run of its own: the largest R-hat and the "
        "least effective sample size of predictions at 200 test inputs, over the replicates. An oracle has converged "
        f"if that R-hat is at most {CONVERGED}: **{converged} of {len(lines)}** have. With hidden layers the posterior "
        "of the weights has many modes, and chains of different starts stay in theirs: R-hat of the weights is far "
        "above that of the functions. The own error is the distance between two halves of the starts, in the units of "
        "y, and as a share of the posterior's deviation (0.18 for two sets of 100 exact draws).\n\n"
        + pipe_table(
            [
                "cell",
                "prior",
                "starts x chains",
                "largest R-hat",
                "median R-hat",
                "R-hat of weights",
                "least ESS",
                "own error (share)",
                "test MSE",
                "converged",
            ],
            lines,
        )
    )


def _chains(cell: dict[str, Any]) -> str:
    size = cell["settings"].get("oracle", {})
    return f"{size['starts']} x {size['chains']}" if "starts" in size else "-"


def _largest(results: Results, name: str) -> str:
    values = [result[name] for result in results if result.get(name) is not None]
    return format_number(max(values)) if values else "-"


def _own(results: Results) -> str:
    own = [result for result in results if result.get("function_distance")]
    if not own:
        return "-"
    error, spread = (fmean(result[name] for result in own) for name in ("function_distance", "spread"))
    return f"{format_number(error)} ({error / spread:.0%})"
