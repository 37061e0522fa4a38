"""A progress bar with the figures of the last epoch, on a terminal only."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

_BEFORE = random.getstate()  # rich draws from Python's generator when it is imported, which is the user's

from rich.console import Console  # noqa: E402
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: E402

random.setstate(_BEFORE)


class Report(Protocol):
    """A function called after every epoch with its history entry."""

    def __call__(self, entry: dict[str, float]) -> None: ...


def terminal() -> Console:
    """Return a console on standard error that knows whether it is a terminal."""
    return Console(stderr=True, force_terminal=sys.stderr.isatty())


@contextmanager
def progress(epochs: int, done: int) -> Iterator[Report]:
    """Show a bar over epochs on standard error, which is a terminal."""
    console = terminal()
    columns = (
        TextColumn("fit"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("fit", total=epochs, completed=done, note="")

        known: dict[str, float] = {}

        def report(entry: dict[str, float]) -> None:
            known.update(entry)  # not every epoch has them all
            note = "  ".join(f"{name} {value:.4g}" for name, value in known.items() if name != "epoch")
            bar.update(task, advance=1, note=note)

        yield report


def lines(*, verbose: bool) -> Callable[[str], None]:
    """Return a function that prints a line; it is silent unless ``verbose`` and standard error is a terminal."""
    console = terminal()
    if not (verbose and console.is_terminal):
        return lambda line: None
    return lambda line: console.print(line, markup=False, highlight=False)
