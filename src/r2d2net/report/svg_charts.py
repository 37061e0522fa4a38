"""Charts as inline SVG: axes, points, lines, bands and bars with texts that appear when the pointer is on them.

A chart is drawn for a width of 360 units, so that its letters have their size on a telephone as in a column of a wide
page. Colours are classes of the page's style, which has a light and a dark set. All texts are escaped here: charts take
plain strings, such as names of columns, whatever is in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH = 360
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 22, 38
LETTER = 7.0  # mean width of a letter of the size used for labels


class Axis(NamedTuple):
    """A scale of a chart.

    Attributes:
        label: What is measured.
        low, high: Its range.
        percent: Whether its ticks are shown as percentages.
    """

    label: str
    low: float
    high: float
    percent: bool = False


def axis_over(label: str, values: Iterable[float], *, margin: float = 0.04) -> Axis:
    """Make an axis over the range of values.

    Args:
        label: What is measured.
        values: The values; those that are not finite do not count.
        margin: Share of the range that is added at both ends.

    Returns:
        The axis.

    >>> axis_over("age", [2.0, 4.0, float("nan")], margin=0.5)
    Axis(label='age', low=1.0, high=5.0, percent=False)
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    room = margin * (high - low) or 0.5 * abs(high) or 0.5
    return Axis(label, low - room, high + room)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two ends.

    >>> ticks(0.3, 9.7)
    [2.0, 4.0, 6.0, 8.0]
    >>> ticks(-1e-3, 2e-3)
    [-0.001, 0.0, 0.001, 0.002]
    """
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) if abs(place * step) < 1e6 else place * step for place in range(first, last + 1)]


def short_number(value: float) -> str:
    """Write a number in at most about six letters.

    >>> [short_number(value) for value in (0.25, 12345, 3.2e6, 2.5e9, 0.00004, -150.0, 0.0, 3e15)]
    ['0.25', '12.3k', '3.2M', '2.5G', '4e-05', '-150', '0', '3e+15']
    """
    size = abs(value)
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if unit <= size < 1e12:
            return f"{value / (1e3 if letter == 'k' else unit):.3g}{letter}"
    return f"{value:.4g}" if size < 1e4 and (size >= 1e-3 or size == 0) else f"{value:.2g}"


def clipped(text: str, width: float) -> str:
    """Cut a text to the letters that fit a width, on one line, with an ellipsis where some are cut.

    >>> clipped("a long name of a column", 60)
    'a long…'
    """
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())
    room = 0.0
    for place, letter in enumerate(plain):
        room += LETTER * (2 if ord(letter) > 0x1100 else 1.65 if letter in "MWmw@%" else 1)
        if room > width:
            return plain[: max(0, place - 1)].rstrip() + "…"
    return plain


class Chart:
    """A chart with two axes, to which marks are added.

    Args:
        x: The horizontal axis.
        y: The vertical axis.
        title: What the chart shows, for those who hear the page.
        height: Its height, in the same units as its width of 360.
        left: Room for the labels of the vertical axis.
        levels: Labels along the vertical axis in place of numbers, from below; at 0, 1, ...
    """

    def __init__(
        self, x: Axis, y: Axis, title: str, *, height: int = 250, left: int = LEFT, levels: Sequence[str] | None = None
    ) -> None:
        self.x, self.y, self.title, self.height, self.left = x, y, title, height, left
        self.levels = levels
        self.marks: list[Markup] = []

    def across(self, value: float) -> float:
        """Return where a value of the horizontal axis lies."""
        share = (value - self.x.low) / ((self.x.high - self.x.low) or 1.0)
        return round(self.left + share * (WIDTH - RIGHT - self.left), 1)

    def up(self, value: float) -> float:
        """Return where a value of the vertical axis lies."""
        share = (value - self.y.low) / ((self.y.high - self.y.low) or 1.0)
        return round(self.height - BOTTOM - share * (self.height - BOTTOM - TOP), 1)

    def dot(self, x: float, y: float, kind: str, tip: str, key: str = "") -> None:
        """Add a point with a text; points of one key light up together."""
        self._add('<circle class="dot {}" cx="{}" cy="{}" r="3"{}/>', kind, self.across(x), self.up(y), mark(tip, key))

    def segment(self, start: tuple[float, float], end: tuple[float, float], kind: str, tip: str = "") -> None:
        """Add a straight line between two points (x, y)."""
        ends = (self.across(start[0]), self.up(start[1]), self.across(end[0]), self.up(end[1]))
        self._add('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"{}/>', kind, *ends, mark(tip))

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """Add a line through points."""
        path = " ".join(f"{self.across(x)},{self.up(y)}" for x, y in zip(xs, ys, strict=True))
        self._add('<polyline class="line {}" points="{}"/>', kind, path)

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], kind: str) -> None:
        """Add the area between two curves."""
        there = [f"{self.across(x)},{self.up(y)}" for x, y in zip(xs, high, strict=True)]
        back = [f"{self.across(x)},{self.up(y)}" for x, y in zip(xs, low, strict=True)]
        self._add('<polygon class="band {}" points="{}"/>', kind, " ".join([*there, *reversed(back)]))

    def box(self, left: float, right: float, low: float, high: float, kind: str, tip: str = "") -> None:
        """Add a rectangle between values of both axes."""
        x, y = sorted((self.across(left), self.across(right))), sorted((self.up(low), self.up(high)))
        size = (round(max(0.5, x[1] - x[0]), 1), round(max(0.5, y[1] - y[0]), 1))
        text = '<rect class="{}" x="{}" y="{}" width="{}" height="{}"{}/>'
        self._add(text, kind, x[0], y[0], *size, mark(tip))

    def note(self, x: float, text: str, width: float) -> None:
        """Add a text below the horizontal axis, cut to a width, at a value of it."""
        shown = clipped(text, width)
        place = (self.across(x), self.height - BOTTOM + 14, mark(text if shown != text else ""))
        self._add('<text class="tick" x="{}" y="{}"{}>{}</text>', *place, shown)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> None:
        """Add a text at values of both axes."""
        place = (self.across(x), self.up(y) + 4)
        self._add('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>', kind, *place, anchor, text)

    def html(self, *, without_x_ticks: bool = False) -> Markup:
        """Return the chart as markup, with or without numbers along the horizontal axis."""
        start = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, self.height, self.title)
        return start + Markup("").join([*self._axes(without_x_ticks), *self.marks]) + Markup("</svg>")

    def _add(self, template: str, *values: object) -> None:
        self.marks.append(Markup(template).format(*values))

    def _axes(self, without_x_ticks: bool) -> list[Markup]:
        right, floor = WIDTH - RIGHT, self.height - BOTTOM
        parts = []
        for value in [] if without_x_ticks else ticks(self.x.low, self.x.high):
            at = self.across(value)
            end = " end" if at > right - 14 else ""
            text = '<line class="grid" x1="{0}" y1="{1}" x2="{0}" y2="{2}"/>'
            text += '<text class="tick{3}" x="{0}" y="{4}">{5}</text>'
            parts.append(Markup(text).format(at, TOP, floor, end, floor + 14, tick_text(value, self.x.percent)))
        if self.levels is not None:
            room = self.left - 8
            for place, level in enumerate(self.levels):
                text = '<text class="level" x="{}" y="{}"{}>{}</text>'
                shown = clipped(level, room)
                tip = mark(level if shown != level else "")
                parts.append(Markup(text).format(self.left - 6, self.up(place) + 4, tip, shown))
        else:
            for value in ticks(self.y.low, self.y.high):
                at = self.up(value)
                text = '<line class="grid" x1="{0}" y1="{1}" x2="{2}" y2="{1}"/>'
                text += '<text class="level" x="{3}" y="{4}">{5}</text>'
                label = tick_text(value, self.y.percent)
                parts.append(Markup(text).format(self.left, at, right, self.left - 6, at + 4, label))
        label = '<text class="label" x="{}" y="{}" text-anchor="{}"{}>{}</text>'
        for name, spot in ((self.y.label, (4, 13, "start")), (self.x.label, (right, self.height - 6, "end"))):
            shown = clipped(name, WIDTH - 24)
            parts.append(Markup(label).format(*spot, mark(name if shown != name else ""), shown))
        return parts


def tick_text(value: float, percent: bool) -> str:
    """Write the label of a tick."""
    return f"{value:.0%}" if percent else short_number(value)


def mark(tip: str, key: str = "") -> Markup:
    """Return the attributes of a mark: the text that appears on it, and the key of marks that light up together."""
    attributes = Markup(' data-tip="{}"').format(tip) if tip else Markup("")
    return attributes + (Markup(' data-key="{}"').format(key) if key else Markup(""))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], keys: Sequence[str] = ()) -> Markup:
    """Write a table whose columns can be sorted; numbers stand at the right.

    Args:
        header: The headings.
        rows: The cells of each row, as plain strings.
        keys: Keys of the rows, by which they light up with marks of charts.

    Returns:
        The markup.
    """
    body = []
    for place, row in enumerate(rows):
        cells = Markup("").join(
            Markup("<td{}>{}</td>").format(Markup(' class="n"') if is_number(cell) else "", cell) for cell in row
        )
        body.append(Markup("<tr{}>{}</tr>").format(mark("", keys[place] if keys else ""), cells))
    heads = Markup("").join(Markup('<th scope="col">{}</th>').format(escape(name)) for name in header)
    start = Markup('<div class="wide"><table><thead><tr>{}</tr></thead><tbody>').format(heads)
    return start + Markup("").join(body) + Markup("</tbody></table></div>")


def is_number(cell: str) -> bool:
    """Return whether a cell begins as a number does.

    >>> is_number("-1,234.5 ± 2"), is_number("12%"), is_number("a 3"), is_number("3-oxide")
    (True, True, False, False)
    """
    first = cell.split(" ")[0].rstrip("%,").replace(",", "").replace("−", "-")
    try:
        float(first)
    except ValueError:
        return False
    return True
