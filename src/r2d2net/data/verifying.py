"""Checks of stored data sets: checksums of their files; counts, shapes and labels of their content.

A file's checksum is compared with the root's own `SHA256SUMS` if that lists it, else with the one of the catalogue file
that describes it, else with the published one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from r2d2net.data.entry import Entry, Place
from r2d2net.data.image_set import ImageSet
from r2d2net.data.loading import find, read
from r2d2net.data.table import Table
from r2d2net.errors import DataError


class Finding(NamedTuple):
    """The result of one check; ``fault`` is empty if nothing is wrong."""

    what: str
    fault: str


def verify(entry: Entry, root: Path) -> Iterator[Finding]:
    """Check the files that have a known checksum, then the content of every stored split.

    Args:
        entry: The data set.
        root: The folder that holds the data sets.

    Yields:
        One `Finding` for each file and each split; none for a set that is not stored.
    """
    sums = read_sums(root)
    pinned = {remote.file: remote.checksum for remote in entry.remotes}
    seen: set[Path] = set()
    for split in entry.splits:
        try:
            place = find(entry, root, split)
        except DataError:
            continue
        intact = True
        for file in _files(place, split):
            if file in seen:
                continue
            seen.add(file)
            name = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
            inside = file.relative_to(place.folder).as_posix()
            expected = sums.get(name) or place.source.checksums.get(inside) or pinned.get(inside)
            if expected is not None:
                fault = _checksum_fault(file, expected)
                intact = intact and not fault
                yield Finding(str(file), fault)
        if intact:
            yield _content(entry, place, split)


def checksum(path: Path, algorithm: str) -> str:
    """Return the hexadecimal checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def read_sums(root: Path) -> dict[str, str]:
    """Read the checksums of the root's `SHA256SUMS` file, by path below the root."""
    path = root / "SHA256SUMS"
    if not path.is_file():
        return {}
    lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {pair[1].lstrip("*").removeprefix("./"): f"sha256:{pair[0]}" for pair in lines if len(pair) == 2}


def _files(place: Place, split: str) -> Iterator[Path]:
    for path in place.source.paths(place.folder, split):
        yield from (sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path])


def _checksum_fault(path: Path, pinned: str) -> str:
    algorithm, _, expected = pinned.partition(":")
    try:
        actual = checksum(path, algorithm)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if actual != expected.lower():
        return f"{algorithm} is {actual}, not {expected}: put an intact copy in its place"
    return ""


def _content(entry: Entry, place: Place, split: str) -> Finding:
    what = f"{entry.name} ({split}) in {place.folder}"
    try:
        data = read(entry, place, split, use_cache=False)
    except DataError as error:
        return Finding(what, str(error))
    shape = tuple(data.images.shape[1:] if isinstance(data, ImageSet) else data.x.shape[1:])
    rows = place.source.rows.get(split)
    if rows is not None and len(data) != rows:
        return Finding(what, f"{len(data)} rows, not {rows}")
    if entry.shape is not None and shape != entry.shape:
        return Finding(what, f"shape {shape}, not {entry.shape}")
    if entry.classes and not _labels_fit(data, entry.classes):
        return Finding(what, f"labels do not fit {entry.classes} classes")
    return Finding(what, "")


def _labels_fit(data: ImageSet | Table, classes: int) -> bool:
    labels = data.labels if isinstance(data, ImageSet) else data.y
    return len(labels) == 0 or bool((labels >= 0).all() & (labels < classes).all())
