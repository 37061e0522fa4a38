"""Phrases of notes and errors: counts with their nouns, lists of names."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with the noun that it counts.

    Args:
        count: The number.
        noun: The noun in the singular.
        plural: The noun in the plural; by default with an s.

    >>> counted(1, "row"), counted(2000, "row"), counted(0, "category", "categories")
    ('1 row', '2,000 rows', '0 categories')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def quoted_names(names: Sequence[str], most: int = 8) -> str:
    """Return names for a sentence, the first few of many.

    Args:
        names: The names.
        most: How many to name.

    >>> quoted_names(["a", "b"]), quoted_names(list("abc"), most=2)
    ("'a', 'b'", "'a', 'b' and 1 more")
    """
    first = ", ".join(repr(name) for name in names[:most])
    return first + (f" and {len(names) - most} more" if len(names) > most else "")


def listed(words: Sequence[str], last: str = "and") -> str:
    """Join words by commas and a last word.

    Args:
        words: The words.
        last: What stands before the last of them.

    >>> listed(["trend", "season", "weekday"]), listed(["trend"])
    ('trend, season and weekday', 'trend')
    """
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
