"""A run in one file: tensors in safetensors form, everything else as JSON in its header, a digest over both.

A file is written beside its place, synced and renamed, so whatever happens either the old or the new one is there
whole. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from r2d2net.errors import CheckpointError

FORMAT = 1


def write(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write a run, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    content = save(stored, metadata={"r2d2net": text, "sha256": _digest(stored, text)})
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a run; truncated, altered or foreign files are one clear error."""
    if not path.is_file():
        raise CheckpointError(f"{path} is not there: give the folder of a saved run")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or not a saved run: {error}") from error
    text = metadata.get("r2d2net")
    if text is None or metadata.get("sha256") != _digest(tensors, text):
        raise CheckpointError(f"{path} does not match its own digest: it was altered or is not a saved run")
    header = json.loads(text)
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {header.get('format')}, this version reads {FORMAT}")
    return tensors, header


def flatten(tree: Any, prefix: str = "") -> dict[str, Tensor]:
    """A tree of dicts and NamedTuples of tensors as one flat dict; keys are joined by '/'.

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


def unflatten(template: Any, tensors: dict[str, Tensor], prefix: str = "") -> Any:
    """The tree of the template's form, filled from a flat dict; missing or misshapen tensors are errors."""
    if isinstance(template, Tensor):
        if prefix not in tensors:
            raise CheckpointError(f"the saved run lacks {prefix!r}: it was made for another model or algorithm")
        found = tensors[prefix]
        if found.shape != template.shape or found.dtype != template.dtype:
            raise CheckpointError(
                f"the saved run holds {prefix!r} as {tuple(found.shape)} {found.dtype}, "
                f"the model needs {tuple(template.shape)} {template.dtype}"
            )
        return found.to(template.device)
    if hasattr(template, "_asdict"):
        fields = {k: unflatten(v, tensors, f"{prefix}/{k}" if prefix else k) for k, v in template._asdict().items()}
        return type(template)(**fields)
    return {k: unflatten(v, tensors, f"{prefix}/{k}" if prefix else k) for k, v in template.items()}


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
