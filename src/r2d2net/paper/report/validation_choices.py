"""Settings chosen on validation rows: how often each candidate was the best of those tried, for each row of a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from r2d2net.paper.report.grid_results import GridResults
from r2d2net.report.markdown_text import pipe_table

NOT_SETTINGS = {"validation", "error"}
TITLES = {
    "factor": "step size ×",
    "rho": "rho's usual share of it ×",  # of earlier results
    "rho_share": "rho's share of it",
    "temperature": "KL ×",
}


class Choices(NamedTuple):
    """How often each candidate of a row was chosen, and how often its run diverged."""

    chosen: Counter[str]
    diverged: Counter[str]


def count_choices(results: Iterable[dict[str, Any]]) -> dict[str, Choices]:
    """Count, for each row, how often each candidate had the best validation score.

    Args:
        results: Results whose ``tried`` lists the candidates; those without it are left out.

    Returns:
        The counts by row.
    """
    counts: dict[str, Choices] = defaultdict(lambda: Choices(Counter(), Counter()))
    for cell in results:
        tried = cell["result"].get("tried")
        if not tried:
            continue
        chosen, diverged = counts[str(cell["settings"].get("row", cell["key"]))]
        scored = [candidate for candidate in tried if candidate["validation"] is not None]
        for candidate in tried:
            chosen[candidate_name(candidate)] += 0
            diverged[candidate_name(candidate)] += candidate["validation"] is None
        if scored:
            chosen[candidate_name(min(scored, key=lambda candidate: float(candidate["validation"])))] += 1
    return dict(counts)


def candidate_name(candidate: dict[str, Any]) -> str:
    """Describe the settings of a candidate in words.

    >>> candidate_name({"factor": 0.3, "validation": 1.2})
    'step size × 0.3'
    """
    settings = {name: value for name, value in candidate.items() if name not in NOT_SETTINGS}
    return ", ".join(f"{TITLES.get(name, name)} {_digits(value)}" for name, value in settings.items())


def _digits(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def choices_as_markdown(grid: GridResults) -> str:
    """Write the table of choices as Markdown; "" if nothing was chosen."""
    counts = count_choices(grid.results)
    names = list(dict.fromkeys(name for choices in counts.values() for name in choices.chosen))
    if not names:
        return ""
    lines = [[row, *(_entry(choices, name) for name in names)] for row, choices in counts.items()]
    if len(names) == 1:
        return "One candidate, so nothing was chosen.\n\n" + pipe_table(["row", *names], lines)
    head = (
        "How often each candidate had the least negative log predictive density on validation rows, which are no test "
        "rows. Every row of the table had as many candidates, but for chains that have no step size to choose (HMC, "
        "MCLMC, LinearGibbs).\n\n"
    )
    return head + pipe_table(["row", *names], lines)


def _entry(choices: Choices, name: str) -> str:
    if name not in choices.chosen:
        return "not tried"
    diverged = choices.diverged[name]
    return f"{choices.chosen[name]}" + (f" (diverged {diverged}×)" if diverged else "")
