"""Tables and axes for notebooks: small HTML tables with escaped cells, and matplotlib imported when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from r2d2net.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 10


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table as HTML that suits light and dark notebooks.

    Args:
        caption: The line above the table.
        header: The headings of the columns.
        rows: The cells of each row; numbers are written with four digits.

    Returns:
        The markup, with all strings escaped.

    >>> html_table("two <rows>", ["a"], [[1.23456]])
    '<p>two &lt;rows&gt;</p><table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1.235</td></tr></tbody></table>'
    """
    heads = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<p>{escape(caption)}</p><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _text(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def axes_for(ax: Axes | None, width: float = 7.0, height: float = 4.0) -> Axes:
    """Return axes to draw on: the given ones, or those of a new figure.

    Args:
        ax: Axes of the user, or None.
        width: Width of a new figure in inches.
        height: Its height.

    Returns:
        The axes.

    Raises:
        ParameterError: If matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ParameterError("plots need matplotlib", fix="install it by `pip install matplotlib`") from error
    axes: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    axes.spines[["top", "right"]].set_visible(False)
    return axes
