"""What is said of a grid as it goes on."""

import io

from rich.console import Console

from r2d2net.paper.experiments.pool import Ended, Started
from r2d2net.paper.experiments.watching import Watched, watch

EVENTS = [Started("a"), Started("b"), Ended("a", None, 10.0), Started("c"), Ended("b", "ValueError: no", 30.0)]


def test_time_left_is_that_of_cells_like_those_that_ended():
    watched = Watched(total=6, workers=2, skipped=1)
    assert watched.seconds_left is None
    for event in EVENTS:
        watched.see(event)
    # 3 of 6 left, 20 seconds each, on two processes; c has just begun
    assert 29.9 < watched.seconds_left <= 30.0
    assert watched.failed == {"b": "ValueError: no"}
    assert list(watched.running) == ["c"]
    watched.see(Ended("c", None, 20.0))
    watched.see(Ended("d", None, 20.0))
    watched.see(Ended("e", None, 20.0))
    assert watched.seconds_left == 0.0


def test_lines_where_there_is_no_terminal():
    out = io.StringIO()
    watch(EVENTS, Watched(total=6, workers=2, skipped=1), Console(file=out, width=100))
    assert out.getvalue().splitlines() == ["[2/6] a done (10.0 s)", "[3/6] b failed: ValueError: no (30.0 s)"]
    out = io.StringIO()
    watch(EVENTS, Watched(total=6, workers=2), Console(file=out), quiet=True)
    assert out.getvalue() == ""


def test_a_table_on_a_terminal():
    out = io.StringIO()
    watch(EVENTS, Watched(total=6, workers=2, skipped=1), Console(file=out, width=100, force_terminal=True))
    assert "failed: ValueError: no" in out.getvalue()
    assert "2 of 6 cells done" in out.getvalue()
