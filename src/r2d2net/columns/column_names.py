"""What names of columns tell: which one was meant, and whether they are data, in a file without a line of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

FIX = "put a line of names before it"


def meant(name: str, names: Sequence[str]) -> str:
    """Return a question after the name that was likely meant, "" if there is none.

    Args:
        name: The name that was given.
        names: The names that there are.

    >>> meant("Price", ["area", "price"]), meant("pirce", ["area", "price"]), meant("cost", ["area", "price"])
    ("; did you mean 'price'?", "; did you mean 'price'?", '')
    """
    by_fold = {known.strip().casefold(): known for known in names}
    near = get_close_matches(name.strip().casefold(), by_fold, n=1, cutoff=0.75)
    return f"; did you mean {by_fold[near[0]]!r}?" if near else ""


def are_data(names: Sequence[str]) -> bool:
    """Return whether most names of columns are numbers, so that a file has no line of names.

    Args:
        names: The names of the columns.

    >>> are_data(["5.1", "3,5", "setosa"]), are_data(["year", "2019", "name"])
    (True, False)
    """
    numeric = [name for name in names if re.fullmatch(r"[+-]?(?:\d[\d.,]*|\.\d+)(?:[eE][+-]?\d+)?", name)]
    return len(numeric) > len(names) / 2
