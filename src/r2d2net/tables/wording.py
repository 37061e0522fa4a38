"""Words with numbers."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number and what it counts.

    >>> counted(1, "row"), counted(2000, "row"), counted(0, "category", "categories")
    ('1 row', '2,000 rows', '0 categories')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
