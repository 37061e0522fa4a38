"""A progress bar with what matters, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Report(Protocol):
    """Called after every epoch with the numbers of its history entry."""

    def __call__(self, entry: dict[str, float]) -> None: ...


@contextmanager
def progress(epochs: int, done: int, *, verbose: bool) -> Iterator[Report]:
    """A bar over epochs; silent unless ``verbose`` and standard error is a terminal."""
    if not (verbose and sys.stderr.isatty()):
        yield lambda entry: None
        return
    columns = (
        TextColumn("fit"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("fit", total=epochs, completed=done, note="")

        def report(entry: dict[str, float]) -> None:
            note = "  ".join(f"{name} {value:.4g}" for name, value in entry.items() if name != "epoch")
            bar.update(task, advance=1, note=note)

        yield report
