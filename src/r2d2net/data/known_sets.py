"""The data sets that `load` knows by name: the public ones, and what catalogue files add to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from r2d2net.data.catalogue_file import Copy, catalogue_files, read_catalogue
from r2d2net.data.entry import Entry
from r2d2net.data.public_images import IMAGES
from r2d2net.data.public_tables import TABLES

PUBLIC: dict[str, Entry] = IMAGES | TABLES


def known_sets(root: Path | None = None, catalogue: str | Path | None = None) -> dict[str, Entry]:
    """Return every data set by name.

    Args:
        root: The folder that holds the data sets; without one only the public sets are known.
        catalogue: A catalogue file beside the root's own one; by default R2D2NET_DATA_CATALOGUE.

    Raises:
        DataError: If a catalogue file is not valid.
    """
    entries = dict(PUBLIC)
    if root is None:
        return entries
    for path in catalogue_files(root, catalogue):
        for copy in read_catalogue(path, root, PUBLIC):
            entries[copy.name] = _with_copy(entries.get(copy.name), copy)
    return entries


def _with_copy(entry: Entry | None, copy: Copy) -> Entry:
    if entry is None:  # a set that only the catalogue file knows
        return Entry(copy.name, ("",), (), (copy.split,), None, copy.classes, note=copy.note, copies=(copy.source,))
    return replace(
        entry,
        splits=tuple(dict.fromkeys((*entry.splits, copy.split))),
        note="; ".join(filter(None, (entry.note, copy.note))),
        copies=(*entry.copies, copy.source),
    )
