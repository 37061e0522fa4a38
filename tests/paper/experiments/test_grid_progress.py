"""What is said of a grid as it goes on."""

import io

from rich.console import Console

from r2d2net.paper.experiments.grid_progress import Progress, show_progress
from r2d2net.paper.experiments.runner import Ended, Started

EVENTS = [Started("a"), Started("b"), Ended("a", None, 10.0), Started("c"), Ended("b", "ValueError: no", 30.0)]


def test_time_left_is_that_of_cells_like_those_that_ended():
    progress = Progress(total=6, slots=2, skipped=1)
    assert progress.seconds_left is None
    for event in EVENTS:
        progress.update(event)
    # 3 of 6 left, 20 seconds each, on two processes; c has just begun
    assert 29.9 < progress.seconds_left <= 30.0
    assert progress.failed == {"b": "ValueError: no"}
    assert list(progress.running) == ["c"]
    progress.update(Ended("c", None, 20.0))
    progress.update(Ended("d", None, 20.0))
    progress.update(Ended("e", None, 20.0))
    assert progress.seconds_left == 0.0


def test_lines_where_there_is_no_terminal():
    out = io.StringIO()
    show_progress(EVENTS, Progress(total=6, slots=2, skipped=1), Console(file=out, width=100))
    assert out.getvalue().splitlines() == ["[2/6] a done (10.0 s)", "[3/6] b failed: ValueError: no (30.0 s)"]
    out = io.StringIO()
    show_progress(EVENTS, Progress(total=6, slots=2), Console(file=out), quiet=True)
    assert out.getvalue() == ""


def test_a_table_on_a_terminal():
    out = io.StringIO()
    show_progress(EVENTS, Progress(total=6, slots=2, skipped=1), Console(file=out, width=100, force_terminal=True))
    assert "failed: ValueError: no" in out.getvalue()
    assert "2 of 6 cells done" in out.getvalue()
