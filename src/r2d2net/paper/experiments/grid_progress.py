"""Progress of a grid, shown as it runs: a live table on a terminal, one line for each cell elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table

from r2d2net.paper.experiments.runner import Ended, Started

MOST_LINES = 10


@dataclass
class Progress:
    """What has happened to the cells of a grid."""

    total: int
    slots: int  # cells at a time
    done: int = 0  # cells that ended in this run
    skipped: int = 0  # cells that had a result before
    failed: dict[str, str] = field(default_factory=dict)  # key -> error
    running: dict[str, float] = field(default_factory=dict)  # key -> start on the monotonic clock
    seconds: float = 0.0  # spent on the cells that ended

    def update(self, event: Started | Ended) -> None:
        """Take an event into account."""
        if isinstance(event, Started):
            self.running[event.key] = time.monotonic()
            return
        self.running.pop(event.key, None)
        self.done += 1
        self.seconds += event.seconds
        if event.error is not None:
            self.failed[event.key] = event.error

    @property
    def seconds_left(self) -> float | None:
        """Time until the end if the remaining cells are like those that ended; None before the first has ended."""
        left = self.total - self.skipped - self.done
        if left == 0:
            return 0.0
        if self.done == 0:
            return None
        spent = sum(time.monotonic() - start for start in self.running.values())
        mean = self.seconds / self.done
        return max(0.0, left * mean - spent) / min(self.slots, left)

    def table(self) -> Table:
        """Return the cells that are running and the last that failed."""
        left = self.seconds_left
        when = "" if left is None else f", about {duration(left)} left"
        share = f"{self.skipped + self.done - len(self.failed)} of {self.total} cells done"
        table = Table(title=f"{share}{when}", title_justify="left")
        table.add_column("cell")
        table.add_column("state")
        for key, start in self.running.items():
            table.add_row(key, f"running for {duration(time.monotonic() - start)}")
        for key, error in list(self.failed.items())[-MOST_LINES:]:
            table.add_row(key, f"failed: {error}")
        return table


def show_progress(
    events: Iterable[Started | Ended], progress: Progress, console: Console, *, quiet: bool = False
) -> Progress:
    """Run a grid by going through its events, and show its progress.

    Args:
        events: The events of a running grid.
        progress: What has happened before; updated by every event.
        console: Where progress is shown.
        quiet: Whether to show nothing.

    Returns:
        The progress in the end.
    """
    if quiet or not console.is_terminal:
        for event in events:
            progress.update(event)
            if not quiet and isinstance(event, Ended):
                outcome = "done" if event.error is None else f"failed: {event.error}"
                count = f"[{progress.skipped + progress.done}/{progress.total}]"
                line = f"{count} {event.key} {outcome} ({duration(event.seconds)})"
                console.print(line, markup=False, highlight=False)
        return progress
    with Live(get_renderable=progress.table, console=console, refresh_per_second=2):
        for event in events:
            progress.update(event)
    return progress


def duration(seconds: float) -> str:
    """Write a duration in units that suit it.

    >>> duration(5.2), duration(125), duration(7300)
    ('5.2 s', '2 min 5 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60} min"
