"""The reports of several grids, and an index page with links to them and a summary of their results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from r2d2net.errors import DataError
from r2d2net.files import write_text
from r2d2net.paper.report.comparison import VERDICTS
from r2d2net.paper.report.discrepancies import DISCREPANCIES
from r2d2net.paper.report.grid_report import write_report
from r2d2net.paper.report.grid_results import GridResults, read_grid
from r2d2net.paper.report.row_ranking import R2D2_SVGI, placements
from r2d2net.paper.report.table_layouts import compare_grid
from r2d2net.report.document import Document, Section, Text, to_html, to_markdown
from r2d2net.report.markdown_text import escaped, pipe_table


def grids_in(folders: Sequence[Path]) -> list[Path]:
    """Find the folders of grids.

    Args:
        folders: Folders of grids, which have a grid.json, or folders that contain such folders.

    Returns:
        The folders of grids, each once.

    Raises:
        DataError: A folder is not one of a grid and contains none.
    """
    grids: list[Path] = []
    for folder in folders:
        inside = [folder] if (folder / "grid.json").exists() else sorted(p.parent for p in folder.glob("*/grid.json"))
        if not inside:
            raise DataError("is no folder of results", value=folder, fix="give one that `r2d2net reproduce` wrote")
        grids += inside
    return list(dict.fromkeys(grids))


def write_reports(folders: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Write the report of every grid into its folder, and an index page of all of them.

    Args:
        folders: Folders of grids, or folders that contain such folders.
        out: The index page, beside which the same page is written in Markdown; None for index.html beside the folders
            of the grids.

    Returns:
        The files that were written.

    Raises:
        DataError: A folder has no results, a file is damaged, or ``out`` is not the name of an HTML page.
    """
    paths = grids_in(folders)
    if out is None:
        out = (folders[0] if paths[0] != folders[0] else folders[0].resolve().parent) / "index.html"
    if out.suffix != ".html":
        raise DataError("is no page", argument="out", value=out, fix="give a name that ends in .html")
    grids = [(folder, read_grid(folder)) for folder in paths]  # all are read before anything is written
    written = [path for folder, _ in grids for path in write_report(folder)]
    html, markdown = index_documents(grids, out.parent)
    write_text(out, to_html(html))
    write_text(out.with_suffix(".md"), to_markdown(markdown))
    return [*written, out, out.with_suffix(".md")]


def index_documents(grids: Sequence[tuple[Path, GridResults]], page_folder: Path) -> tuple[Document, Document]:
    """Compose the index page twice: with links to reports in HTML, and with links to those in Markdown.

    Args:
        grids: The folder and the results of each grid.
        page_folder: The folder of the index page, to which links are relative.
    """
    known = "\n".join(f"- {discrepancy.text}" for discrepancy in DISCREPANCIES)
    sections = [
        Section("Where R2D2-SVGI stands", [Text(_places([grid for _, grid in grids]))]),
        Section("Known discrepancies of the paper", [Text(known)]),
    ]
    html, markdown = (
        Document("Results beside the paper's", [Section("", [Text(_list(grids, page_folder, name))]), *sections])
        for name in ("report.html", "report.md")
    )
    return html, markdown


def _list(grids: Sequence[tuple[Path, GridResults]], page_folder: Path, name: str) -> str:
    """A line for each grid: a link to its report, its size, and the number of entries with each verdict."""
    lines = []
    for folder, grid in grids:
        verdicts = Counter(entry.verdict for table in compare_grid(grid) for entry in table.entries if entry.verdict)
        address = quote(Path(os.path.relpath(folder / name, page_folder)).as_posix())
        about = grid.about
        scale = ", ".join(part for part in (about["scale"], grid.variant) if part)
        counts = [f"{verdicts[verdict]}" if verdicts else "-" for verdict in VERDICTS]
        cells = f"{len(grid.results)} of {len(about['cells'])}"
        hours = f"{sum(float(cell['seconds']) for cell in grid.results) / 3600:.2f}"
        texts = [escaped(text) for text in (about["title"], scale, cells, hours, *counts)]
        lines.append(" | ".join([f"| [{escaped(about['artefact'])}]({address})", *texts]) + " |")
    header = ["artefact", "what", "scale", "cells", "core hours", *VERDICTS]
    return pipe_table(header, []) + "\n".join(lines) + "\n"


def _places(grids: Sequence[GridResults]) -> str:
    """A line for each compared metric: R2D2-SVGI beside the paper's figures for it, and its place among our rows."""
    lines = []
    for grid in grids:
        for table in compare_grid(grid):
            verdicts = Counter(entry.verdict for entry in table.entries if entry.row == R2D2_SVGI and entry.verdict)
            words = Counter(place.word for place in placements(table.entries))
            if not words or table.metric == "coverage":
                continue
            beside = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict]) or "-"
            among = ", ".join(f"{word} {words[word]}" for word in ("leads", "ties", "is behind") if words[word])
            where = f"{grid.name} ({grid.about['scale']}{', ' + grid.variant if grid.variant else ''})"
            lines.append([where, table.title, beside, among])
    if not lines:
        return "No table has R2D2-SVGI beside another row yet.\n"
    return (
        "Settings of each table: R2D2-SVGI beside the paper's figure for it, and its mean among those of our rows "
        "(ties: within one standard error of the best).\n\n"
        + pipe_table(["artefact", "metric", "beside the paper's", "among our rows"], lines)
    )
