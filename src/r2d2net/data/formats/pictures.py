"""Pictures (PNG, JPEG and whatever else Pillow reads) as uint8 arrays of one shape."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.errors import Argument, DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff")


def is_picture(name: str) -> bool:
    """Return whether a file name is that of a picture; hidden files are none."""
    return name.lower().endswith(SUFFIXES) and not name.rsplit("/", 1)[-1].startswith(".")


def decode(content: bytes, path: Path, channels: int, size: int | None = None) -> np.ndarray:
    """Decode a picture to (height, width) or (height, width, 3), upright and stretched to size x size."""
    from PIL import Image, ImageOps

    with reading(path, "a picture"), Image.open(io.BytesIO(content)) as picture:
        # parsing EXIF costs as much as decoding a small picture, so it is done only where there is any
        upright = ImageOps.exif_transpose(picture) if "exif" in picture.info else picture
        if upright.mode.startswith("I"):  # 16 bits a pixel: Pillow's conversion would cut them off at 255
            upright = Image.fromarray(_eight_bits(np.asarray(upright), path))
        elif upright.mode == "F":
            raise damaged(path, "a picture of 8 or 16 bits", "its pixels are floating-point numbers")
        converted = upright.convert("RGB" if channels == 3 else "L")
        if size is not None and converted.size != (size, size):
            converted = converted.resize((size, size), Image.Resampling.BILINEAR)  # antialiased
        return np.asarray(converted)


def _eight_bits(pixels: np.ndarray, path: Path) -> np.ndarray:
    values = pixels.astype(np.int64)
    if values.size and not 0 <= values.min() <= values.max() <= 65_535:
        raise damaged(path, "a picture of 8 or 16 bits", f"pixels run from {values.min()} to {values.max()}")
    return np.rint(values / 257).astype(np.uint8)


def stacked(pictures: Iterable[np.ndarray], path: Path) -> np.ndarray:
    """Stack pictures, which must have the same shape, in one array."""
    arrays = list(pictures)
    shapes = sorted({array.shape[:2] for array in arrays})
    if len(shapes) > 1:
        sizes = f"{shapes[0][0]}x{shapes[0][1]} to {shapes[-1][0]}x{shapes[-1][1]}"
        fix = ("give ", Argument("size"), ", to which all are stretched")
        raise DataError(f"holds pictures of several sizes ({sizes})", value=path, fix=fix)
    if not arrays:
        raise DataError("holds no pictures", value=path, fix=f"put pictures ({', '.join(SUFFIXES[:3])}...) there")
    return np.stack(arrays)
