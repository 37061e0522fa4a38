"""What out-of-distribution runs have to show: R2D2-SVGI by both conventions beside the paper's, and accuracies."""

from __future__ import annotations

from r2d2net.paper.report.by_row import table
from r2d2net.paper.report.results import Found
from r2d2net.paper.report.standing import FAVOURITE, standings
from r2d2net.paper.report.table_layouts import compared
from r2d2net.report.markdown_text import pipe_table

STAND_IN = (
    "The paper's set of retinas is not public in its form. Another, smaller set stands in for it, so these figures are "
    "not to be quoted as those of the paper's set.\n"
)


def text(found: Found) -> str:
    """All of it as Markdown."""
    parts = [STAND_IN] if found.name == "ood-drd" else []
    by_metric = {one.metric: one.entries for one in compared(found)}
    mine = {
        metric: {e.setting: e for e in by_metric.get(metric, []) if e.row == FAVOURITE}
        for metric in ("auroc", "paper_auroc")
    }
    if mine["auroc"]:
        lines = [
            [setting, entry.ours, mine["paper_auroc"][setting].ours, entry.theirs or "-"]
            for setting, entry in mine["auroc"].items()
        ]
        places = standings(by_metric["auroc"])
        said = ", ".join(f"{one.setting}: {one.word}" for one in places)
        parts.append(
            "## R2D2-SVGI by both conventions\n\n"
            "AUROC (%) with its direction, uncertain is outside, and by the paper's convention, the larger of both "
            "directions, which cannot tell a good detector from one that is the wrong way round.\n\n"
            + pipe_table(["outside", "directional", "paper's convention", "the paper's figure"], lines)
            + (f"\nAmong our rows, directional AUROC: {said}.\n" if said else "")
        )
    if found.results:
        parts.append("## Accuracy on the test images inside (%)\n\n" + table(found, {"accuracy": "accuracy"}))
    return "\n".join(parts)
