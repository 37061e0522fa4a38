"""The layouts that a catalogue file may name as its `kind`, with the settings of each and its reader.

mosaic          pictures of equal tiles, row by row, and the labels in an .npz file
image-npz       one .npz file of images and labels
image-folder    a folder or zip with one subfolder of pictures for each class
tiny-imagenet   a folder or zip laid out as TinyImageNet
uci             a folder or zip with data.txt and index files
table-npz       one .npz file of inputs and targets, in one part or as training and test part
table-csv       one CSV file, possibly with a column that marks the training rows
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.data.formats.image_folder import image_folder, read_tiny_imagenet
from r2d2net.data.formats.mosaic import read_mosaics
from r2d2net.data.formats.npz import read_image_npz, read_table_npz
from r2d2net.data.formats.split_table import read_split_table
from r2d2net.data.formats.uci_table import read_uci
from r2d2net.data.image_set import ImageSet
from r2d2net.data.table import Table

LARGEST_SIDE = 4096  # pixels
REQUIRED = object()


@dataclass(frozen=True)
class Setting:
    """A setting of a kind.

    Attributes:
        expected: What a value must be, for messages.
        accepts: Whether a value is that.
        default: The value where the file gives none.
        path: Whether it is a path below the data folder.
    """

    expected: str
    accepts: Callable[[object], bool]
    default: Any = REQUIRED
    path: bool = False

    @property
    def required(self) -> bool:
        """Return whether a file must give a value."""
        return self.default is REQUIRED


class Kind(NamedTuple):
    """A layout of files.

    Attributes:
        images: Whether it holds images; a table otherwise.
        settings: Its settings by name.
        read: The reader, called with the paths of the files, the settings and the split.
        several: Whether it may consist of several files.
    """

    images: bool
    settings: Mapping[str, Setting]
    read: Callable[[Sequence[Path], Mapping[str, Any], str], ImageSet | Table]
    several: bool = False


def is_text(value: object) -> bool:
    """Return whether a value is a text in one line without control characters."""
    return isinstance(value, str) and value != "" and value.isprintable()


def is_names(value: object) -> bool:
    """Return whether a value is a list of one or more texts."""
    return isinstance(value, list) and len(value) > 0 and all(map(is_text, value))


def is_whole(least: int, most: int | None = None) -> Callable[[object], bool]:
    """Return a check for whole numbers from ``least`` to ``most``."""
    return lambda value: type(value) is int and least <= value and (most is None or value <= most)


def _one_or_two(value: object) -> bool:
    return is_names(value) and isinstance(value, list) and len(value) <= 2


def _key(content: str, default: Any = REQUIRED) -> Setting:
    return Setting(f"the name of the array of {content} in the .npz file", is_text, default)


CLASSES = Setting("a list with the name of each class", is_names)
SIDE = f"a whole number from 1 to {LARGEST_SIDE}"
SIZE = is_whole(1, LARGEST_SIDE)

KINDS: dict[str, Kind] = {
    "mosaic": Kind(
        True,
        {
            "labels": Setting("a path inside the data folder, of an .npz file", is_text, path=True),
            "key": _key("labels"),
            "tile": Setting(SIDE, SIZE, 32),
            "classes": CLASSES,
        },
        lambda files, values, split: read_mosaics(
            files, values["labels"], values["key"], values["tile"], tuple(values["classes"])
        ),
        several=True,
    ),
    "image-npz": Kind(
        True,
        {"images": _key("images", "images"), "labels": _key("labels", "labels"), "classes": CLASSES},
        lambda files, values, split: read_image_npz(
            files[0], tuple(values["classes"]), values["images"], values["labels"]
        ),
    ),
    "image-folder": Kind(
        True,
        {
            "size": Setting(SIDE, SIZE, None),
            "channels": Setting("1 (grey) or 3 (colour)", lambda value: type(value) is int and value in (1, 3), 3),
        },
        lambda files, values, split: image_folder(files[0], size=values["size"], channels=values["channels"]),
    ),
    "tiny-imagenet": Kind(True, {}, lambda files, values, split: read_tiny_imagenet(files[0], split)),
    "uci": Kind(
        False,
        {"inputs": Setting("a list with the name of each input", is_names, None)},
        lambda files, values, split: read_uci(files[0], values["inputs"]),
    ),
    "table-npz": Kind(
        False,
        {
            "x": Setting('a list with one array of inputs, or two: ["X_train", "X_test"]', _one_or_two),
            "y": Setting('a list with one array of targets, or two: ["y_train", "y_test"]', _one_or_two),
            "names": _key("the inputs' names", None),
            "prefix": Setting("the text that numbered names of inputs begin with", is_text, "x"),
            "classes": Setting(CLASSES.expected, is_names, ()),
        },
        lambda files, values, split: read_table_npz(
            files[0], values["x"], values["y"], values["names"], values["prefix"], tuple(values["classes"])
        ),
    ),
    "table-csv": Kind(
        False,
        {
            "target": Setting("the name of the column to predict", is_text),
            "train": Setting("the name of the column that marks training rows", is_text, None),
        },
        lambda files, values, split: read_split_table(files[0], values["target"], values["train"]),
    ),
}  # fmt: skip
