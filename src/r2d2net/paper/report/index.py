"""Reports of several grids, and one page that leads to them and says how they stand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from r2d2net.errors import DataError
from r2d2net.files import write_text
from r2d2net.paper.report.comparison import MARKS
from r2d2net.paper.report.discrepancies import DISCREPANCIES
from r2d2net.paper.report.reproduction import write_report
from r2d2net.paper.report.results import Found, read_folder
from r2d2net.paper.report.standing import FAVOURITE, standings
from r2d2net.paper.report.table_layouts import compared
from r2d2net.report.document import Document, Section, Text, to_html, to_markdown
from r2d2net.report.markdown_text import escaped, pipe_table


def grids_in(folders: Sequence[Path]) -> list[Path]:
    """The grids' folders: each that has a grid.json, and those inside the others."""
    found: list[Path] = []
    for folder in folders:
        inside = [folder] if (folder / "grid.json").exists() else sorted(p.parent for p in folder.glob("*/grid.json"))
        if not inside:
            raise DataError(f"{folder} is no folder of results: give one that `r2d2net reproduce` wrote")
        found += inside
    return list(dict.fromkeys(found))


def write_reports(folders: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Write the report of every grid into its folder, and the index.

    Args:
        folders: Grids' folders, or folders of them.
        out: The index page; beside it the same in Markdown. By default index.html beside the grids' folders.
    """
    grids = grids_in(folders)
    if out is None:
        out = (folders[0] if grids[0] != folders[0] else folders[0].resolve().parent) / "index.html"
    if out.suffix != ".html":
        raise DataError(f"--out {out} is no page: give a name that ends in .html")
    read = [(folder, read_folder(folder)) for folder in grids]  # all are read before anything is written
    written = [path for folder, _ in read for path in write_report(folder)]
    page = index(read, out.parent)
    write_text(out, to_html(page[0]))
    write_text(out.with_suffix(".md"), to_markdown(page[1]))
    return [*written, out, out.with_suffix(".md")]


def index(read: Sequence[tuple[Path, Found]], here: Path) -> tuple[Document, Document]:
    """The page with links to HTML, and that with links to Markdown."""
    known = "\n".join(f"- {one.text}" for one in DISCREPANCIES)
    tables = [
        Section("Where R2D2-SVGI stands", [Text(_standing([found for _, found in read]))]),
        Section("Known discrepancies of the paper", [Text(known)]),
    ]
    pages = [
        Document("Results beside the paper's", [Section("", [Text(_list(read, here, name))]), *tables])
        for name in ("report.html", "report.md")
    ]
    return pages[0], pages[1]


def _list(read: Sequence[tuple[Path, Found]], here: Path, name: str) -> str:
    lines = []
    for folder, found in read:
        marks = Counter(entry.mark for one in compared(found) for entry in one.entries if entry.mark)
        address = quote(Path(os.path.relpath(folder / name, here)).as_posix())
        about = found.about
        scale = ", ".join(part for part in (about["scale"], found.variant) if part)
        counts = [f"{marks[mark]}" if marks else "-" for mark in MARKS]
        cells = f"{len(found.results)} of {len(about['cells'])}"
        hours = f"{sum(float(one['seconds']) for one in found.results) / 3600:.2f}"
        texts = [escaped(text) for text in (about["title"], scale, cells, hours, *counts)]
        lines.append(" | ".join([f"| [{escaped(about['artefact'])}]({address})", *texts]) + " |")
    header = ["artefact", "what", "scale", "cells", "core hours", *MARKS]
    return pipe_table(header, []) + "\n".join(lines) + "\n"


def _standing(found: Sequence[Found]) -> str:
    """A line for each compared metric: against the paper's figures for R2D2-SVGI, and among our rows."""
    lines = []
    for one in found:
        for table in compared(one):
            marks = Counter(entry.mark for entry in table.entries if entry.row == FAVOURITE and entry.mark)
            words = Counter(standing.word for standing in standings(table.entries))
            if not words or table.metric == "coverage":
                continue
            beside = ", ".join(f"{marks[mark]} {mark}" for mark in MARKS if marks[mark]) or "-"
            among = ", ".join(f"{word} {words[word]}" for word in ("leads", "ties", "is behind") if words[word])
            where = f"{one.name} ({one.about['scale']}{', ' + one.variant if one.variant else ''})"
            lines.append([where, table.title, beside, among])
    if not lines:
        return "No table has R2D2-SVGI beside another row yet.\n"
    return (
        "Settings of each table: R2D2-SVGI beside the paper's figure for it, and its mean among those of our rows "
        "(ties: within one standard error of the best).\n\n"
        + pipe_table(["artefact", "metric", "beside the paper's", "among our rows"], lines)
    )
