"""What a grid is doing, as it goes on: a live table on a terminal, a line for each cell elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table

from r2d2net.paper.experiments.pool import Ended, Started

MOST_LINES = 10


@dataclass
class Watched:
    """How a grid stands."""

    total: int
    workers: int
    done: int = 0  # ended in this run
    skipped: int = 0  # were there before
    failed: dict[str, str] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0  # of the cells that ended

    def see(self, event: Started | Ended) -> None:
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
        """What the cells not yet ended will take if they are like those that have; None before the first."""
        left = self.total - self.skipped - self.done
        if left == 0:
            return 0.0
        if self.done == 0:
            return None
        spent = sum(time.monotonic() - since for since in self.running.values())
        mean = self.seconds / self.done
        return max(0.0, left * mean - spent) / min(self.workers, left)

    def table(self) -> Table:
        left = self.seconds_left
        when = "" if left is None else f", about {duration(left)} left"
        share = f"{self.skipped + self.done - len(self.failed)} of {self.total} cells done"
        table = Table(title=f"{share}{when}", title_justify="left")
        table.add_column("cell")
        table.add_column("state")
        for key, since in self.running.items():
            table.add_row(key, f"running for {duration(time.monotonic() - since)}")
        for key, error in list(self.failed.items())[-MOST_LINES:]:
            table.add_row(key, f"failed: {error}")
        return table


def watch(events: Iterable[Started | Ended], watched: Watched, console: Console, *, quiet: bool = False) -> Watched:
    """Go through the events and show how the grid stands."""
    if quiet or not console.is_terminal:
        for event in events:
            watched.see(event)
            if not quiet and isinstance(event, Ended):
                how = "done" if event.error is None else f"failed: {event.error}"
                count = f"[{watched.skipped + watched.done}/{watched.total}]"
                console.print(f"{count} {event.key} {how} ({duration(event.seconds)})", markup=False, highlight=False)
        return watched
    with Live(get_renderable=watched.table, console=console, refresh_per_second=2):
        for event in events:
            watched.see(event)
    return watched


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(5.2), duration(125), duration(7300)
    ('5.2 s', '2 min 5 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60} min"
