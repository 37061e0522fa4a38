"""`load`: a data set by name, from the folder given or named by `R2D2NET_DATA`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, overload

from r2d2net.data.cache import cached
from r2d2net.data.entry import Entry, Place
from r2d2net.data.image_set import ImageSet
from r2d2net.data.known_sets import known_sets
from r2d2net.data.table import Table
from r2d2net.errors import DataError, ParameterError, Shown

Images = Literal[
    "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "omniglot", "tiny-imagenet", "diabetic-retinopathy"
]
Tables = Literal["boston", "energy", "kin8nm", "naval", "wine", "yacht", "diabetes", "leukemia", "prostate"]

VARIABLE = "R2D2NET_DATA"
FIX = "name the folder that holds the data sets"


@overload
def load(
    name: Images, root: str | Path | None = None, split: str | None = None, *, catalogue: str | Path | None = None
) -> ImageSet: ...
@overload
def load(
    name: Tables, root: str | Path | None = None, split: str | None = None, *, catalogue: str | Path | None = None
) -> Table: ...
@overload
def load(
    name: str, root: str | Path | None = None, split: str | None = None, *, catalogue: str | Path | None = None
) -> ImageSet | Table: ...
def load(
    name: str, root: str | Path | None = None, split: str | None = None, *, catalogue: str | Path | None = None
) -> ImageSet | Table:
    """Load a data set.

    Args:
        name: The name of the set, such as "mnist" or "boston"; `r2d2net data list` shows all.
        root: The folder that holds the sets' folders; by default the environment variable R2D2NET_DATA.
        split: The name of a split, such as "train" or "test"; by default the set's first. A table carries its splits,
            so it needs none.
        catalogue: A catalogue file that describes re-packed copies in the folder; by default the environment variable
            R2D2NET_DATA_CATALOGUE. The folder's own `r2d2net-data.toml` is read as well.

    Returns:
        An `ImageSet` or a `Table`.

    Raises:
        ParameterError: If the name, the split or the folder does not exist.
        DataError: If the files are missing or damaged, or a catalogue file is not valid.

    >>> load("diabetes").x.shape
    torch.Size([442, 10])
    """
    entry = known(name, root, catalogue)
    part = split_of(entry, split)
    if entry.bundled and root is None and not os.environ.get(VARIABLE):
        return read(entry, Place(entry.bundled, Path()), part)
    return read(entry, find(entry, data_root(root), part), part)


def known(name: str, root: str | Path | None = None, catalogue: str | Path | None = None) -> Entry:
    """Return the description of a data set, with the copies that catalogue files describe."""
    anywhere = root is not None or catalogue is not None or os.environ.get(VARIABLE)
    entries = known_sets(data_root(root, exists=False) if anywhere else None, catalogue)
    if name not in entries:
        fix = f"use one of {', '.join(entries)}"
        raise ParameterError("is no data set known here", argument="name", value=name, fix=fix)
    return entries[name]


def data_root(root: str | Path | None, exists: bool = True) -> Path:
    """Return the folder that holds the data sets, from the argument or the environment variable."""
    given = root if root is not None else os.environ.get(VARIABLE)
    if not given:
        raise ParameterError(f"is not given and {VARIABLE} is not set", argument="root", fix=FIX)
    folder = Path(given).expanduser()
    if exists and not folder.is_dir():
        raise ParameterError("is not a folder", argument="root", value=folder, fix=FIX)
    return folder


def split_of(entry: Entry, split: str | None) -> str:
    """Return a split's own name, given that or an alias; by default that of the first split."""
    name = entry.splits[0] if split is None else entry.aliases.get(split, split)
    if name not in entry.splits:
        fix = f"use one of {', '.join(entry.splits)}"
        raise ParameterError(f"is none of {entry.name}", argument="split", value=split, fix=fix)
    return name


def find(entry: Entry, root: Path, split: str) -> Place:
    """Return where a split is stored; a `DataError` says which files to put where if it is not."""
    for place in places(entry, root):
        if split in place.source.files and all(path.exists() for path in place.source.paths(place.folder, split)):
            return place
    folder = root / entry.folders[0]
    missing = " and ".join(file for file in entry.preferred(split).files[split] if not (folder / file).exists())
    get = f", or run `r2d2net data fetch {entry.name}`" if entry.fetchable(split) else " (it cannot be fetched)"
    fix = f"put {missing} into {folder}{get}"
    raise DataError(f"is not in {root}", value=Shown(f"{entry.name} ({split})"), fix=fix)


def places(entry: Entry, root: Path) -> list[Place]:
    """Return every place that may hold a set: published files first, then re-packed copies, then packages."""
    published = [Place(source, root / folder) for folder in entry.folders for source in entry.sources]
    copies = [Place(source, root) for source in entry.copies]
    return [*published, *copies, *([Place(entry.bundled, root)] if entry.bundled else [])]


def read(entry: Entry, place: Place, split: str, use_cache: bool = True) -> ImageSet | Table:
    """Read a split from its place, through the cache unless reading is quick."""
    source = place.source

    def build() -> ImageSet:
        images = source.read(place.folder, split)
        assert isinstance(images, ImageSet)
        return images

    if source.quick or not use_cache:
        return source.read(place.folder, split)
    return cached(f"{entry.name}-{split}", source.paths(place.folder, split), build, source.settings)
