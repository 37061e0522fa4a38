"""The commands `r2d2net data list | verify | fetch`."""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from r2d2net.errors import DataError, R2D2NetError
from r2d2net.options import AnySeed, Json, Quiet

if TYPE_CHECKING:
    from r2d2net.data.entry import Entry

app = typer.Typer(help="List, check and download data sets.")
COLUMNS = ("name", "split", "rows", "shape", "classes", "where")

Root = Annotated[Path | None, typer.Option(help="Folder that holds the data sets; by default R2D2NET_DATA.")]
Catalogue = Annotated[
    Path | None,
    typer.Option(
        help="File that describes re-packed copies in the folder, besides the folder's own r2d2net-data.toml; by "
        "default R2D2NET_DATA_CATALOGUE."
    ),
]
Names = Annotated[
    list[str] | None, typer.Argument(help="Data sets; by default all that are there.", show_default=False)
]


@contextmanager
def _names_of_the_line() -> Iterator[None]:
    """Let errors call the name of a data set as this command does."""
    try:
        yield
    except R2D2NetError as error:
        error.rename({"name": "names"})
        raise


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    """List, check and download data sets."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_sets(
    root: Root = None, catalogue: Catalogue = None, seed: AnySeed = 0, json: Json = False, quiet: Quiet = False
) -> None:
    """Show the data sets known by name and where they are stored, for example `r2d2net data list --root data`."""
    from rich.console import Console
    from rich.table import Table as Sheet
    from rich.text import Text

    from r2d2net.data.known_sets import known_sets
    from r2d2net.data.loading import VARIABLE, data_root

    anywhere = root is not None or catalogue is not None or os.environ.get(VARIABLE)
    folder = data_root(root) if anywhere else None
    entries = known_sets(folder, catalogue).values()
    if json:
        rows = [_row(entry, folder, split) for entry in entries for split in entry.splits]
        typer.echo(json_text.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows], indent=2))
    if json or quiet:
        return
    title = f"data sets in {folder}" if folder else f"data sets; none is there: give --root or set {VARIABLE}"
    sheet = Sheet(title=Text(title))
    for column in COLUMNS:
        sheet.add_column(column, no_wrap=column != "where", overflow="fold")
    for entry in entries:
        for split in entry.splits:
            sheet.add_row(*_row(entry, folder, split))
    console = Console()
    if not console.is_terminal:
        console.width = 120  # a pipe has no width; folded cells cannot be searched
    console.print(sheet)
    for entry in entries:
        if entry.note:
            console.print(f"{entry.name}: {entry.note}", highlight=False, markup=False)


@app.command()
def verify(
    names: Names = None,
    root: Root = None,
    catalogue: Catalogue = None,
    seed: AnySeed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check checksums, counts, shapes and labels, for example `r2d2net data verify mnist --root data`.

    Exit code 1 if something is damaged.
    """
    from r2d2net.data.known_sets import known_sets
    from r2d2net.data.loading import data_root, find, known
    from r2d2net.data.verifying import verify as check

    folder = data_root(root)
    damaged = 0
    results: dict[str, str | None] = {}
    with _names_of_the_line():
        entries = [known(name, folder, catalogue) for name in names or known_sets(folder, catalogue)]
    for entry in entries:
        findings = list(check(entry, folder))
        if names and not findings:
            find(entry, folder, entry.splits[0])  # says what to put where
        for finding in findings:
            results[finding.what] = finding.fault or None
            damaged += bool(finding.fault)
            if finding.fault or not (json or quiet):
                line = f"damaged: {finding.what}: {finding.fault}" if finding.fault else f"intact: {finding.what}"
                typer.echo(line, err=json or quiet)
    if json:
        typer.echo(json_text.dumps({"checks": len(results), "damaged": damaged, "faults": results}, indent=2))
    elif not quiet:
        typer.echo(f"{len(results)} checks, {damaged} damaged")
    if damaged:
        raise typer.Exit(1)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets to download.")],
    root: Root = None,
    seed: AnySeed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Download public originals over HTTPS and check them against pinned checksums.

    For example `r2d2net data fetch mnist fashion-mnist --root data`.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from r2d2net.data.fetching import fetch as download
    from r2d2net.data.loading import data_root, known

    with _names_of_the_line():
        for name in names:
            known(name, root)
    folder = data_root(root, exists=False)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    paths: list[Path] = []
    console = Console(stderr=True)
    with Progress(*columns, transient=True, console=console, disable=quiet or not console.is_terminal) as bars:

        def progress(file: str):  # type: ignore[no-untyped-def]
            task = bars.add_task(file, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        with _names_of_the_line():
            for name in names:
                paths += download(name, folder, progress)
    if json:
        typer.echo(json_text.dumps({"verified": [str(path) for path in paths]}, indent=2))
    elif not quiet:
        for path in paths:
            typer.echo(f"verified {path}")


def _row(entry: Entry, root: Path | None, split: str) -> tuple[str, ...]:
    from r2d2net.data.loading import find

    source = entry.bundled or entry.preferred(split)
    where = "bundled" if entry.bundled else "to fetch" if entry.fetchable(split) else "-"
    if root is not None:
        with suppress(DataError):
            source, folder = find(entry, root, split)
            if source in entry.copies:
                folder = source.paths(folder, split)[-1].parent
            if source.files[split]:
                where = folder.relative_to(root).as_posix()
    rows = source.rows.get(split)
    shape = "x".join(map(str, entry.shape)) if entry.shape else "-"
    return entry.name, split, f"{rows:,}" if rows else "-", shape, str(entry.classes or "-"), where
