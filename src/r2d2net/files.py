"""Writing of files that appear under their name only when they are complete."""

from __future__ import annotations

import glob
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from r2d2net.errors import ParameterError

STRAY = 600  # seconds without a change from which a partial file may be of a process that is no more
OPEN = re.compile(r"/dev/(stdin|stdout|stderr|fd/\d+)|/proc/[^/]+/fd/\d+")  # names of files that are open already


def is_stream(path: Path) -> bool:
    """Test whether a path leads to a device, a pipe or an open file, which is written into and never replaced.

    Args:
        path: The path.

    Returns:
        True for a stream, False for an ordinary file, a folder or a path without a file.
    """
    return path.exists() and (bool(OPEN.fullmatch(os.path.abspath(path))) or not (path.is_file() or path.is_dir()))


@contextmanager
def replace_when_written(path: Path) -> Iterator[Path]:
    """Write to a temporary file beside ``path`` that is renamed to ``path`` on success and removed on failure.

    Args:
        path: File to write. Where it is a symbolic link, the file that the link leads to is replaced.

    Yields:
        The temporary path, or ``path`` itself where it is a stream.
    """
    if is_stream(path):
        yield path
        return
    path = Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    _clear_stray(path)
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _clear_stray(path: Path) -> None:
    """Remove what killed processes left of earlier attempts to write a file."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        try:
            if time.time() - partial.stat().st_mtime > STRAY and not _lives(int(partial.name.split(".")[-2])):
                partial.unlink(missing_ok=True)
        except (OSError, ValueError):  # it is not ours
            continue


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def make_folder(folder: Path, argument: str) -> None:
    """Make a folder and check that files can be written in it, before any work is done.

    Args:
        folder: The folder.
        argument: Name of the argument that gave the folder, for the message.

    Raises:
        ParameterError: If the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)
        fix = "give a folder that can be written"
        raise ParameterError(f"cannot be used ({reason})", argument=argument, value=folder, fix=fix) from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, indented, complete or not at all.

    Args:
        path: File to write.
        content: The object.
    """
    with replace_when_written(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text file, complete or not at all.

    Args:
        path: File to write.
        text: Its content.
    """
    with replace_when_written(path) as partial:
        partial.write_text(text, encoding="utf-8")
