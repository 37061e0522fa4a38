"""What the simulation has to show: R2D2-SVGI beside the paper and among our rows, what the errors are relative to,
and how good the oracles are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from r2d2net.paper.report.comparison import Compared, mean_and_error, mean_of, number
from r2d2net.paper.report.results import Found
from r2d2net.paper.report.standing import FAVOURITE, Standing, paired_error, standings
from r2d2net.paper.report.table_layouts import compared
from r2d2net.report.markdown_text import pipe_table

REFERENCES = {"oracle": "true function", "least_squares": "least squares", "constant": "best constant"}


def text(found: Found) -> str:
    """All of it as Markdown."""
    rows = [one for one in found.results if one["settings"]["kind"] == "row"]
    oracles = [one for one in found.results if one["settings"]["kind"] == "oracle"]
    parts = []
    if found.variant == "text":
        parts.append(
            "These are the scenarios as the paper's text has them. Its table was computed on others (variant `table`), "
            "so no figure of the paper stands beside ours.\n"
        )
    entries = next((one.entries for one in compared(found) if one.metric == "mse"), [])
    if rows:
        parts += [_beside_the_paper(entries, references(found)), _among_ours(entries, rows), _relative(rows)]
    if oracles:
        parts.append(_oracles(oracles))
    return "\n".join(part for part in parts if part)


def references(found: Found) -> dict[str, dict[str, float]]:
    """setting -> reference -> its mean test MSE over the replicates."""
    values: dict[str, dict[str, dict[Any, float]]] = defaultdict(lambda: defaultdict(dict))
    for one in found.results:
        for name, value in one["result"].get("reference", {}).items():
            values[one["settings"]["setting"]][name][one["settings"]["seed"]] = float(value)
    return {
        setting: {name: mean_of(list(by_seed.values()))[0] or 0.0 for name, by_seed in names.items()}
        for setting, names in values.items()
    }


def _beside_the_paper(entries: list[Compared], floors: dict[str, dict[str, float]]) -> str:
    mine = [e for e in entries if e.row == FAVOURITE and e.paper is not None and e.mean is not None]
    if not mine:
        return ""
    lines, met, asked = [], 0, 0
    for entry in mine:
        assert entry.paper is not None
        assert entry.mean is not None
        floor = floors[entry.setting]["oracle"]
        counts, reached = entry.paper.value > floor, entry.mean <= entry.paper.value
        asked, met = asked + counts, met + (counts and reached)
        verdict = ("yes" if reached else "no") if counts else "not asked: the paper's is below the noise"
        lines.append([entry.setting, entry.ours, entry.theirs, number(floor), verdict])
    said = "It is." if met == asked else "It is not everywhere."
    return (
        "## R2D2-SVGI beside the paper\n\n"
        "Asked for: an MSE at or below the paper's in every cell where the paper's is above the noise, which is the "
        f"MSE of the true function on our test rows. {said} It is in **{met} of {asked}** such cells; {len(mine)} of "
        "12 cells were run.\n\n"
        + pipe_table(["cell", "R2D2-SVGI", "the paper's", "true function", "at or below the paper's"], lines)
    )


def _among_ours(entries: list[Compared], rows: list[dict[str, Any]]) -> str:
    found = standings(entries)
    if not found:
        return ""
    lines, good, strict = [], 0, 0
    for one in found:
        paired = paired_error(rows, one.setting, (FAVOURITE, one.best), "mse")
        tied = one._replace(error=paired)
        good, strict = good + _good(one), strict + _good(tied)
        error = "-" if one.error is None else f"{one.error:.2g}"
        difference = "-" if paired is None or one.gap == 0.0 else f"{paired:.2g}"
        lines.append([one.setting, one.best, number(one.gap), error, difference, one.word, tied.word])
    return (
        "## R2D2-SVGI among our rows\n\n"
        f"It has the lowest MSE, or one within a standard error of the lowest, in **{good} of {len(found)}** cells "
        "(asked for: 8 of 12). The standard error of a mean holds the differences between test sets, which all rows "
        f"share; by that of the paired difference it is {strict} of {len(found)}.\n\n"
        + pipe_table(
            [
                "cell",
                "lowest",
                "R2D2-SVGI above it by",
                "s.e. of the lowest",
                "s.e. of the difference",
                "R2D2-SVGI",
                "paired",
            ],
            lines,
        )
    )


def _good(standing: Standing) -> bool:
    return standing.word != "is behind"


def _relative(rows: list[dict[str, Any]]) -> str:
    settings = list(dict.fromkeys(one["settings"]["setting"] for one in rows))
    names = list(dict.fromkeys(one["settings"]["row"] for one in rows))
    parts = [
        "## MSE relative to what is known of the test rows\n\n"
        "Mean test MSE of the true function (nothing can be better but by chance), of least squares and of the best "
        "constant on the same test rows, then the ratio of each row's MSE to that of each, ± its standard error.\n"
    ]
    own = [[s, *(mean_and_error(*mean_of(_unique(rows, s, name))) for name in REFERENCES)] for s in settings]
    parts.append(pipe_table(["cell", *REFERENCES.values()], own))
    for reference, title in REFERENCES.items():
        ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
        for one in rows:
            key = (one["settings"]["row"], one["settings"]["setting"])
            ratios[key].append(one["result"]["mse"] / one["result"]["reference"][reference])
        lines = [[row, *(mean_and_error(*mean_of(ratios[row, s])) for s in settings)] for row in names]
        parts.append(f"### MSE over that of: {title}\n\n" + pipe_table(["row", *settings], lines))
    return "\n".join(parts)


def _unique(rows: list[dict[str, Any]], setting: str, name: str) -> list[float]:
    """A reference's values, one for each replicate."""
    chosen = [one for one in rows if one["settings"]["setting"] == setting]
    return list({one["settings"]["seed"]: float(one["result"]["reference"][name]) for one in chosen}.values())


def _oracles(oracles: list[dict[str, Any]]) -> str:
    lines = []
    by_cell: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in oracles:
        by_cell[one["settings"]["setting"], one["key"].split("-")[1]].append(one["result"])
    for (setting, prior), found in by_cell.items():
        worst, least = max(one["rhat"] for one in found), min(one["ess"] for one in found)
        mse = mean_and_error(*mean_of([one["mse"] for one in found]))
        lines.append([setting, prior, number(worst), number(least), mse])
    bad = sum(float(line[2]) > 1.05 for line in lines)
    return (
        "## How good the oracles are\n\n"
        "Hamiltonian Monte Carlo on each prior: the largest R-hat and the least effective sample size of its "
        "predictions at 200 test inputs, over the replicates. An oracle with R-hat above 1.05 has not converged, and "
        f"errors that are measured against it are those of a rough oracle: {bad} of {len(lines)} are such. Chains "
        "start at means of SVGI, so rows by SVGI are near a rough oracle by the way it is made. Oracles have also "
        "seen the rows that chose the step sizes.\n\n"
        + pipe_table(["cell", "prior", "largest R-hat", "least ESS", "test MSE"], lines)
    )
