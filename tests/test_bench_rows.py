"""Tables of the speed benchmarks: every figure is shown, and what is beyond its limit is named."""

import io

from rich.console import Console

from bench_rows import Row, missed, table_of

ROWS = [
    Row("training step", "MLP", "plain", 1.0, "of plain", 0.0057),
    Row("training step", "MLP", "R2D2 by SVGI, native", 1.3245, "of plain", 0.0074, 1.4),
    Row("training step", "LeNet", "R2D2 by SVGI, native", 1.0612, "of plain", 0.0183, 1.05),
]


def test_tables_show_every_figure_once():
    file = io.StringIO()
    Console(file=file, width=110).print(table_of(ROWS))
    lines = [line.split("│")[1:-1] for line in file.getvalue().splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["MLP", "plain", "1", "of plain", "5.7", ""],
        ["", "R2D2 by SVGI, native", "1.32", "of plain", "7.4", "1.4"],
        ["LeNet", "R2D2 by SVGI, native", "1.06", "of plain", "18.3", "1.05 (missed)"],
    ]


def test_what_is_missed_is_named():
    assert missed(ROWS) == "missed: training step, LeNet, R2D2 by SVGI, native: 1.06 of plain, limit 1.05"
    assert missed(ROWS[:2]) == "all 1 figures with a limit are within it"
