"""Charts of a page as SVG files of their own, for slides and papers.

A page's charts take their colours from its style sheet, by variables that only browsers know, and their names and keys
from the text around them. A file has both inside, in a light set of colours and plain style rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from r2d2net.files import write_text
from r2d2net.report.run_charts import Panel
from r2d2net.report.svg_charts import WIDTH, clipped

SCALE = 2  # pixels for a unit of a chart
LINE = 18  # height of the title, and of the key
KEY = 130  # width of an entry of the key
COLOURS = {"c0": "#0072b2", "c1": "#c77800", "bad": "#d55e00", "grey": "#9aa3ad"}
RULES = """
svg { font-family: system-ui, "Segoe UI", sans-serif; font-size: 11px; } .paper { fill: #fff; }
text { fill: #56606b; } .label { fill: #1c2127; } .title { fill: #1c2127; font-size: 13px; font-weight: 600; }
.tick { text-anchor: middle; } .tick.end { text-anchor: end; } .level { text-anchor: end; }
.grid { stroke: #e8ebef; } .ideal { stroke: #9aa3ad; stroke-dasharray: 4 3; } .whisker { stroke: #1c2127; }
.range { stroke: #0072b2; stroke-width: 1.5; opacity: .3; } .chance { stroke: #9aa3ad; stroke-width: 5; opacity: .4; }
.line { fill: none; stroke-width: 2; } .band { opacity: .17; }
.heat { fill: #0072b2; stroke: #dfe3e8; } .heat.wrong { fill: #d55e00; }
.h0 { fill-opacity: .04; } .h1 { fill-opacity: .2; } .h2 { fill-opacity: .4; } .h3 { fill-opacity: .65; }
.h4 { fill-opacity: .9; } .count { fill: #1c2127; } .count.on-dark { fill: #fff; }
"""
OF_COLOUR = ".dot.{0}, .band.{0}, .bar.{0}, .key.{0} {{ fill: {1}; }} .line.{0} {{ stroke: {1}; }}\n"
START = re.compile(r'^<svg viewBox="0 0 \d+ (\d+)"')
TIPS = re.compile(r' data-(?:tip|key)="[^"]*"')
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_file(panel: Panel) -> str:
    """Render the chart of a panel as the text of an SVG file.

    Args:
        panel: The panel; its content is a chart of `svg_charts`.

    Returns:
        The text.
    """
    chart = str(panel.content)
    found = START.match(chart)
    assert found is not None, f"no chart: {chart[:60]}"
    above = LINE * (2 if panel.key else 1)
    height = int(found[1]) + above
    start = f'<svg xmlns="http://www.w3.org/2000/svg" width="{SCALE * WIDTH}" height="{SCALE * height}" '
    start += f'viewBox="0 {-above} {WIDTH} {height}"'
    style = RULES + "".join(OF_COLOUR.format(name, colour) for name, colour in COLOURS.items())
    inside = [
        Markup("<style>{}</style>").format(Markup(style)),
        Markup('<rect class="paper" y="{}" width="{}" height="{}"/>').format(-above, WIDTH, height),
        Markup('<text class="title" x="4" y="{}">{}</text>').format(13 - above, clipped(panel.title, 0.8 * WIDTH)),
    ]
    for place, (colour, name) in enumerate(panel.key):
        entry = '<circle class="key {}" cx="{}" cy="-9" r="4"/><text x="{}" y="-5">{}</text>'
        inside.append(Markup(entry).format(colour, 10 + KEY * place, 18 + KEY * place, name))
    head, end = chart[: chart.index(">") + 1], chart[chart.index(">") + 1 :]
    text = start + head.removeprefix(found[0]) + "".join(inside) + TIPS.sub("", end) + "\n"
    return NOT_IN_XML.sub(" ", text)


def write_charts(charts: Mapping[str, Panel], folder: Path) -> list[Path]:
    """Write charts into a folder, which is made.

    Args:
        charts: Panels by the names of their files, without an ending.
        folder: The folder.

    Returns:
        The files.
    """
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}.svg" for name in charts]
    for path, panel in zip(paths, charts.values(), strict=True):
        write_text(path, as_file(panel))
    return paths
