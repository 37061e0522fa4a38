"""The report of a reproduced table or figure: ours beside the paper's, as Markdown and as one HTML page.

    report.md, figures/    for a repository's pages
    report.html            one file with everything in it
    cells.jsonl            all cell files in one table, one line each: see `r2d2net.paper.cell_files`
    results.json           the compared tables: mean, standard error, the paper's figure, the mark
    results.parquet        the numbers of all cells, one line each, where pyarrow is installed

Reads result files only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from r2d2net.errors import DataError
from r2d2net.files import write_json, write_text
from r2d2net.paper.cell_files import pack_cells
from r2d2net.paper.report import chosen
from r2d2net.paper.report.comparison import CONFIDENCE, columns, comparison_block, number
from r2d2net.paper.report.discrepancies import concerning
from r2d2net.paper.report.dot_plot import dot_plot
from r2d2net.paper.report.flat_results import has_parquet, summary, write_parquet
from r2d2net.paper.report.pages import PAGES
from r2d2net.paper.report.pages.simulation import references
from r2d2net.paper.report.results import Found, read_folder
from r2d2net.paper.report.table_layouts import Compare, compared
from r2d2net.report.document import (
    Block,
    Document,
    Section,
    Text,
    drawing,
    to_html,
    to_markdown,
    write_drawings,
)
from r2d2net.report.markdown_text import escaped, pipe_table

OWN = ("regimes", "uci")  # tables that the paper does not have
MOST_KEYS = 30  # cells without a result that are named one by one
LEGEND = (
    "Ours: mean ± standard error over replicates; the paper's figure in brackets, or below it. *better* and *worse*: "
    f"by more than the {CONFIDENCE:.0%} interval of so few replicates (Student's t); *within error*: by less; *few "
    "runs*: fewer than three replicates, so no verdict; *other measure*: ours and the paper's do not measure the "
    "same; *not run*: no result of ours."
)


def document(found: Found) -> Document:
    """The whole report."""
    about = found.about
    variant = f", variant `{escaped(found.variant)}`" if found.variant else ""
    full = "at full scale" if found.name in OWN else "in the paper"
    less = f"Less than {full}: {escaped(about['reduced'])}." if about["reduced"] else "The full settings."
    asked = (
        f" `--replicates {about['replicates']}` was given in place of the scale's own." if "replicates" in about else ""
    )
    opening = [Text(f"Scale `{escaped(about['scale'])}`{variant}. {less}{asked}\n")]
    if found.missing:
        opening.append(Text(f"**{len(found.missing)} of {len(about['cells'])} cells have no result**: see below.\n"))
    sections = [Section("", opening), *_page(found)]
    tables = list(compared(found))
    sections += [_table(found, one, first=one is tables[0]) for one in tables]
    if tried := chosen.as_markdown(found):
        sections.append(Section("Settings chosen on validation data", [Text(tried)]))
    if rows := found.about.get("rows"):
        sections.append(Section("What the rows are", [Text(_rows(rows))]))
    if found.missing:
        sections.append(Section("Missing cells", [Text(_missing(found))]))
    if known := concerning(found.name):
        sections.append(Section("Known discrepancies of the paper", [Text("\n".join(f"- {one}" for one in known))]))
    sections.append(Section("Where this comes from", [Text(_origin(found))]))
    return Document(f"{about['artefact']}: {about['title']}", sections)


def _page(found: Found) -> list[Section]:
    """What the artefact's own page says and draws."""
    page = PAGES.get(found.name)
    blocks: list[Block] = []
    try:
        if page is not None and page.text is not None:
            blocks.append(Text(page.text(found)))
        if page is not None and page.draw is not None:
            blocks += [drawing(caption, figure) for caption, figure in page.draw(found).items()]
    except KeyError as error:
        raise DataError(f"a result of {found.name} has no {error}: remove it, run `r2d2net reproduce` again") from error
    return [Section("", blocks)] if blocks else []


def _table(found: Found, table: Compare, *, first: bool) -> Section:
    lines = references(found) if table.metric == "mse" else {}
    blocks: list[Block] = [Text(LEGEND)] if first else []
    for settings in columns(table.entries):
        part = [entry for entry in table.entries if entry.setting in settings]
        blocks.append(comparison_block(part))
        run = [setting for setting in settings if any(e.mean is not None for e in part if e.setting == setting)]
        if table.drawn and run:
            which = run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"
            shown = [entry for entry in part if entry.setting in run]
            picture = dot_plot(shown, table.title.split(":")[0], lines)
            blocks.append(drawing(f"{which}: {table.title}", picture, f"{table.metric} {which}"))
    return Section(table.title, blocks)


def _rows(rows: dict[str, Any]) -> str:
    lines = [[row, one["prior"], one["algorithm"]["type"]] for row, one in rows.items()]
    return (
        "Only what stands under *Settings chosen on validation data* was tuned. All else, priors' hyperparameters and "
        "settings of the algorithms, is the library's default or, at the paper's scale, what the paper has; "
        "`grid.json` lists all of it.\n\n" + pipe_table(["row", "prior", "algorithm"], lines)
    )


def _missing(found: Found) -> str:
    begun = [[key, line or "no word in its log"] for key, line in found.failures.items()]
    others = [key for key in found.missing if key not in found.failures]
    parts = []
    if begun:
        parts.append(
            "Begun without a result, and the last line of their logs:\n\n" + pipe_table(["cell", "log"], begun)
        )
    if others:
        names = ", ".join(f"`{escaped(key)}`" for key in others[:MOST_KEYS])
        more = f" and {len(others) - MOST_KEYS} more" if len(others) > MOST_KEYS else ""
        parts.append(f"Not run ({len(others)}): {names}{more}.\n")
    return "\n".join(parts)


def _origin(found: Found) -> str:
    results = found.results
    seconds = sum(float(one["seconds"]) for one in results)
    versions = sorted({", ".join(f"{name} {value}" for name, value in one["versions"].items()) for one in results})
    days = sorted(str(one["written"])[:10] for one in results if "written" in one)
    lines = [
        ["cells with a result", f"{len(results)} of {len(found.about['cells'])}"],
        ["hours of one core", number(seconds / 3600)],
        ["commit", ", ".join(sorted({str(one["commit"]) for one in results})) or "-"],
        ["versions", "; ".join(versions) or "-"],
        ["written", f"{days[0]} to {days[-1]}" if days else "-"],
        ["seeds", ", ".join(str(seed) for seed in sorted({one["seed"] for one in results if one["seed"] is not None}))],
    ]
    return pipe_table(["", ""], lines)


def write_report(folder: Path) -> list[Path]:
    """Write the report into the grid's folder; returns its files."""
    found = read_folder(folder)
    made = document(found)
    written = [folder / "report.md", folder / "report.html"]
    for path, text in zip(written, (to_markdown(made), to_html(made)), strict=True):
        write_text(path, text)
    written += write_drawings(made, folder / "figures")
    if (table := pack_cells(folder)) is not None:
        written.append(table)
    write_json(folder / "results.json", summary(found, compared(found)))
    written.append(folder / "results.json")
    if has_parquet() and found.results:
        write_parquet(found, folder / "results.parquet")
        written.append(folder / "results.parquet")
    return written


def report(folder: Path) -> str:
    """The report as Markdown, without writing it."""
    return to_markdown(document(read_folder(folder)))
