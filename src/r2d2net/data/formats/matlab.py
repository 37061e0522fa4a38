"""Dense arrays of numbers from MATLAB files of version 5 (MATLAB 5 to 7, not 7.3, which is HDF5).

    file      128 bytes of header, the last four being version and byte order, then elements
    element   type and number of bytes, 4 bytes each, then the bytes, padded to a multiple of 8; or, for up to 4 bytes,
              number and type in 2 bytes each, then the bytes
    array     an element of type 14: flags (with the class), sizes, name, values, each an element in turn
    packed    an element of type 15: a zlib stream that holds one element

scipy.io.loadmat uses a type from the file as an index without a check (still in scipy 1.17): one wrong byte is a
segmentation fault, which no caller can turn into an error. Here every count and type is checked; whatever is not an
array of numbers is skipped.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from r2d2net.data.formats.members import LARGEST
from r2d2net.data.formats.read_errors import damaged, reading

KIND = "a MATLAB file of version 5"
HEADER = 128
MATRIX, COMPRESSED = 14, 15
VALUES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # by type
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
COMPLEX = 0x800


class Element(NamedTuple):
    """An element of a file: its type and its bytes."""

    kind: int
    content: memoryview


def read_mat(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Read the arrays of these names that a file holds, in MATLAB's shapes."""
    with reading(path, KIND):
        content = memoryview(path.read_bytes())
        order = {b"IM": "<", b"MI": ">"}.get(bytes(content[HEADER - 2 : HEADER]))
        if order is None:
            raise damaged(path, KIND, "its header has no byte order")
        arrays = {}
        for element in _elements(content[HEADER:], order):
            if element.kind == COMPRESSED:
                element = next(_elements(memoryview(_unpacked(element.content)), order))
            if element.kind == MATRIX:
                named = _array(element.content, order, names)
                if named is not None:
                    arrays[named[0]] = named[1]
        return arrays


def _elements(content: memoryview, order: str) -> Iterator[Element]:
    while len(content):
        kind, count = struct.unpack_from(f"{order}II", content)
        start, end = 8, 8 + count
        following = end if kind == COMPRESSED else end + -end % 8
        if kind >> 16:  # the short form
            kind, count = kind & 0xFFFF, kind >> 16
            if count > 4:
                raise ValueError(f"a short element of {count} bytes")
            start, end, following = 4, 4 + count, 8
        if end > len(content):
            raise ValueError(f"an element of {count} bytes where {len(content) - start} are left")
        yield Element(kind, content[start:end])
        content = content[following:]


def _unpacked(content: memoryview) -> bytes:
    stream = zlib.decompressobj()
    unpacked = stream.decompress(content, LARGEST)
    if not stream.eof:  # a flush checks the sum at the end
        raise ValueError("a packed element ends early, or is too large")
    return unpacked


def _array(content: memoryview, order: str, names: Collection[str]) -> tuple[str, np.ndarray] | None:
    parts = _elements(content, order)
    flags, sizes, name = (next(parts).content for _ in range(3))
    (flag,) = struct.unpack_from(f"{order}I", flags)
    title, dtype = bytes(name).decode("latin1"), CLASSES.get(flag & 0xFF)
    if title not in names or dtype is None:
        return None
    if flag & COMPLEX:
        raise ValueError(f"{title} has complex values")
    shape = tuple(np.frombuffer(sizes, f"{order}i4").tolist())
    values = next(parts)
    if values.kind not in VALUES:
        raise ValueError(f"{title} has values of type {values.kind}")
    # whole numbers are stored in the least type that holds them, whatever their class
    stored = np.frombuffer(values.content, order + VALUES[values.kind])
    if min(shape, default=0) < 0 or stored.size != int(np.prod(shape, dtype=object)):
        raise ValueError(f"{title} has {stored.size} values, not {'x'.join(map(str, shape))}")
    return title, stored.astype(dtype, copy=False).reshape(shape, order="F")
