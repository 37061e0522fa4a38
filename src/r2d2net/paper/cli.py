"""The commands `r2d2net priors | demo | reproduce | report`.

Imported by the command line when one of them is used. What a command computes with is imported by its function, so
that its help and `r2d2net reproduce --list` do not wait for torch.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from r2d2net.cli.paper_commands import SUMMARIES
from r2d2net.errors import ParameterError
from r2d2net.files import make_folder
from r2d2net.options import AnySeed, Json, Quiet

app = typer.Typer()


class Picture(StrEnum):
    """Formats in which a figure can be saved."""

    png = "png"
    svg = "svg"


class Backend(StrEnum):
    """What runs the cells of a reproduction."""

    processes = "processes"
    ray = "ray"


class Scales(StrEnum):
    """How large a reproduction is."""

    smoke = "smoke"
    machine = "machine"
    paper = "paper"


def _command(name: str, details: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command whose help is its summary in `r2d2net --help` and these details."""
    return app.command(name, help=f"{SUMMARIES[name]}\n\n{details}")


@_command("priors", "For example `r2d2net priors --out priors --format svg`.")
def priors(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path("out/priors"),
    picture: Annotated[Picture, typer.Option("--format", help="Format of the figure.")] = Picture.png,
    seed: AnySeed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run `r2d2net priors`."""
    from r2d2net.paper.prior_rates import rate_table
    from r2d2net.paper.report.prior_comparison import rates_as_table, save_comparison

    make_folder(out, "out")
    rows = rate_table()
    if not (json or quiet):
        Console().print(rates_as_table(rows))
    _say_what_was_written(save_comparison(rows, out, picture.value), json=json, quiet=quiet)


@_command("demo", "For example `r2d2net demo --out demo --seed 1`.")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of data, split and training.")] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run `r2d2net demo`."""
    make_folder(out, "out")
    from r2d2net.paper.demo import run_demo

    _say_what_was_written(run_demo(out, seed, console=Console(quiet=json or quiet)), json=json, quiet=quiet)


@_command(
    "reproduce",
    "What is finished is not done again, so an interrupted command goes on when it is given once more; with "
    "`--out results` it goes on from the tables of results kept there. Exit code 1 if a cell failed: its log says why.",
)
def reproduce(
    name: Annotated[str | None, typer.Argument(help="The table or figure; --list shows them.")] = None,
    scale: Annotated[Scales, typer.Option(help="A minute, an hour on two cores, or the paper's.")] = Scales.machine,
    replicates: Annotated[int | None, typer.Option(min=1, help="Replicates; by default the scale's own.")] = None,
    only: Annotated[str, typer.Option(help="Cells whose key has one of these words in it, by commas.")] = "",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at a time; by default one a core.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for results; finished cells in it are kept.")] = Path(
        "out/reproduce"
    ),
    variant: Annotated[str | None, typer.Option(help="Variant of an artefact that has some: table or text.")] = None,
    backend: Annotated[Backend, typer.Option(help="Processes of this machine, or a Ray cluster.")] = Backend.processes,
    address: Annotated[str | None, typer.Option(help="The Ray cluster; by default one on this machine.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show what can be reproduced.")] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say how long it will take, by finished cells, and run nothing.")
    ] = False,
    seed: Annotated[
        int,
        typer.Option(min=0, max=10**9, help="Added to the seeds of all cells; the results have their own folder."),
    ] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run `r2d2net reproduce`."""
    if show:
        _list_artefacts(json=json)
        return
    if name is None:
        fix = "`r2d2net reproduce --list` shows what can be reproduced"
        raise ParameterError("is missing", argument="name", fix=fix)
    from r2d2net.paper.experiments.reproducing import Request
    from r2d2net.paper.experiments.reproducing import estimate as estimated
    from r2d2net.paper.experiments.reproducing import reproduce as run
    from r2d2net.paper.report.grid_report import write_report
    from r2d2net.paper.report.result_exports import HINT, has_parquet
    from r2d2net.paper.report.terminal_table import first_table

    words = tuple(word for word in only.split(",") if word)
    request = Request(name, scale.value, replicates, words, workers, out, backend.value, address, variant, seed)
    if estimate:
        lines = estimated(request)
        typer.echo(json_text.dumps({"estimate": lines}, indent=2) if json else "\n".join(lines))
        return
    grid, progress = run(request, Console(stderr=True), quiet=quiet)
    if not (json or quiet):
        for table in first_table(grid.folder):
            Console().print(table)
    paths = write_report(grid.folder)
    _say_what_was_written(paths, json=json, quiet=quiet, content={"failed": progress.failed})
    if not (has_parquet() or quiet):
        typer.echo(HINT, err=True)
    for key, error in progress.failed.items():
        typer.echo(f"failed: {key}: {error} (see {grid.folder / 'cells' / key}.log)", err=True)
    if progress.failed:
        raise typer.Exit(1)


@_command(
    "report",
    "For example `r2d2net report results/`: report.md, report.html, cells.jsonl (all cell files in one table), "
    "results.json and results.parquet in each folder.",
)
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Results of grids, or folders of them.")],
    out: Annotated[Path | None, typer.Option(help="The index page; by default index.html beside the results.")] = None,
    seed: AnySeed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run `r2d2net report`."""
    from r2d2net.paper.cell_files import note_on_table
    from r2d2net.paper.report.index_page import grids_in, write_reports
    from r2d2net.paper.report.result_exports import HINT, has_parquet

    for note in filter(None, map(note_on_table, grids_in(folders))):
        typer.echo(note, err=True)
    _say_what_was_written(write_reports(folders, out), json=json, quiet=quiet, content={})
    if not (has_parquet() or quiet):
        typer.echo(HINT, err=True)


def _list_artefacts(*, json: bool) -> None:
    """Print name and title of everything that can be reproduced."""
    from r2d2net.paper.experiments import TITLES

    if json:
        typer.echo(json_text.dumps(TITLES, indent=2))
        return
    for name, title in TITLES.items():
        typer.echo(f"{name:<24}{title}")


def _say_what_was_written(
    paths: Iterable[Path], *, json: bool, quiet: bool, content: dict[str, Any] | None = None
) -> None:
    """Print the paths; with ``json`` beside ``content``, by default that of the JSON file among them."""
    written = list(paths)
    if json:
        if content is None:
            content = json_text.loads(next(path for path in written if path.suffix == ".json").read_text("utf-8"))
        typer.echo(json_text.dumps({**content, "files": [str(path) for path in written]}, indent=2))
    elif not quiet:
        for path in written:
            typer.echo(f"wrote {path}")
