"""The page of out-of-distribution runs: AUROC of R2D2-SVGI by both conventions beside the paper's, and accuracies."""

from __future__ import annotations

from collections.abc import Mapping

from r2d2net.paper.report.comparison import ComparedMean
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_ranking import R2D2_SVGI, placements
from r2d2net.paper.report.row_tables import row_table
from r2d2net.paper.report.table_layouts import compare_grid
from r2d2net.report.markdown_text import pipe_table

STAND_IN = (
    "The paper's set of retinas is not public in its form. Another, smaller set stands in for it, so these figures are "
    "not to be quoted as those of the paper's set.\n"
)


def text(grid: GridResults) -> str:
    """Write the AUROC of R2D2-SVGI by both conventions, and the accuracies of all designs."""
    parts = [STAND_IN] if grid.name == "ood-drd" else []
    by_metric = {table.metric: table.entries for table in compare_grid(grid)}
    mine = {
        metric: {e.setting: e for e in by_metric.get(metric, []) if e.row == R2D2_SVGI}
        for metric in ("auroc", "paper_auroc", "novelty_auroc")
    }
    if mine["auroc"]:
        heads = ["outside", "directional", "paper's convention", "the paper's figure"]
        lines = [
            [setting, entry.ours, mine["paper_auroc"][setting].ours, entry.theirs or "-"]
            for setting, entry in mine["auroc"].items()
        ]
        scores = [_novelty(mine, setting) for setting in mine["auroc"]]
        if any(scores):
            heads.append("novelty score")
            lines = [[*line, score or "-"] for line, score in zip(lines, scores, strict=True)]
        places = placements(by_metric["auroc"])
        ranks = ", ".join(f"{place.setting}: {place.word}" for place in places)
        parts.append(
            "## R2D2-SVGI by both conventions\n\n"
            "AUROC (%) with its direction, uncertain is outside, and by the paper's convention, the larger of both "
            "directions, which cannot tell a good detector from one that is the wrong way round.\n\n"
            + ("The last column has the novelty score, with its direction.\n\n" if any(scores) else "")
            + pipe_table(heads, lines)
            + (f"\nAmong our rows, directional AUROC: {ranks}.\n" if ranks else "")
        )
    if grid.results:
        parts.append("## Accuracy on the test images inside (%)\n\n" + row_table(grid, {"accuracy": "accuracy"}))
    if grid.results and all("false_alarms" in cell["result"] for cell in grid.results):
        heading = "## False alarms of the novelty score at 5% on the test images inside (%)\n\n"
        parts.append(heading + row_table(grid, {"false alarms": "false_alarms"}))
    return "\n".join(parts)


def _novelty(mine: Mapping[str, Mapping[str, ComparedMean]], setting: str) -> str:
    """Return the novelty score's figure, or nothing where results are of before there was one."""
    entry = mine["novelty_auroc"].get(setting)
    return "" if entry is None else entry.ours or ""
