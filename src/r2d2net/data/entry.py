"""`Entry` describes a data set: its names, the ways it may be stored on disk, the addresses of its originals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from r2d2net.data.image_set import ImageSet
from r2d2net.data.table import Table

ALL = "all"  # the only split of a set without a published one


@dataclass(frozen=True)
class Source:
    """One way a data set may be stored in a folder.

    Attributes:
        files: The files or folders needed for each split, relative to the folder.
        read: The reader, called with the folder and the split.
        rows: The number of rows of each split; a split is absent where that is unknown.
        quick: Whether reading is fast enough without a cache.
        checksums: Expected checksums ("sha256:...") by file, beside those of the published originals.
        settings: A text of whatever besides the files decides what is read; the cache depends on it.
    """

    files: Mapping[str, tuple[str, ...]]
    read: Callable[[Path, str], ImageSet | Table]
    rows: Mapping[str, int]
    quick: bool = False
    checksums: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""

    def paths(self, folder: Path, split: str) -> list[Path]:
        """Return the paths of a split's files."""
        return [folder / file for file in self.files[split]]


class Remote(NamedTuple):
    """A public original: its name in the set's folder, its address, its checksum as "md5:..." or "sha256:..."."""

    file: str
    url: str
    checksum: str


@dataclass(frozen=True)
class Entry:
    """A data set.

    Attributes:
        name: The name that `load` takes.
        folders: Folders below the root that may hold it; the first is the one that `fetch` downloads to.
        sources: The published forms, looked for in each of ``folders``; error messages ask for the first.
        splits: The names of its splits, the default one first.
        shape: (channels, height, width) of an image, or (inputs,) of a table's row; None if the files decide.
        classes: The number of classes; 0 for a regression, or if the files decide.
        remotes: The files that `fetch` downloads.
        aliases: Further names of splits, each with the split it stands for.
        note: A remark shown by `r2d2net data list`.
        copies: Re-packed copies that a catalogue file describes; their files are relative to the root.
        bundled: The source that needs no files, if an installed package carries the set.
    """

    name: str
    folders: tuple[str, ...]
    sources: tuple[Source, ...]
    splits: tuple[str, ...]
    shape: tuple[int, ...] | None
    classes: int
    remotes: tuple[Remote, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    copies: tuple[Source, ...] = ()
    bundled: Source | None = None

    def fetchable(self, split: str) -> bool:
        """Return whether `fetch` downloads this split."""
        fetched = {remote.file for remote in self.remotes}
        return any(fetched.issuperset(source.files[split]) for source in self.sources if source.files.get(split))

    def preferred(self, split: str) -> Source:
        """Return the source of a split that messages ask for: a published one if there is any."""
        sources = (*self.sources, *self.copies, *((self.bundled,) if self.bundled else ()))
        return next(source for source in sources if split in source.files)


class Place(NamedTuple):
    """Where a split was found: the source and the folder that its files are relative to."""

    source: Source
    folder: Path
