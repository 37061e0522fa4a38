"""A run in one file: tensors in safetensors form, everything else as JSON in its header, a digest over every byte.

A file is written beside its place, synced and renamed, so whatever happens either the old or the new one is there
whole. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from mmap import ACCESS_READ
from mmap import mmap as map_file
from pathlib import Path
from typing import Any

from safetensors.torch import load, load_file, save
from torch import Tensor

from r2d2net.errors import CheckpointError, Value
from r2d2net.files import replace_when_written

FORMAT = 1
MARK = b'"sha256":"'  # the digest follows; it is that of the file with zeros in its own place
ZEROS = "0" * 64
MOST_HEADER = 100_000_000  # safetensors' own limit, in bytes
FEW = 1 << 16  # elements of a tensor that is read at once even where the file is mapped


def write(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write a run, complete or not at all."""
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
    """Read a run; missing, truncated, altered or foreign files are one clear error.

    With ``mmap`` large tensors stay in the file: they are views of it, read page by page as they are used.
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
    """Remove what processes killed while writing have left in a folder."""
    for partial in folder.glob(".*.safetensors.*.partial"):
        partial.unlink(missing_ok=True)


def flatten(tree: Any, prefix: str = "") -> dict[str, Tensor]:
    """A tree of dicts and NamedTuples of tensors as one flat dict; keys are joined by '/'.

    >>> import torch
    >>> sorted(flatten({"a": torch.zeros(1), "b": {"c": torch.zeros(2)}}))
    ['a', 'b/c']
    """
    if isinstance(tree, Tensor):
        return {prefix: tree}
    items = tree._asdict().items() if hasattr(tree, "_asdict") else tree.items()
    flat: dict[str, Tensor] = {}
    for key, value in items:
        flat.update(flatten(value, f"{prefix}/{key}" if prefix else key))
    return flat


def unflatten(
    template: Any, tensors: dict[str, Tensor], *, any_shape: Callable[[str], bool] = lambda name: False
) -> Any:
    """The tree of the template's form, filled from a flat dict; tensors missing, left over or misshapen are errors.

    ``any_shape`` says which tensors, by name, may have another shape than the template's.
    """
    expected = flatten(template)
    for name in sorted(expected.keys() ^ tensors.keys()):
        verb = "lacks" if name in expected else "also holds"
        raise CheckpointError((f"the saved run {verb} ", Value(name)), fix="it was made for another net or algorithm")
    for name, like in expected.items():
        found = tensors[name]
        fits = found.shape == like.shape or any_shape(name)
        if not fits or found.dtype != like.dtype:
            raise CheckpointError(
                f"the saved run holds {name!r} as {tuple(found.shape)} {found.dtype}, "
                f"the model needs {tuple(like.shape)} {like.dtype}"
            )
    return _fill(template, tensors, "")


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _fill(template: Any, tensors: dict[str, Tensor], prefix: str) -> Any:
    if isinstance(template, Tensor):
        return tensors[prefix].to(template.device)
    items = template._asdict() if hasattr(template, "_asdict") else template
    filled = {k: _fill(v, tensors, f"{prefix}/{k}" if prefix else k) for k, v in items.items()}
    return type(template)(**filled) if hasattr(template, "_asdict") else filled


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power failure; Windows has no such call and needs none."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
