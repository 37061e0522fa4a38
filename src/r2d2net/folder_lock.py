"""One writer of a folder at a time: a lock of the operating system on a file in it, which names process and host.

The lock belongs to the process and not to its children, and ends with it however it ends: what a killed process left
behind is taken over without asking. A second writer gets one line; it waits no longer than it takes the workers of a
killed process to end. The file is removed when the last writer of this process is done; one that is left by a kill
means nothing by itself.

Within a process the thread that holds a folder may lock it again, as `fit` does when it saves its posterior.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from r2d2net.errors import CheckpointError

NAME = ".r2d2net.lock"
SECONDS = 1.0  # before a folder is refused
FIX = "wait until it ends, or give another folder"


class FolderInUseError(CheckpointError):
    """Another process or thread is writing to the folder."""


@dataclass
class _Held:
    process: int
    thread: int
    descriptor: int
    count: int = 1


_HELD: dict[str, _Held] = {}  # by the folder's real path
_GUARD = threading.Lock()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made where it is missing.

    Args:
        folder: The folder that is written to.

    Raises:
        FolderInUseError: If another process or thread holds it.
        CheckpointError: If the folder cannot be written.
    """
    place = os.path.realpath(folder)
    last = time.monotonic() + SECONDS
    while True:
        try:
            _acquire(folder, place)
            break
        except FolderInUseError:
            if time.monotonic() > last:
                raise
            time.sleep(0.05)
    try:
        yield
    finally:
        _release(place)


def require_free(folder: Path) -> None:
    """Refuse a folder that another process is writing to, before any work is done for it.

    Args:
        folder: The folder, which need not be there.

    Raises:
        FolderInUseError: If another process or thread holds it.
    """
    if (folder / NAME).exists():
        with writing(folder):
            pass


def _acquire(folder: Path, place: str) -> None:
    with _GUARD:
        held = _HELD.get(place)
        if held is not None and held.process == os.getpid():  # not one that a fork copied
            if held.thread != threading.get_ident():
                raise FolderInUseError("is being written to by another thread", value=folder, fix=FIX)
            held.count += 1
            return
        try:
            os.makedirs(place, exist_ok=True)
            descriptor = _locked(folder, os.path.join(place, NAME))
        except OSError as error:
            raise CheckpointError(f"could not be written: {error}", value=folder) from error
        _HELD[place] = _Held(os.getpid(), threading.get_ident(), descriptor)


def _locked(folder: Path, path: str) -> int:
    """Open and lock the file; one that its last owner removed in the meantime is opened anew."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _try_lock(descriptor):
                raise FolderInUseError(f"is being written to by {_owner(descriptor)}", value=folder, fix=FIX)
            if _is_there(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _release(place: str) -> None:
    with _GUARD:
        held = _HELD.get(place)
        if held is None or held.process != os.getpid():
            return
        held.count -= 1
        if held.count:
            return
        del _HELD[place]
        path = os.path.join(place, NAME)
        try:
            if sys.platform != "win32" and _is_there(path, held.descriptor):
                os.unlink(path)  # while the lock is held, so that nobody locks a file without a name
        except OSError:  # the folder may be gone or read-only by now; the lock ends with the descriptor
            pass
        finally:
            os.close(held.descriptor)


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _owner(descriptor: int) -> str:
    said = _said(descriptor)
    return "another process" if said is None else f"process {said[0]} on {said[1]}"


def _said(descriptor: int) -> tuple[int, str] | None:
    """Read process and host from the file; None where they are being written just now."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        said = json.loads(os.read(descriptor, 1000))
        return int(said["pid"]), str(said["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


if sys.platform != "win32":
    import errno
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        """Lock a file unless another process has; locks of `lockf` are not inherited by children."""
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):
                return _is_ownerless(descriptor)  # a file system without locks: by the process that the file names
            raise
        return True

    def _is_ownerless(descriptor: int) -> bool:
        said = _said(descriptor)
        if said is None or said[1] != socket.gethostname():
            return said is None
        try:
            os.kill(said[0], 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return said[0] == os.getpid()

else:  # pragma: no cover
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        """Lock one byte beyond the text, which others may read, unless another process has."""
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
