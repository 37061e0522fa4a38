"""What `r2d2net explain` shows: a table for each row in the terminal, or a page with a chart for each row."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from r2d2net.errors import ParameterError
from r2d2net.files import replace_when_written
from r2d2net.tables.terminal_output import screen

if TYPE_CHECKING:
    from r2d2net.report.run_charts import Panel

LONG = re.compile(r"[+-]?\d*\.\d{5,}([eE][+-]?\d+)?")  # a number with more decimals than a person reads
MOST_SHOWN, MOST_DRAWN = 8, 12  # inputs of a row in the terminal and on the page; the others are added up


def require_page(out: Path) -> None:
    """Refuse a name under which no page can be written.

    Args:
        out: The file to write.

    Raises:
        ParameterError: It is a folder, lies in none, or does not end in .html.
    """
    fix = "give the name of an HTML file"
    if out.is_dir() or not Path(os.path.realpath(out)).parent.is_dir():
        what = "is a folder" if out.is_dir() else "lies in a folder that is not there"
        raise ParameterError(what, argument="out", value=out, fix=fix)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"ends in {out.suffix or 'nothing'}", argument="out", value=out, fix=fix)


def shortened(entry: dict[str, Any], most: int = MOST_SHOWN) -> tuple[list[dict[str, Any]], float | None]:
    """Return the first contributions of a row and the sum of the others, None where there are none.

    Args:
        entry: The explanation of a row.
        most: How many contributions to return.
    """
    parts = entry["contributions"]
    if len(parts) <= most:
        return parts, None
    return parts[: most - 1], sum(part["contribution"] for part in parts[most - 1 :])


def brief(cell: str | None) -> str | None:
    """Write a number of many decimals with six digits, and leave other cells as they are.

    Args:
        cell: The text of a cell; None of inputs that are several columns.

    >>> brief("0.0380759064334241"), brief("12.5"), brief("20240131"), brief("v1.00001.2")
    ('0.0380759', '12.5', '20240131', 'v1.00001.2')
    """
    return f"{float(cell):.6g}" if cell is not None and LONG.fullmatch(cell) else cell


def heading(explanation: dict[str, Any], entry: dict[str, Any]) -> str:
    """Say what is predicted for a row, and what on average.

    Args:
        explanation: What `explain_file` returned.
        entry: The explanation of the row.

    Returns:
        A line.
    """
    write = writer(entry)
    what = f"P({explanation['target']} = {entry['class']})" if "class" in entry else explanation["target"]
    said = f"{write(entry['prediction'])} ({write(entry['low'])} to {write(entry['high'])})"
    unlike = "; the row is unlike the training rows" if entry["unlike"] else ""
    return f"row {entry['row']}: {what} {said}, {write(entry['average'])} on average{unlike}"


def writer(entry: dict[str, Any], *, signed: bool = False) -> Any:
    """Return a function that writes numbers as a row's prediction needs: as percentages for classes."""
    from r2d2net.report.run_page import format_number

    def write(value: float) -> str:
        text = f"{value:.1%}" if "class" in entry else format_number(value)
        return f"+{text}" if signed and value >= 0 else text

    return write


def _scale(explanation: dict[str, Any]) -> str:
    """Say in what contributions are measured."""
    return explanation["scale"] if explanation["scale"].startswith("units") else "percentage points"


def show_explanation(explanation: dict[str, Any]) -> None:
    """Print a table for each row: inputs, their values, what they contribute, with a bar.

    Args:
        explanation: What `explain_file` returned.
    """
    for entry in explanation["rows"]:
        write = writer(entry, signed=True)
        table = Table(title=Text(heading(explanation, entry)), title_justify="left")
        table.add_column("input")
        table.add_column("value")
        table.add_column(f"moves it by ({_scale(explanation)})", justify="right")
        table.add_column(f"{explanation['level']:.0%} interval", justify="right")
        table.add_column("")
        parts, rest = shortened(entry)
        largest = max((abs(part["contribution"]) for part in parts), default=0.0) or 1.0
        for part in parts:
            size = part["contribution"]
            bar = Text("█" * round(14 * abs(size) / largest) or "▏", style="green" if size >= 0 else "red")
            ends = f"{write(part['low'])} to {write(part['high'])}"
            table.add_row(Text(part["input"]), Text(brief(part["value"]) or ""), write(size), ends, bar)
        if rest is not None:
            count = len(entry["contributions"]) - len(parts)
            table.add_row(Text(f"{count} more inputs"), "", write(rest), "", "")
        screen().print(table)


def write_explanation(out: Path, explanation: dict[str, Any], notes: list[str]) -> None:
    """Write a page with a chart for each row.

    Args:
        out: The file to write.
        explanation: What `explain_file` returned.
        notes: What the user should know.
    """
    from markupsafe import Markup

    from r2d2net.report.interactive_page import Fold, Page, from_markdown, render
    from r2d2net.report.markdown_text import escaped

    how = (
        "Bars are Shapley values: what an input changes on its way from the average row to this one, on average over "
        f"the orders in which inputs change, in {escaped(_scale(explanation))}. Lines are {explanation['level']:.0%} "
        "intervals over the posterior, and so is the interval of the prediction: a single observation varies more, as "
        "`r2d2net predict` says. The bars of a row add up to its prediction minus the average. Inputs that tell nearly "
        "the same share what they tell.\n"
    )
    said = Markup("").join(from_markdown(f"- {escaped(note)}\n") for note in notes)
    page = Page(
        title=f"Predictions of {explanation['target']} in {Path(explanation['data']).name}, explained",
        verdict="Which inputs moved each prediction away from the average",
        warning="",
        facts=f"Run {explanation['run']}.",
        tiles=[],
        panels=[_panel(explanation, entry) for entry in explanation["rows"]],
        folds=[Fold("How to read this", parts=[from_markdown(how), said])],
    )
    with replace_when_written(out) as partial:
        partial.write_text(render(page), encoding="utf-8")


def _panel(explanation: dict[str, Any], entry: dict[str, Any]) -> Panel:
    """Draw the contributions to one row's prediction."""
    from r2d2net.report.run_charts import Panel
    from r2d2net.report.svg_charts import Axis, Chart, clipped

    write = writer(entry, signed=True)
    parts, rest = shortened(entry, MOST_DRAWN)
    bars = [(part["input"], brief(part["value"]), part["contribution"], part["low"], part["high"]) for part in parts]
    if rest is not None:
        bars.append((f"{len(entry['contributions']) - len(parts)} more inputs", None, rest, rest, rest))
    bars.reverse()
    low, high = min(0.0, *(bar[3] for bar in bars)), max(0.0, *(bar[4] for bar in bars))
    room = 0.05 * (high - low) or 1.0
    chart = Chart(
        Axis("change of the prediction", low - room, high + room, percent="class" in entry),
        Axis("", -0.6, len(bars) - 0.4),
        heading(explanation, entry),
        height=78 + 19 * len(bars),
        left=150,
        levels=[name if cell is None else f"{clipped(name, 76)} = {clipped(cell, 40)}" for name, cell, *_ in bars],
    )
    chart.segment((0, -0.6), (0, len(bars) - 0.4), "ideal")
    for place, (name, cell, value, least, most) in enumerate(bars):
        tip = f"{name}{'' if cell is None else f' = {cell}'}\n{write(value)}"
        tip += f" ({write(least)} to {write(most)})" if least < most else ""
        chart.box(0, value, place - 0.32, place + 0.32, "bar " + ("c0" if value >= 0 else "bad"), tip)
        if least < most:
            chart.segment((least, place), (most, place), "whisker")
    first, _, words = heading(explanation, entry).partition(": ")
    return Panel(first, chart.html(), words)
