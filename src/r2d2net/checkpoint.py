"""A run in one file: tensors in safetensors form, everything else as JSON in its header, a digest over every byte.

A file is written under a temporary name, synced and renamed, so that at any time either the old file or the new one is
there in full. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from mmap import ACCESS_READ
from mmap import mmap as map_file
from pathlib import Path
from typing import Any

from safetensors.torch import load, load_file, save
from torch import Tensor

from r2d2net.errors import CheckpointError
from r2d2net.files import replace_when_written

FORMAT = 1
MARK = b'"sha256":"'  # precedes the digest, which is that of the file with zeros in the digest's place
ZEROS = "0" * 64
MOST_HEADER = 100_000_000  # safetensors' own limit, in bytes
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
    stored = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, **header})
    content = bytearray(save(stored, metadata={"r2d2net": text, "sha256": ZEROS}))
    start = content.index(MARK) + len(MARK)
    content[start : start + 64] = hashlib.sha256(content).hexdigest().encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_when_written(path) as partial, open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"could not be written: {error}", value=path) from error


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
    try:
        with open(path, "rb") as file:
            if mmap and os.fstat(file.fileno()).st_size:  # a file of no bytes cannot be mapped
                _require_whole_file(path, map_file(file.fileno(), 0, access=ACCESS_READ))
                tensors = load_file(path)  # safetensors maps the file too
                header = _header(path, file.read(8 + MOST_HEADER))
                return {k: t if t.numel() > FEW else t.clone() for k, t in tensors.items()}, header
            content = file.read()
    except FileNotFoundError as error:
        raise CheckpointError("is not there", value=path, fix="give the folder of a saved run") from error
    except OSError as error:
        raise CheckpointError(f"could not be read: {error.strerror}", value=path) from error
    _require_whole_file(path, content)
    # Cloned into torch's own, aligned memory: matrix products of unaligned memory may round otherwise.
    return {name: tensor.clone() for name, tensor in load(content).items()}, _header(path, content)


def _require_whole_file(path: Path, content: bytes | map_file) -> None:
    start = content.find(MARK) + len(MARK)
    with memoryview(content) as view:
        digest = hashlib.sha256(view[:start])
        digest.update(ZEROS.encode())
        digest.update(view[start + 64 :])
        written = bytes(view[start : start + 64])
    if start < len(MARK) or written != digest.hexdigest().encode():
        raise CheckpointError("is truncated, altered or not a saved run: its digest does not match", value=path)


def _header(path: Path, content: bytes) -> dict[str, Any]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["r2d2net"])
    if header["format"] != FORMAT:
        raise CheckpointError(f"has format {header['format']}, this version of r2d2net reads {FORMAT}", value=path)
    return header


def remove_partial(folder: Path) -> None:
    """Remove the partial files that processes killed while writing have left in a folder.

    Args:
        folder: Folder of a run.
    """
    for partial in folder.glob(".*.safetensors.*.partial"):
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename in it survives a power failure; Windows has no such call and needs none."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
