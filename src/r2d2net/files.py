"""Files that are never half written: they appear under their name only when complete."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from r2d2net.errors import ParameterError

OPEN = re.compile(r"/dev/(stdin|stdout|stderr|fd/\d+)|/proc/[^/]+/fd/\d+")  # names of files that are open already


def is_stream(path: Path) -> bool:
    """Whether a path leads to a device, a pipe or an open file: it is written into, and never replaced."""
    return path.exists() and (bool(OPEN.fullmatch(os.path.abspath(path))) or not (path.is_file() or path.is_dir()))


@contextmanager
def replace_when_written(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it onto ``path`` on success, remove it on failure.

    Of a symbolic link, the file that it leads to is replaced. A stream is given itself.
    """
    if is_stream(path):
        yield path
        return
    path = Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def make_folder(folder: Path, argument: str) -> None:
    """Make a folder and see that it can be written, before any work is done for it; ``argument`` is what named it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)
        message = f"{argument} {folder} cannot be used ({reason}): give a folder that can be written"
        raise ParameterError(message) from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, indented, complete or not at all."""
    with replace_when_written(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text file, complete or not at all."""
    with replace_when_written(path) as partial:
        partial.write_text(text, encoding="utf-8")
