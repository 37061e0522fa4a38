"""Folders that were altered on purpose and have right digests all the same."""

import hashlib
import json
from pathlib import Path

from r2d2net import checkpoint
from r2d2net.manifest import FILE, replacing


def sign(folder: Path) -> None:
    """Write the manifest of a folder anew, for its parts as they are now."""
    path = folder / FILE
    names = list(json.loads(path.read_text())["parts"])
    path.unlink()
    with replacing(folder, keep=names):
        pass


def sign_tensors(path: Path, content: bytes) -> bytes:
    """Return the bytes of a file of `checkpoint` with the right digest in it."""
    start = content.find(checkpoint.MARK) + len(checkpoint.MARK)
    if start < len(checkpoint.MARK):
        return content
    blank = content[:start] + checkpoint.ZEROS.encode() + content[start + 64 :]
    return blank[:start] + hashlib.sha256(blank).hexdigest().encode() + blank[start + 64 :]
