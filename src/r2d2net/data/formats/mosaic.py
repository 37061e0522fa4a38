"""Mosaics: pictures of equal square tiles, row by row, each tile an image; the labels are in an .npz file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from r2d2net.data.formats.npz import open_npz
from r2d2net.data.formats.pictures import decode
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet, channels_first


def read_mosaics(
    pictures: Sequence[Path], labels_file: Path, key: str, side: int, classes: tuple[str, ...]
) -> ImageSet:
    """Read the tiles of several pictures as one set of colour images.

    All pictures but the last hold equally many images, ceil(n / pictures); tiles that are left over are ignored.

    Args:
        pictures: The mosaics, in the order of the labels.
        labels_file: The .npz file.
        key: The name of the labels (n,) in it.
        side: Height and width of a tile.
        classes: The name of each label.
    """
    with open_npz(labels_file, "an .npz of labels") as content:
        labels = content[key]
        if labels.ndim != 1:
            raise damaged(labels_file, "an .npz of labels", f"{key} has the shape {labels.shape}")
    each = -(-len(labels) // len(pictures))
    parts = []
    for k, path in enumerate(pictures):
        with reading(path, "a mosaic"):
            picture = path.read_bytes()
        tiles = _tiles(decode(picture, path, channels=3), path, side)
        count = max(0, min(each, len(labels) - k * each))
        if len(tiles) < count:
            raise damaged(path, "a mosaic", f"{len(tiles)} tiles where {count} images are expected")
        parts.append(tiles[:count])
    with reading(labels_file, "an .npz of labels"):
        return channels_first(np.concatenate(parts), labels, classes)


def _tiles(mosaic: np.ndarray, path: Path, side: int) -> np.ndarray:
    rows, columns = mosaic.shape[0] // side, mosaic.shape[1] // side
    if mosaic.shape[:2] != (rows * side, columns * side):
        raise damaged(path, "a mosaic", f"{mosaic.shape[0]}x{mosaic.shape[1]} is no multiple of {side}")
    grid = mosaic.reshape(rows, side, columns, side, 3).transpose(0, 2, 1, 3, 4)
    return grid.reshape(-1, side, side, 3)
