"""The page of "uci": published figures of the same splits of the UCI tables, beside our best row, R2D2-SVGI,
chains and the default.

The figures and their sources are in published_uci.csv: what the papers give for one hidden layer of 50 units (protein:
100) and 20 splits of nine tenths of the rows. Some give log densities only. DVI's noise depends on the inputs.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd

from r2d2net.paper.report.comparison import ComparedMean, format_number
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_ranking import R2D2_SVGI
from r2d2net.paper.report.table_layouts import compare_grid
from r2d2net.report.markdown_text import pipe_table

OWN = (R2D2_SVGI, "R2D2-MCLMC", "R2D2-Stacked")


@cache
def published() -> pd.DataFrame:
    """Read the published figures: columns table, method, rmse, nll (NaN where a paper gives no figure) and source."""
    with files("r2d2net.paper.report").joinpath("published_uci.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def text(grid: GridResults) -> str:
    """Write a table for each metric: published figures, our lowest mean and that of R2D2-SVGI."""
    whose = "Others' are means over all 20 splits; ours over those that were run."
    of = published().drop_duplicates("method")
    sources = "; ".join(f"{method}: {source}" for method, source in zip(of["method"], of["source"], strict=True))
    parts = [f"## Published figures of such splits\n\n{whose} Sources: {sources}.\n"]
    for comparison in compare_grid(grid):
        if comparison.metric not in ("rmse", "nll"):
            continue
        by_method = published().pivot(index="table", columns="method", values=comparison.metric)
        others = by_method.dropna(axis=1, how="all")
        methods = list(others.columns)
        lines = []
        for setting in dict.fromkeys(entry.setting for entry in comparison.entries):
            ours = {e.row: e for e in comparison.entries if e.setting == setting and e.mean is not None}
            if not ours:
                continue
            known = others.loc[setting] if setting in others.index else {}
            theirs = [format_number(float(known[m])) if m in known else "-" for m in methods]
            lowest = min(ours.values(), key=_mean)
            mine = [ours[row].ours if row in ours else "-" for row in OWN]
            lines.append([setting, *theirs, *mine, f"{lowest.ours} ({lowest.row})"])
        if lines:
            parts.append(f"### {comparison.title}\n\n" + pipe_table(["table", *methods, *OWN, "our lowest"], lines))
    return "\n".join(parts) if len(parts) > 1 else ""


def _mean(entry: ComparedMean) -> float:
    assert entry.mean is not None
    return entry.mean
