"""A run in one file: tensors in safetensors form, everything else as JSON in its header, a digest over every byte.

A file is written under a temporary name, synced and renamed, so that at any time either the old file or the new one is
there in full. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from io import BytesIO
from mmap import ACCESS_READ
from mmap import mmap as map_file
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError
from safetensors.torch import load, load_file, save
from torch import Tensor

from r2d2net.errors import CheckpointError
from r2d2net.files import replace_when_written
from r2d2net.saved_json import open_regular, parse_json

FORMAT = 1
MARK = b'"sha256":"'  # precedes the digest, which is that of the file with zeros in the digest's place
ZEROS = "0" * 64
MOST_HEADER = 100_000_000  # safetensors' own limit, in bytes
PARTIAL = (".*.partial", ".*.staged")  # names of files that are not finished
FEW = 1 << 16  # largest number of elements of a tensor that is copied even where the file is mapped


def write(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write a run, complete or not at all.

    Args:
        path: File to write; its folder is made where it is missing.
        tensors: Tensors by name.
        header: Everything else, as JSON can hold it.

    Raises:
        CheckpointError: If the file cannot be written.
    """
    content = encoded(tensors, header)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_when_written(path) as partial, open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"could not be written: {error}", value=path) from error


def encoded(tensors: dict[str, Tensor], header: dict[str, Any]) -> bytearray:
    """Return the bytes of the file of a run.

    Args:
        tensors: Tensors by name.
        header: Everything else, as JSON can hold it.
    """
    stored = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, **header})
    content = bytearray(save(stored, metadata={"r2d2net": text, "sha256": ZEROS}))
    start = content.index(MARK) + len(MARK)
    content[start : start + 64] = hashlib.sha256(content).hexdigest().encode()
    return content


def read(path: Path, *, mmap: bool = False) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a run.

    Args:
        path: File that `write` has written.
        mmap: Leave large tensors in the file: they are views of it, read page by page as they are used.

    Returns:
        The tensors by name, and the header.

    Raises:
        CheckpointError: If the file is missing, truncated, altered or not a saved run.
    """
    with open_regular(path) as file:
        return read_open(file, path, mmap=mmap)


def read_open(
    file: BinaryIO, path: Path, *, mmap: bool = False, checked: bool = False
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a run from an open file.

    Args:
        file: The open file.
        path: Its path.
        mmap: As in `read`.
        checked: Whether every byte of it was compared with a digest already.

    Returns:
        The tensors by name, and the header.

    Raises:
        CheckpointError: As in `read`.
    """
    try:
        file.seek(0)
        if mmap and os.fstat(file.fileno()).st_size:  # a file of no bytes cannot be mapped
            if not checked:
                with map_file(file.fileno(), 0, access=ACCESS_READ) as content:
                    _require_whole_file(path, content)
            header = _header(path, file.read(8), file)
            tensors = load_file(path)  # safetensors maps the file too
            if not os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                raise CheckpointError("was replaced while it was read", value=path, fix="load it again")
            return {k: t if t.numel() > FEW else t.clone() for k, t in tensors.items()}, header
        whole = file.read()
        if not checked:
            _require_whole_file(path, whole)
        header = _header(path, whole[:8], BytesIO(whole[8 : 8 + MOST_HEADER]))
        # Cloned into torch's own, aligned memory: matrix products of unaligned memory may round otherwise.
        return {name: tensor.clone() for name, tensor in load(whole).items()}, header
    except OSError as error:
        raise CheckpointError(f"could not be read: {error.strerror}", value=path) from error
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"holds no tensors that can be read ({reason})", value=path) from error


def _require_whole_file(path: Path, content: bytes | map_file) -> None:
    start = content.find(MARK, 0, 8 + MOST_HEADER) + len(MARK)
    with memoryview(content) as view:
        digest = hashlib.sha256(view[:start])
        digest.update(ZEROS.encode())
        digest.update(view[start + 64 :])
        written = bytes(view[start : start + 64])
    if start < len(MARK) or written != digest.hexdigest().encode():
        raise CheckpointError("is truncated, altered or not a saved run: its digest does not match", value=path)


def _header(path: Path, size: bytes, rest: BinaryIO) -> dict[str, Any]:
    length = int.from_bytes(size, "little")
    if len(size) < 8 or length > MOST_HEADER:
        raise CheckpointError(f"has a header of {length:,} bytes, at most {MOST_HEADER:,} are read", value=path)
    described = parse_json(rest.read(length), path, {"__metadata__": {"r2d2net": str}})
    header = parse_json(described["__metadata__"]["r2d2net"], path)
    if header.get("format") != FORMAT:
        problem = f"has format {header.get('format')!r:.20}, this version of r2d2net reads {FORMAT}"
        raise CheckpointError(problem, value=path)
    return header


def remove_partial(folder: Path) -> None:
    """Remove the files that processes killed while writing have left in a folder.

    Args:
        folder: Folder of a run, to which nobody else writes.
    """
    for pattern in PARTIAL:
        for partial in folder.glob(pattern):
            if partial.is_file():
                partial.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename in it survives a power failure; Windows has no such call and needs none.

    Args:
        folder: The folder.
    """
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
