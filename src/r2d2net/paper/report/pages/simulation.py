"""The page of "simulation": R2D2-SVGI beside the paper and among our rows, errors relative to reference predictors,
verdicts on the rows' inference, and how well the oracles have converged."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from r2d2net.paper.report.comparison import ComparedMean, format_mean, format_number, mean_with_error
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.oracle_verdicts import inference_section, oracle_section
from r2d2net.paper.report.row_ranking import R2D2_SVGI, Placement, paired_error, placements
from r2d2net.paper.report.table_layouts import compare_grid
from r2d2net.report.markdown_text import pipe_table

REFERENCES = {"oracle": "true function", "least_squares": "least squares", "constant": "best constant"}
CELLS = 12  # of the paper's table: three scenarios, no to three hidden layers


def text(grid: GridResults) -> str:
    """Write the sections of the page for which there are results."""
    kinds = ("row", "oracle", "judgement")
    rows, oracles, judged = ([cell for cell in grid.results if cell["settings"]["kind"] == kind] for kind in kinds)
    parts = []
    if grid.variant == "text":
        parts.append(
            "These are the scenarios as the paper's text has them. Its table was computed on others (variant `table`), "
            "so no figure of the paper stands beside ours.\n"
        )
    entries = next((table.entries for table in compare_grid(grid) if table.metric == "mse"), [])
    if rows:
        parts += [_beside_the_paper(entries, references(grid)), _among_ours(entries, rows), _relative(rows)]
    if oracles:
        parts += [inference_section(judged, oracles), _versions(rows, judged), oracle_section(oracles)]
    return "\n".join(part for part in parts if part)


def _versions(rows: list[dict[str, Any]], judged: list[dict[str, Any]]) -> str:
    """Say so where the rows that oracles judge were fitted by another version than those of the other tables."""
    by_test, by_oracle = (sorted({str(cell["commit"])[:7] for cell in cells}) for cells in (rows, judged))
    if not judged or by_test == by_oracle:
        return ""
    return (
        f"Rows that oracles judge were fitted anew for it, by version {', '.join(by_oracle)}; the tables of test rows "
        f"are of version {', '.join(by_test)}.\n"
    )


def references(grid: GridResults) -> dict[str, dict[str, float]]:
    """Compute the test MSE of reference predictors: the true function, least squares and the best constant.

    Args:
        grid: The results.

    Returns:
        The mean over the replicates, by setting and by the name of the reference.
    """
    values: dict[str, dict[str, dict[Any, float]]] = defaultdict(lambda: defaultdict(dict))
    for cell in grid.results:
        for name, value in cell["result"].get("reference", {}).items():
            values[cell["settings"]["setting"]][name][cell["settings"]["seed"]] = float(value)
    return {
        setting: {name: mean_with_error(list(by_seed.values()))[0] or 0.0 for name, by_seed in names.items()}
        for setting, names in values.items()
    }


def _beside_the_paper(entries: list[ComparedMean], floors: dict[str, dict[str, float]]) -> str:
    mine = [e for e in entries if e.row == R2D2_SVGI and e.paper is not None and e.mean is not None]
    if not mine:
        return ""
    lines, reached, reachable = [], 0, 0
    for entry in mine:
        assert entry.paper is not None
        assert entry.mean is not None
        floor = floors[entry.setting]["oracle"]
        above_noise, as_low = entry.paper.value > floor, entry.mean <= entry.paper.value
        reachable, reached = reachable + above_noise, reached + (above_noise and as_low)
        finding = ("yes" if as_low else "no") if above_noise else "not compared: the paper's is below the noise"
        lines.append([entry.setting, entry.ours, entry.theirs, format_number(floor), finding])
    return (
        "## R2D2-SVGI beside the paper\n\n"
        f"{len(mine)} of the {CELLS} cells of the paper's table were run. The paper's MSE is above the noise, which is "
        f"the MSE of the true function on our test rows, in {reachable} of them; R2D2-SVGI's is at or below the "
        f"paper's in **{reached} of {reachable}**.\n\n"
        + pipe_table(["cell", "R2D2-SVGI", "the paper's", "true function", "at or below the paper's"], lines)
    )


def _among_ours(entries: list[ComparedMean], rows: list[dict[str, Any]]) -> str:
    places = placements(entries)
    if not places:
        return ""
    lines, near_best, paired_near_best = [], 0, 0
    for place in places:
        paired = paired_error(rows, place.setting, (R2D2_SVGI, place.best), "mse")
        paired_place = place._replace(error=paired)
        near_best += _leads_or_ties(place)
        paired_near_best += _leads_or_ties(paired_place)
        error = "-" if place.error is None else f"{place.error:.2g}"
        difference = "-" if paired is None or place.gap == 0.0 else f"{paired:.2g}"
        gap = format_number(place.gap)
        lines.append([place.setting, place.best, gap, error, difference, place.word, paired_place.word])
    return (
        "## R2D2-SVGI among our rows\n\n"
        "It has the lowest MSE, or one within a standard error of the lowest, in "
        f"**{near_best} of {len(places)}** cells. The standard error of a mean holds the differences between test "
        "sets, which all rows share; by that of the paired difference it is "
        f"{paired_near_best} of {len(places)}.\n\n"
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


def _leads_or_ties(place: Placement) -> bool:
    return place.word != "is behind"


def _relative(rows: list[dict[str, Any]]) -> str:
    settings = list(dict.fromkeys(cell["settings"]["setting"] for cell in rows))
    names = list(dict.fromkeys(cell["settings"]["row"] for cell in rows))
    parts = [
        "## MSE relative to what is known of the test rows\n\n"
        "Mean test MSE of the true function (nothing can be better but by chance), of least squares and of the best "
        "constant on the same test rows, then the ratio of each row's MSE to that of each, ± its standard error.\n"
    ]
    own = [[s, *(format_mean(*mean_with_error(_by_replicate(rows, s, name))) for name in REFERENCES)] for s in settings]
    parts.append(pipe_table(["cell", *REFERENCES.values()], own))
    for reference, title in REFERENCES.items():
        ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
        for cell in rows:
            key = (cell["settings"]["row"], cell["settings"]["setting"])
            ratios[key].append(cell["result"]["mse"] / cell["result"]["reference"][reference])
        lines = [[row, *(format_mean(*mean_with_error(ratios[row, s])) for s in settings)] for row in names]
        parts.append(f"### MSE over that of: {title}\n\n" + pipe_table(["row", *settings], lines))
    return "\n".join(parts)


def _by_replicate(rows: list[dict[str, Any]], setting: str, name: str) -> list[float]:
    """The values of a reference, one for each replicate: all rows of a replicate have the same."""
    cells = [cell for cell in rows if cell["settings"]["setting"] == setting]
    return list({cell["settings"]["seed"]: float(cell["result"]["reference"][name]) for cell in cells}.values())
