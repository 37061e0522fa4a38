"""What a data set of the catalogue is: names, the ways it may lie on disk, where its originals are fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from r2d2net.data.image_set import ImageSet
from r2d2net.data.table import Table

ALL = "all"  # the split of a set that has no published one


@dataclass(frozen=True)
class Source:
    """One way a set may lie in a folder.

    Attributes:
        files: Files or folders needed, by split.
        read: The reader, called with the folder and the split.
        rows: How many rows each split has; absent where that is not known.
        quick: Reading is fast enough without a cache.
    """

    files: Mapping[str, tuple[str, ...]]
    read: Callable[[Path, str], ImageSet | Table]
    rows: Mapping[str, int]
    quick: bool = False

    def paths(self, folder: Path, split: str) -> list[Path]:
        """The split's files, as paths."""
        return [folder / file for file in self.files[split]]


class Remote(NamedTuple):
    """A public original: its name under the set's folder, its address, its checksum as "md5:..." or "sha256:..."."""

    file: str
    url: str
    checksum: str


@dataclass(frozen=True)
class Entry:
    """A data set.

    Attributes:
        name: What `load` calls it.
        folders: Folders under the root where it may lie; the first is where it is fetched to.
        sources: The ways it may lie there; the first is the one that error messages ask for.
        splits: Its splits, the default one first; more names for one split map to it in ``aliases``.
        shape: (channels, height, width) of an image, or (inputs,) of a table's row; None if that depends on the files.
        classes: Number of classes; 0 for a regression.
        remotes: What `fetch` downloads.
        note: A word for people.
    """

    name: str
    folders: tuple[str, ...]
    sources: tuple[Source, ...]
    splits: tuple[str, ...]
    shape: tuple[int, ...] | None
    classes: int
    remotes: tuple[Remote, ...] = ()
    aliases: Mapping[str, str] | None = None
    note: str = ""

    def fetchable(self, split: str) -> bool:
        """Whether `fetch` gets this split."""
        fetched = {remote.file for remote in self.remotes}
        return any(fetched.issuperset(source.files[split]) for source in self.sources if source.files.get(split))

    @property
    def bundled(self) -> Source | None:
        """The source that needs no files, if there is one."""
        return next((source for source in self.sources if not source.files.get(self.splits[0], (None,))), None)


class Place(NamedTuple):
    """Where a split was found."""

    source: Source
    folder: Path
