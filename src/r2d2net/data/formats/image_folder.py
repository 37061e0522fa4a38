"""Folders or zips of pictures: any folder with one subfolder for each class, Omniglot, TinyImageNet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from r2d2net.data.formats.members import last_part, member_names, read_members
from r2d2net.data.formats.pictures import decode, is_picture, stacked
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet, channels_first
from r2d2net.errors import DataError, require


def image_folder(path: str | Path, *, size: int | None = None, channels: int = 3) -> ImageSet:
    """Read a folder or zip with one subfolder for each class; classes and pictures are in sorted order.

    Args:
        path: The folder or zip. Subfolders of a class's folder belong to the class.
        size: Height and width to which every picture is stretched; None if all have the same size already.
        channels: 3 for colour, 1 for grey.

    Returns:
        The pictures, labelled by the names of the subfolders.

    Raises:
        DataError: If there are no pictures, one is damaged, or their sizes differ.
    """
    path = Path(path)
    require(channels in (1, 3), "channels", channels, "use 1 (grey) or 3 (colour)")
    if not path.exists():
        fix = "give a folder or zip with one subfolder of pictures for each class"
        raise DataError("does not exist", value=path, fix=fix)
    labels = {name: name.split("/")[0] for name in member_names(path) if is_picture(name) and "/" in name}
    return read_labelled(path, labels, tuple(sorted(set(labels.values()))), channels, size)


def read_labelled(
    path: Path, labels: Mapping[str, str], classes: tuple[str, ...], channels: int, size: int | None = None
) -> ImageSet:
    """Read the pictures that ``labels`` names (name inside ``path`` to class), in sorted order of their names."""
    class_number = {name: k for k, name in enumerate(classes)}
    members = read_members(path, labels.__contains__)
    x = stacked((decode(content, path / name, channels, size) for name, content in members), path)
    y = np.array([class_number[labels[name]] for name in sorted(labels)])
    if len(x) != len(y):
        raise damaged(path, "a complete set", f"{len(y)} labels, {len(x)} pictures")
    return channels_first(x, y, classes)


def read_omniglot(path: Path) -> ImageSet:
    """Read Omniglot's `images_background` or `images_evaluation`: alphabet/character/picture, black on white."""
    labels = {name: "/".join(name.split("/")[-3:-1]) for name in member_names(path) if is_picture(name)}
    return read_labelled(path, labels, tuple(sorted(set(labels.values()))), channels=1)


def read_tiny_imagenet(path: Path, split: str) -> ImageSet:
    """Read TinyImageNet: `train/WNID/images/*.JPEG`, or `val/images/*.JPEG` with `val_annotations.txt`.

    Classes are the WordNet ids of `wnids.txt`, sorted. Pictures are 64 x 64; grey ones become RGB.
    """
    names = member_names(path)
    texts = dict(read_members(path, lambda name: last_part(name) in ("wnids.txt", "val_annotations.txt")))
    text = {last_part(name): content.decode("utf-8", "replace") for name, content in texts.items()}
    with reading(path, "a TinyImageNet set"):
        classes = tuple(sorted(text["wnids.txt"].split()))
        inside = f"/{split}/"
        pictures = [name for name in names if is_picture(name) and inside in f"/{name}"]
        if split == "val":
            lines = [line.split("\t") for line in text["val_annotations.txt"].splitlines() if line]
            wnid = {line[0]: line[1] for line in lines}
            labels = {name: wnid[last_part(name)] for name in pictures}
        else:
            labels = {name: f"/{name}".split(inside)[1].split("/")[0] for name in pictures}
        unknown = set(labels.values()) - set(classes)
        if unknown:
            raise damaged(path, "a TinyImageNet set", f"class {min(unknown)} is not in wnids.txt")
    return read_labelled(path, labels, classes, channels=3)
