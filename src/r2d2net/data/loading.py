"""`load`: a data set by name, from the root given or named by `R2D2NET_DATA`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, overload

from r2d2net.data.cache import cached
from r2d2net.data.catalogue import CATALOGUE
from r2d2net.data.image_set import ImageSet
from r2d2net.data.source import Entry, Place
from r2d2net.data.table import Table
from r2d2net.errors import DataError, ParameterError

Images = Literal[
    "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "omniglot", "tiny-imagenet", "diabetic-retinopathy"
]
Tables = Literal["boston", "energy", "kin8nm", "naval", "wine", "yacht", "diabetes", "leukemia", "prostate"]

VARIABLE = "R2D2NET_DATA"


@overload
def load(name: Images, root: str | Path | None = None, split: str | None = None) -> ImageSet: ...
@overload
def load(name: Tables, root: str | Path | None = None, split: str | None = None) -> Table: ...
@overload
def load(name: str, root: str | Path | None = None, split: str | None = None) -> ImageSet | Table: ...
def load(name: str, root: str | Path | None = None, split: str | None = None) -> ImageSet | Table:
    """Load a data set.

    Args:
        name: Such as "mnist" or "boston"; `r2d2net data list` shows all.
        root: The folder that holds the sets' folders; by default the environment variable R2D2NET_DATA.
        split: Such as "train" or "test"; by default the set's first. Tables carry their splits, so they take none.

    >>> load("diabetes").x.shape
    torch.Size([442, 10])
    """
    entry = known(name)
    part = split_of(entry, split)
    if entry.bundled and root is None and not os.environ.get(VARIABLE):
        return read(entry, Place(entry.bundled, Path()), part)
    return read(entry, find(entry, data_root(root), part), part)


def known(name: str) -> Entry:
    """The catalogue's entry."""
    if name not in CATALOGUE:
        raise ParameterError(f"name={name!r} is no data set known here: use one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def data_root(root: str | Path | None, exists: bool = True) -> Path:
    """The folder that holds the sets, from the argument or the environment."""
    given = root if root is not None else os.environ.get(VARIABLE)
    if not given:
        raise ParameterError(f"root=None and {VARIABLE} is not set: name the folder that holds the data sets")
    folder = Path(given).expanduser()
    if exists and not folder.is_dir():
        raise ParameterError(f"root={folder} is not a folder: name the folder that holds the data sets")
    return folder


def split_of(entry: Entry, split: str | None) -> str:
    """The split's own name."""
    name = entry.splits[0] if split is None else (entry.aliases or {}).get(split, split)
    if name not in entry.splits:
        raise ParameterError(f"split={split!r} is none of {entry.name}: use one of {', '.join(entry.splits)}")
    return name


def find(entry: Entry, root: Path, split: str) -> Place:
    """Where a split lies; a `DataError` says what to put where if it does not."""
    for place in places(entry, root):
        if split in place.source.files and all(p.exists() for p in place.source.paths(place.folder, split)):
            return place
    wanted = next(source for source in entry.sources if split in source.files)
    folder = root / entry.folders[0]
    missing = " and ".join(file for file in wanted.files[split] if not (folder / file).exists())
    get = f", or run `r2d2net data fetch {entry.name}`" if entry.fetchable(split) else " (it cannot be fetched)"
    raise DataError(f"{entry.name} ({split}) is not in {root}: put {missing} into {folder}{get}")


def places(entry: Entry, root: Path) -> list[Place]:
    """Everywhere a set may lie, the preferred places first."""
    return [Place(source, root / folder) for folder in entry.folders for source in entry.sources]


def read(entry: Entry, place: Place, split: str, use_cache: bool = True) -> ImageSet | Table:
    """Read a split from its place, through the cache unless reading is quick."""

    def build() -> ImageSet:
        made = place.source.read(place.folder, split)
        assert isinstance(made, ImageSet)
        return made

    if place.source.quick or not use_cache:
        return place.source.read(place.folder, split)
    return cached(f"{entry.name}-{split}", place.source.paths(place.folder, split), build)
