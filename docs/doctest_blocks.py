"""An extension of griffe: examples in docstrings become blocks of code, wherever in the docstring they stand.

Markdown takes a line that begins with ``>>>`` for a quotation.
"""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*", flags=re.MULTILINE)  # up to the next empty line


class DoctestBlocks(Extension):
    """Fences the doctests of every docstring."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with a fence around each example."""
    return EXAMPLE.sub(lambda m: f"{m['indent']}```pycon\n{m[0]}\n{m['indent']}```", text)
