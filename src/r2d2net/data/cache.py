"""A cache of decoded images: one safetensors file for each set and split, written completely or not at all.

The folder is `R2D2NET_CACHE`, or the platform's cache folder; it may be deleted at any time. A file's name contains a
digest of the paths, sizes and modification times of its source files, so images are decoded again when these change.
The data root is never written to. Where the cache cannot be written, images are decoded every time and nothing fails.
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
    """Return the folder that decoded images are kept in."""
    given = os.environ.get("R2D2NET_CACHE")
    if given:
        return Path(given).expanduser()
    import pooch

    return Path(pooch.os_cache("r2d2net"))


def cached(name: str, sources: Iterable[Path], build: Callable[[], ImageSet], settings: str = "") -> ImageSet:
    """Return what ``build`` returns, from the cache if nothing that decides it has changed.

    Args:
        name: The beginning of the file's name.
        sources: The files and folders that ``build`` reads.
        build: The function that decodes the images.
        settings: Whatever else decides what it returns.
    """
    path = cache_folder() / f"{name}-{_digest(sources, settings)}.safetensors"
    if path.is_file():
        with suppress(
            SafetensorError, OSError, KeyError, TypeError, ValueError, DataError
        ):  # a damaged file is rebuilt
            return _read(path)
    images = build()
    with suppress(OSError, SafetensorError):  # no space or no permission: the images are returned all the same
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_when_written(path) as partial:
            tensors = {"images": images.images.contiguous(), "labels": images.labels.contiguous()}
            save_file(tensors, partial, {"classes": json.dumps(images.classes)})
    return images


def _read(path: Path) -> ImageSet:
    with safe_open(path, framework="pt") as file:
        classes = tuple(json.loads(file.metadata()["classes"]))
        return ImageSet(file.get_tensor("images"), file.get_tensor("labels"), classes)


def _digest(sources: Iterable[Path], settings: str) -> str:
    digest = hashlib.sha256(f"{VERSION}{settings}".encode())
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in files:
            if file.is_file():
                status = file.stat()
                digest.update(f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
