"""Settings that validation rows chose: for each row, how often each candidate was the best of those tried."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from r2d2net.paper.report.results import Found
from r2d2net.report.markdown_text import pipe_table

NOT_SETTINGS = {"validation", "error"}
TITLES = {
    "factor": "step size ×",
    "rho": "rho's usual share of it ×",  # of earlier results
    "rho_share": "rho's share of it",
    "temperature": "KL ×",
}


def chosen(results: Iterable[dict[str, Any]]) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """row -> how often each candidate was chosen, and how often it diverged."""
    counts: dict[str, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
    for one in results:
        tried = one["result"].get("tried")
        if not tried:
            continue
        wins, diverged = counts[str(one["settings"].get("row", one["key"]))]
        scored = [entry for entry in tried if entry["validation"] is not None]
        for entry in tried:
            wins[name_of(entry)] += 0
            diverged[name_of(entry)] += entry["validation"] is None
        if scored:
            wins[name_of(min(scored, key=lambda entry: float(entry["validation"])))] += 1
    return dict(counts)


def name_of(entry: dict[str, Any]) -> str:
    """A candidate in words.

    >>> name_of({"factor": 0.3, "validation": 1.2})
    'step size × 0.3'
    """
    settings = {name: value for name, value in entry.items() if name not in NOT_SETTINGS}
    return ", ".join(f"{TITLES.get(name, name)} {_digits(value)}" for name, value in settings.items())


def _digits(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_markdown(found: Found) -> str:
    """The table; "" if nothing was chosen."""
    counts = chosen(found.results)
    names = list(dict.fromkeys(name for wins, _ in counts.values() for name in wins))
    if not names:
        return ""
    lines = [[row, *(_cell(wins, diverged, name) for name in names)] for row, (wins, diverged) in counts.items()]
    if len(names) == 1:
        return "One candidate, so nothing was chosen.\n\n" + pipe_table(["row", *names], lines)
    head = (
        "How often each candidate had the least negative log predictive density on validation rows, which are no test "
        "rows. Every row of the table had as many candidates, but for HMC, which has no step size to choose.\n\n"
    )
    return head + pipe_table(["row", *names], lines)


def _cell(wins: Counter[str], diverged: Counter[str], name: str) -> str:
    if name not in wins:
        return "not tried"
    return f"{wins[name]}" + (f" (diverged {diverged[name]}×)" if diverged[name] else "")
