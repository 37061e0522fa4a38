"""The report of a reproduced table or figure: our results beside the paper's, as Markdown and as one HTML page.

    report.md, figures/    the report as Markdown, and its figures
    report.html            the report as one file with everything in it
    cells.jsonl            all cell files in one table, one line each: see `r2d2net.paper.cell_files`
    results.json           the compared tables: mean, standard error, the paper's figure, the verdict
    results.parquet        the numbers of all cells, one line each, where pyarrow is installed

A report reads the files of a grid and computes nothing anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from r2d2net.errors import DataError, Shown
from r2d2net.files import write_json, write_text
from r2d2net.paper.cell_files import pack_cells
from r2d2net.paper.report.comparison import CONFIDENCE, column_groups, comparison_block, format_number
from r2d2net.paper.report.discrepancies import discrepancies_of
from r2d2net.paper.report.dot_plot import dot_plot
from r2d2net.paper.report.grid_results import GridResults, read_grid
from r2d2net.paper.report.pages import PAGES
from r2d2net.paper.report.pages.simulation import references
from r2d2net.paper.report.result_exports import comparison_summary, has_parquet, write_parquet
from r2d2net.paper.report.table_layouts import MetricComparison, compare_grid
from r2d2net.paper.report.validation_choices import choices_as_markdown
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

OWN = ("regimes", "uci")  # artefacts that the paper does not have
MOST_KEYS = 30  # cells without a result that are named
LEGEND = (
    "Ours: mean ± standard error over replicates; the paper's figure in brackets, or below it. *better* and *worse*: "
    f"by more than the {CONFIDENCE:.0%} interval of so few replicates (Student's t); *within error*: by less; *few "
    "runs*: fewer than three replicates, so no verdict; *other measure*: ours and the paper's do not measure the "
    "same; *not run*: no result of ours."
)


def grid_document(grid: GridResults) -> Document:
    """Compose the report of a grid.

    Args:
        grid: The results.

    Returns:
        The report, to be written as Markdown or HTML.

    Raises:
        DataError: A result is not one of this artefact.
    """
    about = grid.about
    variant = f", variant `{escaped(grid.variant)}`" if grid.variant else ""
    full = "at full scale" if grid.name in OWN else "in the paper"
    less = f"Less than {full}: {escaped(about['reduced'])}." if about["reduced"] else "The full settings."
    replicates = (
        f" `--replicates {about['replicates']}` was given in place of the scale's own." if "replicates" in about else ""
    )
    opening = [Text(f"Scale `{escaped(about['scale'])}`{variant}. {less}{replicates}\n")]
    if grid.missing:
        opening.append(Text(f"**{len(grid.missing)} of {len(about['cells'])} cells have no result**: see below.\n"))
    sections = [Section("", opening), *_artefact_page(grid)]
    comparisons = list(compare_grid(grid))
    sections += [_table(grid, comparison, legend=i == 0) for i, comparison in enumerate(comparisons)]
    if choices := choices_as_markdown(grid):
        sections.append(Section("Settings chosen on validation data", [Text(choices)]))
    if rows := about.get("rows"):
        sections.append(Section("What the rows are", [Text(_rows(rows))]))
    if grid.missing:
        sections.append(Section("Missing cells", [Text(_missing(grid))]))
    if known := discrepancies_of(grid.name):
        sections.append(Section("Known discrepancies of the paper", [Text("\n".join(f"- {text}" for text in known))]))
    sections.append(Section("Where this comes from", [Text(_origin(grid))]))
    return Document(f"{about['artefact']}: {about['title']}", sections)


def _artefact_page(grid: GridResults) -> list[Section]:
    """The text and the drawings of the artefact's own page, where it has one."""
    page = PAGES.get(grid.name)
    blocks: list[Block] = []
    try:
        if page is not None and page.text is not None:
            blocks.append(Text(page.text(grid)))
        if page is not None and page.draw is not None:
            blocks += [drawing(caption, figure) for caption, figure in page.draw(grid).items()]
    except KeyError as error:
        fix = "remove it, run `r2d2net reproduce` again"
        raise DataError(f"has no {error}", value=Shown(f"a result of {grid.name}"), fix=fix) from error
    return [Section("", blocks)] if blocks else []


def _table(grid: GridResults, comparison: MetricComparison, *, legend: bool) -> Section:
    """One compared metric: its tables, and its drawings where it has some."""
    lines = references(grid) if comparison.metric == "mse" else {}
    blocks: list[Block] = [Text(LEGEND)] if legend else []
    for settings in column_groups(comparison.entries):
        part = [entry for entry in comparison.entries if entry.setting in settings]
        blocks.append(comparison_block(part))
        run = [setting for setting in settings if any(e.mean is not None for e in part if e.setting == setting)]
        if comparison.drawn and run:
            span = run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"
            shown = [entry for entry in part if entry.setting in run]
            figure = dot_plot(shown, comparison.title.split(":")[0], lines)
            blocks.append(drawing(f"{span}: {comparison.title}", figure, f"{comparison.metric} {span}"))
    return Section(comparison.title, blocks)


def _rows(rows: dict[str, Any]) -> str:
    lines = [[row, described["prior"], described["algorithm"]["type"]] for row, described in rows.items()]
    return (
        "Only what stands under *Settings chosen on validation data* was tuned. All else, priors' hyperparameters and "
        "settings of the algorithms, is the library's default or, at the paper's scale, what the paper has; "
        "`grid.json` lists all of it.\n\n" + pipe_table(["row", "prior", "algorithm"], lines)
    )


def _missing(grid: GridResults) -> str:
    started = [[key, line or "no word in its log"] for key, line in grid.failures.items()]
    others = [key for key in grid.missing if key not in grid.failures]
    parts = []
    if started:
        parts.append(
            "Begun without a result, and the last line of their logs:\n\n" + pipe_table(["cell", "log"], started)
        )
    if others:
        names = ", ".join(f"`{escaped(key)}`" for key in others[:MOST_KEYS])
        more = f" and {len(others) - MOST_KEYS} more" if len(others) > MOST_KEYS else ""
        parts.append(f"Not run ({len(others)}): {names}{more}.\n")
    return "\n".join(parts)


def _origin(grid: GridResults) -> str:
    cells = grid.results
    seconds = sum(float(cell["seconds"]) for cell in cells)
    versions = sorted({", ".join(f"{name} {value}" for name, value in cell["versions"].items()) for cell in cells})
    days = sorted(str(cell["written"])[:10] for cell in cells if "written" in cell)
    seeds = sorted({cell["seed"] for cell in cells if cell["seed"] is not None})
    lines = [
        ["cells with a result", f"{len(cells)} of {len(grid.about['cells'])}"],
        ["hours of one core", format_number(seconds / 3600)],
        ["commit", ", ".join(sorted({str(cell["commit"]) for cell in cells})) or "-"],
        ["versions", "; ".join(versions) or "-"],
        ["written", f"{days[0]} to {days[-1]}" if days else "-"],
        ["seeds", ", ".join(str(seed) for seed in seeds)],
    ]
    return pipe_table(["", ""], lines)


def write_report(folder: Path) -> list[Path]:
    """Write the report of a grid, and its results in other forms, into the folder of the grid.

    Args:
        folder: The folder of the grid.

    Returns:
        The files that were written.

    Raises:
        DataError: A file of the folder is damaged, or a result is not one of this artefact.
    """
    grid = read_grid(folder)
    document = grid_document(grid)
    written = [folder / "report.md", folder / "report.html"]
    for path, text in zip(written, (to_markdown(document), to_html(document)), strict=True):
        write_text(path, text)
    written += write_drawings(document, folder / "figures")
    if (table := pack_cells(folder)) is not None:
        written.append(table)
    write_json(folder / "results.json", comparison_summary(grid, compare_grid(grid)))
    written.append(folder / "results.json")
    if has_parquet() and grid.results:
        write_parquet(grid, folder / "results.parquet")
        written.append(folder / "results.parquet")
    return written


def report_as_markdown(folder: Path) -> str:
    """Compose the report of a grid as Markdown, without writing it."""
    return to_markdown(grid_document(read_grid(folder)))
