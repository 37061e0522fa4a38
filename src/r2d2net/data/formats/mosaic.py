"""Sets re-packed as lossless mosaics: one .webp of 32 x 32 tiles in row-major order, labels in a `labels.npz`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from r2d2net.data.formats.npz import open_npz
from r2d2net.data.formats.pictures import decode
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet, channels_first

SIDE = 32


def read_mosaics(folder: Path, files: Sequence[str], key: str, classes: tuple[str, ...]) -> ImageSet:
    """The tiles of the files in order, as many as ``labels.npz`` has labels under ``key``.

    All files but the last hold equally many images, ceil(n / files); what is left of a mosaic's last row is empty.
    """
    path = folder / "labels.npz"
    with open_npz(path, "an .npz of labels") as content:
        labels = content[key]
    each = -(-len(labels) // len(files))
    parts = []
    for k, file in enumerate(files):
        with reading(folder / file, "a mosaic"):
            picture = (folder / file).read_bytes()
        tiles = _tiles(decode(picture, folder / file, channels=3), folder / file)
        count = min(each, len(labels) - k * each)
        if len(tiles) < count:
            raise damaged(folder / file, "a mosaic", f"{len(tiles)} tiles where {count} images are expected")
        parts.append(tiles[:count])
    with reading(path, "an .npz of labels"):
        return channels_first(np.concatenate(parts), labels, classes)


def _tiles(mosaic: np.ndarray, path: Path) -> np.ndarray:
    rows, columns = mosaic.shape[0] // SIDE, mosaic.shape[1] // SIDE
    if mosaic.shape[:2] != (rows * SIDE, columns * SIDE):
        raise damaged(path, "a mosaic", f"{mosaic.shape[0]}x{mosaic.shape[1]} is no multiple of {SIDE}")
    grid = mosaic.reshape(rows, SIDE, columns, SIDE, 3).transpose(0, 2, 1, 3, 4)
    return grid.reshape(-1, SIDE, SIDE, 3)
