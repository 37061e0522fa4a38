"""Pickles of arrays and plain containers, read without running anything that they name.

A pickle may name any function and have it called. This reader knows a few names and has a substitute of its own for
each: arrays are rebuilt from their bytes by `numpy.frombuffer`, numpy's own unpickling is never entered. Any other name
is refused, and so is a state for one of the substitutes, which would change the reader for later files.

The unpickler is the standard library's in Python: in the one in C, five bytes of a file can request 32 GB.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from r2d2net.data.formats.read_errors import FIX, reading
from r2d2net.errors import DataError


def read_pickle(content: bytes, path: Path) -> Any:
    """Return the content of a pickle; ``path`` is the file it was read from, for messages."""
    with reading(path, "a pickle of arrays"):
        try:
            return _finished(_Reader(io.BytesIO(content), encoding="latin1").load(), {})
        except _RefusedError as error:
            problem = f"names {error}, which could run code: only arrays are read"
            raise DataError(problem, value=path, fix=FIX) from error


class _RefusedError(Exception):
    """The pickle uses a name that arrays do not need."""


class _Dtype:
    """The substitute for numpy.dtype: a kind and size such as "u1", then a byte order."""

    def __init__(self, code: str, *_: object) -> None:
        self.dtype = _plain(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = _plain(self.dtype.newbyteorder(state[1]).str)


class _Array:
    """The substitute for numpy.ndarray: its state is (version, shape, dtype, Fortran order, bytes)."""

    value: np.ndarray | None = None

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        self.value = _frombuffer(raw, dtype, shape, "F" if fortran else "C").value


def _frombuffer(raw: Any, dtype: _Dtype, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.value = np.frombuffer(_bytes(raw), dtype.dtype).reshape(shape, order="F" if order == "F" else "C").copy()
    return array


def _scalar(dtype: _Dtype, raw: Any) -> Any:
    return np.frombuffer(_bytes(raw), dtype.dtype)[0].item()


def _bytes(raw: Any, encoding: str = "latin1") -> bytes:
    """Return bytes, which pickles of Python 2 and of old protocols write as text."""
    if encoding not in ("latin1", "latin-1", "bytes"):
        raise _RefusedError(f"the encoding {encoding}")
    return raw.encode("latin1") if isinstance(raw, str) else bytes(raw)


def _no_bytes() -> bytes:
    """Return empty bytes, which old protocols write as a call of ``bytes``; an argument could fill the memory."""
    return b""


def _plain(code: str) -> np.dtype[Any]:
    dtype = np.dtype(str(code))
    if dtype.kind not in "biufSU":
        raise _RefusedError(f"an array of {dtype}")
    return dtype


class _Name:
    """A callable that a name in a pickle stands for; the pickle cannot set its attributes."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise _RefusedError("a state for a function")


NAMES: dict[str, Any] = {
    "ndarray": _Name(_Array),
    "dtype": _Name(_Dtype),
    "_reconstruct": _Name(_Array),
    "_frombuffer": _Name(_frombuffer),
    "scalar": _Name(_scalar),
}
ENCODE, BYTES = _Name(_bytes), _Name(_no_bytes)


class _Reader(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in NAMES:
            return NAMES[name]
        if (module, name) == ("_codecs", "encode"):
            return ENCODE
        if module in ("builtins", "__builtin__") and name == "bytes":
            return BYTES
        raise _RefusedError(f"{module}.{name}")


def _finished(value: Any, done: dict[int, Any]) -> Any:
    """Replace substitutes by their arrays; an object that occurs many times is converted once."""
    if isinstance(value, _Array):
        return value.value
    if not isinstance(value, (dict, list, tuple)):
        return value
    if id(value) not in done:
        if isinstance(value, dict):
            done[id(value)] = {key: _finished(item, done) for key, item in value.items()}
        else:
            done[id(value)] = type(value)(_finished(item, done) for item in value)
    return done[id(value)]
