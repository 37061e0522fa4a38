"""A report as a list of sections, rendered as Markdown or as one HTML page that needs no other file."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from PIL import Image

from r2d2net.files import replace_when_written
from r2d2net.report.markdown_text import escaped, pipe_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130
LONGEST = 150  # characters of a file name


class Text(NamedTuple):
    """Markdown; HTML in it is shown as text, not interpreted."""

    markdown: str


class Cell(NamedTuple):
    """One cell of a comparison: a value, a reference value, and a verdict, which is also the CSS class of the cell."""

    value: str
    reference: str = ""
    verdict: str = ""


class Comparison(NamedTuple):
    """A table of values beside reference values.

    Attributes:
        headings: The names of the columns.
        rows: The name of each row and its cells; None is an empty cell.
        reference_name: What the reference values are called on an HTML page.
    """

    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]
    reference_name: str = "reference"


class Drawing(NamedTuple):
    """A figure: its caption, its file name and its PNG file."""

    caption: str
    name: str
    png: bytes

    @property
    def address(self) -> str:
        """The PNG file as a data URL."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


Block = Text | Comparison | Drawing


class Section(NamedTuple):
    """A part of a report under a heading, which may be ""."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """The id of the section on an HTML page."""
        return slug(self.title)


class Document(NamedTuple):
    """A report: its title and its sections."""

    title: str
    sections: Sequence[Section]

    @property
    def drawings(self) -> list[Drawing]:
        """All figures of the report."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Drawing)]


def drawing(caption: str, figure: Figure, name: str | None = None) -> Drawing:
    """Render a figure as PNG, with the same bytes for the same figure.

    Args:
        caption: The caption of the figure.
        figure: The figure.
        name: A text from which the file name is made; None for the caption.

    Returns:
        The figure as a block of a report.
    """
    drawn, written = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    # a palette of 256 colours is enough for drawings and makes a third of the size
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return Drawing(caption, f"{slug(name or caption)}.png", written.getvalue())


def to_markdown(document: Document, figures: str = "figures") -> str:
    """Render a report as Markdown.

    Args:
        document: The report.
        figures: The folder of the figures, to which the Markdown links.

    Returns:
        The Markdown text.
    """
    parts = [f"# {escaped(document.title)}\n"]
    for section in document.sections:
        if section.title:
            parts.append(f"## {escaped(section.title)}\n")
        parts += [_markdown(block, figures) for block in section.blocks]
    return "\n".join(parts)


def _markdown(block: Block, figures: str) -> str:
    match block:
        case Text(text):
            return text.rstrip("\n") + "\n"
        case Comparison(headings, rows):
            return pipe_table(["row", *headings], [[name, *map(_cell_text, cells)] for name, cells in rows])
        case Drawing(caption, name, _):
            return f"![{escaped(caption)}]({figures}/{name})\n"


def _cell_text(cell: Cell | None) -> str:
    if cell is None:
        return ""
    reference = f" ({cell.reference})" if cell.reference else ""
    return f"{cell.value}{reference}{', ' if cell.verdict else ''}{cell.verdict}"


def to_html(document: Document) -> str:
    """Render a report as one HTML page that contains its figures and loads nothing.

    Args:
        document: The report.

    Returns:
        The HTML text.
    """
    return _template().render(document=document, kind=lambda block: type(block).__name__.lower())


@cache
def _template() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    converter = MarkdownIt("js-default").disable("image")
    # the converter escapes HTML in the text, so all markup that it returns is its own
    environment.filters["from_markdown"] = lambda text: Markup(_scrolling(converter.render(text)))
    return environment.from_string(files("r2d2net.report").joinpath("page.html").read_text(encoding="utf-8"))


def _scrolling(html: str) -> str:
    return html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")


def slug(text: str) -> str:
    """Turn a text into a file name of lower-case letters, digits and hyphens.

    >>> slug("Test MSE, scenario S1 (log)")
    'test-mse-scenario-s1-log'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST].rstrip("-")


def write_drawings(document: Document, folder: Path) -> list[Path]:
    """Write the figures of a report as PNG files.

    Args:
        document: The report.
        folder: The folder for the files, which is made if there are figures.

    Returns:
        The files.
    """
    if document.drawings:
        folder.mkdir(exist_ok=True)
    paths = [folder / figure.name for figure in document.drawings]
    for path, figure in zip(paths, document.drawings, strict=True):
        with replace_when_written(path) as partial:
            partial.write_bytes(figure.png)
    return paths
