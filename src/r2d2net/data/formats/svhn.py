"""SVHN's cropped digits: MATLAB files with X (32, 32, 3, n) and y (n, 1), where the digit 0 is written 10."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from r2d2net.data.formats.matlab import read_mat
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet, channels_first

DIGITS = tuple("0123456789")
KIND = "an SVHN .mat file"


def read_svhn(path: Path) -> ImageSet:
    """Read the digits of a file; the digit 0 gets the label 0."""
    with reading(path, KIND):
        content = read_mat(path, ("X", "y"))
        x, y = content["X"], content["y"].reshape(-1)
        if x.dtype != np.uint8 or x.ndim != 4 or x.shape[2] != 3 or x.shape[3] != len(y):
            raise damaged(path, KIND, f"X {x.dtype} {x.shape} with {len(y)} labels")
        if len(y) and not 0 <= y.min() <= y.max() <= 10:
            raise damaged(path, KIND, f"labels run from {y.min()} to {y.max()}")
        return channels_first(x.transpose(3, 0, 1, 2), y.astype(np.int64) % 10, DIGITS)
