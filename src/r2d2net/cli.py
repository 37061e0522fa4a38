"""The command line: `r2d2net --help`. Bad input ends with one line on stderr and exit code 2."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console

import r2d2net
from r2d2net.data import commands as data_commands
from r2d2net.errors import ParameterError, R2D2NetError

# typer brings its own copy of click or uses the installed one, depending on its version
UsageError: type[Any] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Bayesian neural networks with shrinkage priors.",
)
app.add_typer(data_commands.app, name="data")


class Picture(StrEnum):
    """Formats in which a figure can be saved."""

    png = "png"
    svg = "svg"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"r2d2net {r2d2net.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Bayesian neural networks with shrinkage priors."""


@app.command()
def priors(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path("out/priors"),
    picture: Annotated[Picture, typer.Option("--format", help="Format of the figure.")] = Picture.png,
) -> None:
    """Compare the priors: densities at zero and in the tail, and the rate table, theory beside measurement."""
    from r2d2net.priors.rates import rate_table
    from r2d2net.report.prior_comparison import rates_as_table, save_comparison

    _make(out)
    rows = rate_table()
    Console().print(rates_as_table(rows))
    for path in save_comparison(rows, out, picture.value):
        typer.echo(f"wrote {path}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of data, split and training.")] = 0,
) -> None:
    """Train R2D2-Net on scenario 2 and on a real table: test error, coverage, the inputs kept, a figure."""
    _make(out)
    from r2d2net.report.demo import run_demo

    for path in run_demo(out, seed):
        typer.echo(f"wrote {path}")


class Backend(StrEnum):
    """What runs the cells of a reproduction."""

    processes = "processes"
    ray = "ray"


class Scales(StrEnum):
    """How large a reproduction is."""

    smoke = "smoke"
    machine = "machine"
    paper = "paper"


@app.command()
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
    quiet: Annotated[bool, typer.Option(help="Say nothing of progress.")] = False,
) -> None:
    """Reproduce a table or figure of the paper, for example `r2d2net reproduce simulation --scale smoke`.

    What is finished is not done again, so an interrupted command goes on when it is given once more. Exit code 1 if a
    cell failed: its log says why.
    """
    from r2d2net.experiments.reproducing import Request, listing
    from r2d2net.experiments.reproducing import reproduce as run
    from r2d2net.report.flat_results import HINT, has_parquet
    from r2d2net.report.reproduction import write_report
    from r2d2net.report.terminal import first_table

    if show:
        for one, title in listing():
            typer.echo(f"{one:<24}{title}")
        return
    if name is None:
        raise ParameterError("NAME is missing: `r2d2net reproduce --list` shows what can be reproduced")
    _make(out)
    words = tuple(word for word in only.split(",") if word)
    request = Request(name, scale.value, replicates, words, workers, out, backend.value, address, variant)
    grid, watched = run(request, Console(stderr=True), quiet=quiet)
    if not quiet:
        for table in first_table(grid.folder):
            Console().print(table)
    for path in write_report(grid.folder):
        typer.echo(f"wrote {path}")
    if not has_parquet():
        typer.echo(HINT, err=True)
    for key, error in watched.failed.items():
        typer.echo(f"failed: {key}: {error} (see {grid.folder / 'cells' / key}.log)", err=True)
    if watched.failed:
        raise typer.Exit(1)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Results of grids, or folders of them.")],
    out: Annotated[Path | None, typer.Option(help="The index page; by default index.html beside the results.")] = None,
) -> None:
    """Write the reports of finished or unfinished reproductions from their result files, and an index of them.

    For example `r2d2net report results/`: report.md, report.html, results.json and results.parquet in each folder.
    """
    from r2d2net.report.flat_results import HINT, has_parquet
    from r2d2net.report.index import write_reports

    for path in write_reports(folders, out):
        typer.echo(f"wrote {path}")
    if not has_parquet():
        typer.echo(HINT, err=True)


def _make(out: Path) -> None:
    """Make the folder and see that it can be written, before any work is done for it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)
        raise ParameterError(f"--out {out} cannot be used ({reason}): give a folder that can be written") from error


def main() -> None:
    """Entry point of the `r2d2net` command."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except UsageError as error:
        message = error.format_message().rstrip(".")
        typer.echo(f"error: {message}; see `r2d2net --help`", err=True)
        sys.exit(2)
    except (R2D2NetError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
