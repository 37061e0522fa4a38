"""Decoded images kept between runs: one safetensors file a set and split, written whole or not at all.

The folder is `R2D2NET_CACHE`, or the platform's cache folder; it may be deleted at any time. A file's name carries a
digest of its sources' paths, sizes and times, so changed sources are decoded anew. The data root is never
written to. Where the cache cannot be written, decoding happens every time and nothing fails.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from r2d2net.data.image_set import ImageSet
from r2d2net.errors import DataError
from r2d2net.files import replace_when_written

VERSION = 1  # raise when a reader changes what it returns


def cache_folder() -> Path:
    """Where decoded images are kept."""
    given = os.environ.get("R2D2NET_CACHE")
    if given:
        return Path(given).expanduser()
    import pooch

    return Path(pooch.os_cache("r2d2net"))


def cached(name: str, sources: Iterable[Path], build: Callable[[], ImageSet]) -> ImageSet:
    """What ``build`` returns, from the cache if the sources have not changed since."""
    path = cache_folder() / f"{name}-{_digest(sources)}.safetensors"
    if path.is_file():
        with suppress(SafetensorError, OSError, KeyError, TypeError, ValueError, DataError):  # damaged: it is rebuilt
            return _read(path)
    made = build()
    with suppress(OSError, SafetensorError):  # no room, no right: the images are here all the same
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_when_written(path) as partial:
            tensors = {"images": made.images.contiguous(), "labels": made.labels.contiguous()}
            save_file(tensors, partial, {"classes": json.dumps(made.classes)})
    return made


def _read(path: Path) -> ImageSet:
    with safe_open(path, framework="pt") as file:
        classes = tuple(json.loads(file.metadata()["classes"]))
        return ImageSet(file.get_tensor("images"), file.get_tensor("labels"), classes)


def _digest(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256(f"{VERSION}".encode())
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in files:
            if file.is_file():
                status = file.stat()
                digest.update(f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
