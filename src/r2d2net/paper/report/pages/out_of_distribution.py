"""The page of out-of-distribution runs: AUROC of R2D2-SVGI by both conventions beside the paper's, and accuracies."""

from __future__ import annotations

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
        for metric in ("auroc", "paper_auroc")
    }
    if mine["auroc"]:
        lines = [
            [setting, entry.ours, mine["paper_auroc"][setting].ours, entry.theirs or "-"]
            for setting, entry in mine["auroc"].items()
        ]
        places = placements(by_metric["auroc"])
        ranks = ", ".join(f"{place.setting}: {place.word}" for place in places)
        parts.append(
            "## R2D2-SVGI by both conventions\n\n"
            "AUROC (%) with its direction, uncertain is outside, and by the paper's convention, the larger of both "
            "directions, which cannot tell a good detector from one that is the wrong way round.\n\n"
            + pipe_table(["outside", "directional", "paper's convention", "the paper's figure"], lines)
            + (f"\nAmong our rows, directional AUROC: {ranks}.\n" if ranks else "")
        )
    if grid.results:
        parts.append("## Accuracy on the test images inside (%)\n\n" + row_table(grid, {"accuracy": "accuracy"}))
    return "\n".join(parts)
