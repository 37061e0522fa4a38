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
    from r2d2net.report.prior_comparison import rates_as_table, save_comparison
    from r2d2net.report.prior_rates import rate_table

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
