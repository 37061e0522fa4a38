"""One HTML page with charts, tables and folded parts that loads nothing and needs no network.

The template `interactive_page.html` holds the style, for light and dark screens, telephones and paper, and a script
that shows texts under the pointer, sorts tables and unfolds all parts for printing. Strings are escaped by the template
or by `r2d2net.report.svg_charts`; the script gets no data but the attributes of marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from r2d2net.report.run_charts import Panel


class Tile(NamedTuple):
    """A number in large letters: its value, what it is, and a value to compare it with."""

    value: str
    name: str
    beside: str = ""


class Fold(NamedTuple):
    """A folded part of a page.

    Attributes:
        title: Its heading.
        panels: Charts beside each other.
        parts: Tables and texts below them, as markup.
        is_open: Whether it is unfolded at first.
    """

    title: str
    panels: Sequence[Panel] = ()
    parts: Sequence[Markup] = ()
    is_open: bool = False


class Page(NamedTuple):
    """A page.

    Attributes:
        title: Its heading.
        verdict: A sentence that says what came of it.
        warning: What is wrong, or "".
        facts: A line of facts under the verdict.
        tiles: The main numbers.
        panels: Charts of the first screen.
        folds: All else.
    """

    title: str
    verdict: str
    warning: str
    facts: str
    tiles: Sequence[Tile]
    panels: Sequence[Panel]
    folds: Sequence[Fold]


def render(page: Page) -> str:
    """Render a page as HTML.

    Args:
        page: The page.

    Returns:
        The text of the file.
    """
    return str(_template().render(page=page))


def from_markdown(text: str) -> Markup:
    """Convert Markdown whose strings are escaped (see `markdown_text`) to markup.

    Args:
        text: The Markdown.

    Returns:
        The markup.
    """
    html = _markdown().render(text)
    wide = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return Markup(wide)  # the converter escapes HTML in the text, so all markup is its own


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("js-default").disable("image")


@cache
def _template() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = files("r2d2net.report").joinpath("interactive_page.html").read_text(encoding="utf-8")
    return environment.from_string(text)
