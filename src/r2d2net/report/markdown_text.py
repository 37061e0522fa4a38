"""Markdown made of strings from files, in which nothing is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SPECIAL = re.compile(r"([\\`*_\[\]<>|#&!~])")


def escaped(text: str) -> str:
    """Escape a string so that Markdown shows it literally, on one line.

    >>> print(escaped("a|b <i>"))
    a\\|b \\<i\\>
    """
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def pipe_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table as Markdown, with all cells escaped.

    Args:
        header: The headings of the columns.
        rows: The cells of each line.

    Returns:
        The table, ending in a newline.

    >>> print(pipe_table(["row", "A"], [["x", "1|2"]]), end="")
    | row | A |
    |---|---|
    | x | 1\\|2 |
    """
    lines = ["|" + "---|" * len(header)]
    first, *rest = ("| " + " | ".join(escaped(cell) for cell in row) + " |" for row in (header, *rows))
    return "\n".join([first, *lines, *rest]) + "\n"
