"""The command line: `r2d2net --help`.

Exit codes: 0 done; 1 the work failed or was interrupted; 2 the input cannot be used. Either of the latter is one line
on standard error.
"""

from __future__ import annotations

import errno
import json as json_text
import os
import re
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

import r2d2net
from r2d2net.cli import data_sets
from r2d2net.errors import DivergenceError, Interrupted, ParameterError, R2D2NetError
from r2d2net.files import make_folder
from r2d2net.options import AnySeed, Json, Quiet
from r2d2net.tables import commands as table_commands

# typer brings its own copy of click or uses the installed one, depending on its version
UsageError: type[Any] = typer.BadParameter.__mro__[1]
Abort: type[Any] = typer.Abort
INTERRUPTED = 130  # how newer versions of typer report a KeyboardInterrupt
FAULTS = (  # by what typer or click says of a value
    ("not one of '(.*)'", "is no choice: use one of {}"),
    ("integer", "is no whole number: give one"),
    ("number|float", "is no number: give one, with a decimal point"),
    ("(?:should be|in the range) (.*)", "is out of range: use a number {}"),
)
FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Bayesian neural networks with shrinkage priors.",
)
app.add_typer(table_commands.app)
app.add_typer(data_sets.app, name="data")


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
    seed: AnySeed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare the priors: densities at zero and in the tail, and the rate table, theory beside measurement.

    For example `r2d2net priors --out priors --format svg`.
    """
    from r2d2net.paper.prior_rates import rate_table
    from r2d2net.paper.report.prior_comparison import rates_as_table, save_comparison

    make_folder(out, "--out")
    rows = rate_table()
    if not (json or quiet):
        Console().print(rates_as_table(rows))
    _wrote(save_comparison(rows, out, picture.value), json=json, quiet=quiet)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of data, split and training.")] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train R2D2-Net on scenario 2 and on a real table: test error, coverage, the inputs kept, a figure.

    For example `r2d2net demo --out demo --seed 1`.
    """
    make_folder(out, "--out")
    from r2d2net.paper.report.demo import run_demo

    _wrote(run_demo(out, seed, console=Console(quiet=json or quiet)), json=json, quiet=quiet)


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
    seed: Annotated[
        int,
        typer.Option(min=0, max=10**9, help="Added to the seeds of all cells; the results have their own folder."),
    ] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table or figure of the paper, for example `r2d2net reproduce simulation --scale smoke`.

    What is finished is not done again, so an interrupted command goes on when it is given once more; with
    `--out results` it goes on from the tables of results kept there. Exit code 1 if a cell failed: its log says why.
    """
    from r2d2net.paper.experiments.reproducing import Request, listing
    from r2d2net.paper.experiments.reproducing import reproduce as run
    from r2d2net.paper.report.flat_results import HINT, has_parquet
    from r2d2net.paper.report.reproduction import write_report
    from r2d2net.paper.report.terminal import first_table

    if show:
        if json:
            typer.echo(json_text.dumps(dict(listing()), indent=2))
        else:
            for one, title in listing():
                typer.echo(f"{one:<24}{title}")
        return
    if name is None:
        raise ParameterError("NAME is missing: `r2d2net reproduce --list` shows what can be reproduced")
    words = tuple(word for word in only.split(",") if word)
    request = Request(name, scale.value, replicates, words, workers, out, backend.value, address, variant, seed)
    grid, watched = run(request, Console(stderr=True), quiet=quiet)
    if not (json or quiet):
        for table in first_table(grid.folder):
            Console().print(table)
    paths = write_report(grid.folder)
    _wrote(paths, json=json, quiet=quiet, content={"failed": watched.failed})
    if not (has_parquet() or quiet):
        typer.echo(HINT, err=True)
    for key, error in watched.failed.items():
        typer.echo(f"failed: {key}: {error} (see {grid.folder / 'cells' / key}.log)", err=True)
    if watched.failed:
        raise typer.Exit(1)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Results of grids, or folders of them.")],
    out: Annotated[Path | None, typer.Option(help="The index page; by default index.html beside the results.")] = None,
    seed: AnySeed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the reports of finished or unfinished reproductions from their result files, and an index of them.

    For example `r2d2net report results/`: report.md, report.html, cells.jsonl (all cell files in one table),
    results.json and results.parquet in each folder.
    """
    from r2d2net.paper.report.flat_results import HINT, has_parquet
    from r2d2net.paper.report.index import write_reports

    _wrote(write_reports(folders, out), json=json, quiet=quiet, content={})
    if not (has_parquet() or quiet):
        typer.echo(HINT, err=True)


def _wrote(paths: Iterable[Path], *, json: bool, quiet: bool, content: dict[str, Any] | None = None) -> None:
    """Say what was written; as JSON with ``content``, or else that of the JSON file among what was written."""
    written = list(paths)
    if json:
        found = content
        if found is None:
            found = json_text.loads(next(path for path in written if path.suffix == ".json").read_text("utf-8"))
        typer.echo(json_text.dumps({**found, "files": [str(path) for path in written]}, indent=2))
    elif not quiet:
        for path in written:
            typer.echo(f"wrote {path}")


COMMANDS: Any = typer.main.get_command(app)


def main() -> None:
    """Entry point of the `r2d2net` command."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        _fail(f"{_wrong_usage(error)}; see `{_path(error.ctx)} --help`", 2)
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (R2D2NetError, OSError) as error:
        failed = isinstance(error, (DivergenceError, Interrupted)) or is_full(error)
        _fail(in_options(str(error)), 1 if failed else 2)
    except MemoryError:
        _fail("there is not enough memory: use fewer rows or draws, or a smaller network", 1)
    except (KeyboardInterrupt, Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        _fail("interrupted", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _wrong_usage(error: Any) -> str:
    """What is wrong with an argument: its name, the value and what to give; typer's own words for the rest."""
    message = str(error.message).rstrip(".")
    names = getattr(getattr(error, "param", None), "opts", [])
    words = [word.split("=", 1) if word.startswith("--") else [word] for word in sys.argv[1:]]
    given = [pair for pair in pairwise(chain.from_iterable(words)) if pair[0] in names]
    for pattern, fault in FAULTS if given else ():
        if found := re.search(pattern, message):
            name, value = given[-1]
            return f"{name} {value[:80] or repr('')} {fault.format(*found.groups()).replace(chr(39), '')}"
    return str(error.format_message()).rstrip(".")


def _path(context: Any) -> str:
    """The command that a context of click belongs to, as the user typed it."""
    return "r2d2net" if context is None or context.parent is None else f"{_path(context.parent)} {context.info_name}"


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk is behind an error: no argument is wrong then."""
    return error is not None and (getattr(error, "errno", None) in FULL or is_full(error.__cause__))


def in_options(message: str) -> str:
    """A message of the library in the words of the command line: keywords of its functions as options.

    >>> in_options("patience=3 needs validation data: give validation=0.1, say")
    '--patience 3 needs validation data: give --validation 0.1, say'
    """
    options = {option.removeprefix("--").replace("-", "_"): option for option in _options(COMMANDS)}
    # a word of its own, such as batch_size=10 or prior='auto', and no part of a path
    keyword = re.compile(rf"(?<![^\s(])({'|'.join(options)})=('[^']*'|[^\s:;,)]+)")
    return keyword.sub(lambda found: f"{options[found[1]]} {found[2].strip(chr(39))}", message)


def _options(command: Any) -> Iterator[str]:
    """The long options of a command and of those below it."""
    yield from (name for one in command.params for name in one.opts if name.startswith("--"))
    for below in getattr(command, "commands", {}).values():
        yield from _options(below)


def _fail(message: str, code: int) -> NoReturn:
    """One line on standard error, whatever letters are in it."""
    line = " ".join(message.split()).encode("utf-8", "backslashreplace").decode()
    typer.echo(f"error: {line}", err=True)
    sys.exit(code)
