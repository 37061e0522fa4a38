"""Small files in the formats of the public sets, made from seeded random bytes; the check that bad ones are refused."""

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from r2d2net.errors import DataError


def bytes_of(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def mnist(folder: Path, n: int = 6, suffix: str = ".gz") -> tuple[np.ndarray, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    x, y = bytes_of(n, 28, 28), np.arange(n, dtype=np.uint8)
    pack = gzip.compress if suffix else bytes
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte{suffix}").write_bytes(pack(idx(x)))
        (folder / f"{part}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(y)))
    return x, y


def old_pickle(content: object) -> bytes:
    """A pickle as numpy 1 on Python 2 wrote it: protocol 2, numpy.core, text for bytes."""
    return pickle.dumps(content, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def zipped(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def unpacked(folder: Path, members: dict[str, bytes]) -> None:
    for name, content in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def picture(array: np.ndarray, kind: str = "png") -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


def mosaic(images: np.ndarray, columns: int) -> np.ndarray:
    """Square images as tiles of one picture, row by row."""
    side, rows = images.shape[1], -(-len(images) // columns)
    canvas = np.zeros((rows * side, columns * side, 3), np.uint8)
    for k, image in enumerate(images):
        row, column = divmod(k, columns)
        canvas[row * side : (row + 1) * side, column * side : (column + 1) * side] = image
    return canvas


def catalogue(root: Path, text: str) -> Path:
    """The catalogue file of a data folder."""
    path = root / "r2d2net-data.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(call: Callable[[], object], *words: str) -> str:
    """Demand a `DataError` of one line that has these words."""
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message
    return message
