"""IDX, the format of MNIST: two zero bytes, a type byte, the number of dimensions, their sizes, the values.

All integers are big-endian. Only unsigned bytes (type 8) occur in the sets read here. Files may be gzipped.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from r2d2net.data.formats.members import read_gzip
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet, channels_first

KIND = "an IDX file of bytes"


def read_idx(path: str | Path, dimensions: int) -> np.ndarray:
    """Read the uint8 array of a file with that many dimensions."""
    path = Path(path)
    with reading(path, KIND):
        content = read_gzip(path)
        magic = int(np.frombuffer(content, ">u4", 1)[0])
        if magic != 0x800 + dimensions:
            raise damaged(path, KIND, f"its first four bytes are {magic:#010x}, not {0x800 + dimensions:#010x}")
        shape = np.frombuffer(content, ">u4", dimensions, offset=4).tolist()
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)
        if len(values) != prod(shape):
            raise damaged(path, KIND, f"{len(values)} values where {'x'.join(map(str, shape))} are promised")
        return values.reshape(shape)


def read_idx_pair(images: Path, labels: Path, classes: tuple[str, ...]) -> ImageSet:
    """Read a file of images (n, height, width) and the file of their labels (n,)."""
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if len(x) != len(y):
        raise damaged(labels, KIND, f"{len(y)} labels for the {len(x)} images of {images.name}")
    with reading(labels, "a file of labels"):
        if len(y) and y.max() >= len(classes):
            raise damaged(labels, "a file of labels", f"label {y.max()}, classes go to {len(classes) - 1}")
        return channels_first(x, y, classes)
