"""Files that are never half written: they appear under their name only when complete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replace_when_written(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it onto ``path`` on success, remove it on failure."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, indented, complete or not at all."""
    with replace_when_written(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text file, complete or not at all."""
    with replace_when_written(path) as partial:
        partial.write_text(text, encoding="utf-8")
