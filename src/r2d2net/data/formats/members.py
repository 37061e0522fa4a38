"""The files inside a folder, a zip or a tar archive, read in memory: nothing is ever extracted to disk.

An archive that names a place outside itself (`../`, an absolute path, a link) is refused as a whole.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from r2d2net.data.formats.read_errors import FIX, damaged, reading
from r2d2net.errors import DataError

LARGEST = 2**31  # bytes of a member; far more than any set read here has, far less than a decompression bomb
CHUNK = 1 << 24


def read_members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the wanted files: names with forward slashes, sorted except in tar archives."""
    if path.is_dir():
        yield from _from_folder(path, wanted)
    elif path.suffix == ".zip":
        yield from _from_zip(path, wanted)
    else:
        yield from _from_tar(path, wanted)


def member_names(path: Path) -> list[str]:
    """Return the sorted names of all files in a folder or zip."""
    if path.is_dir():
        return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    with reading(path, "a zip archive"), zipfile.ZipFile(path) as archive:
        return sorted(info.filename for info in _checked(path, archive) if not info.is_dir())


def read_gzip(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is gzipped; at most as large as a member may be."""
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    parts: list[bytes] = []
    with gzip.open(io.BytesIO(content)) as file:
        while part := file.read(CHUNK):
            parts.append(part)
            check_size(path, path.stem, sum(map(len, parts)))
    return b"".join(parts)


def last_part(name: str) -> str:
    """Return the file name at the end of a member's name."""
    return name.rsplit("/", 1)[-1]


def _from_folder(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for name in filter(wanted, member_names(path)):
        with reading(path / name, "a readable file"):
            content = (path / name).read_bytes()
        yield name, content


def _from_zip(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with reading(path, "a zip archive"):
        archive = zipfile.ZipFile(path)
    with archive:
        for info in sorted(_checked(path, archive), key=lambda info: info.filename):
            if info.is_dir() or not wanted(info.filename):
                continue
            check_size(path, info.filename, info.file_size)
            with reading(path, "a zip archive"):
                content = archive.read(info)
            yield info.filename, content


def _from_tar(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    kind = "a tar archive"
    with reading(path, kind):
        archive = tarfile.open(path, "r|*")  # noqa: SIM115 - closed below; a stream: one pass over the gzip
    with archive:
        while True:
            with reading(path, kind):
                member = archive.next()
                if member is None:
                    return
                _check_name(path, member.name, member.isfile() or member.isdir())
                if not (member.isfile() and wanted(member.name)):
                    continue
                check_size(path, member.name, member.size)
                file = archive.extractfile(member)
                content = file.read() if file else b""
                if len(content) != member.size:
                    raise damaged(path, kind, f"{member.name} ends early")
            yield member.name, content


def _checked(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    for info in archive.infolist():
        _check_name(path, info.filename, not stat.S_ISLNK(info.external_attr >> 16))
    return archive.infolist()


def _check_name(path: Path, name: str, plain: bool) -> None:
    parts = name.replace("\\", "/").split("/")
    if not plain or not parts[0] or parts[0][1:2] == ":" or ".." in parts:
        what = "points outside the archive" if plain else "is a link or a device"
        raise DataError(f"holds {name!r}, which {what}: such archives are refused", value=path, fix=FIX)


def check_size(path: Path, name: str, size: int) -> None:
    """Raise a `DataError` if a member has more bytes than any data set needs."""
    if size > LARGEST:
        raise DataError(f"holds {name!r} of {size} bytes, more than {LARGEST}", value=path, fix=FIX)
