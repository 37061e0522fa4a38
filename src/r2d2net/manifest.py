"""Folders that vouch for themselves: manifest.json has size and SHA-256 of each part, and of itself.

    {"format": 1, "parts": {"run.json": {"bytes": 5120, "sha256": "..."}}, "documents": {...}, "sha256": "..."}

`opened(folder)` opens all parts, checks every byte of them and only then gives any of them out; it keeps the files
open, so that what is used is what was checked. Documents are for people, such as report.html: their digests are
recorded, and a changed one hinders nobody. Folders of earlier versions have no manifest: they are read with a warning.

`replacing(folder)` replaces parts as one. New parts are written under names of their own, then the manifest is
replaced, which is the moment from which the new ones count, then they are renamed. Where a process was killed in
between, readers find the new parts under those names, and the next writer finishes the renaming.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from torch import Tensor

from r2d2net import checkpoint
from r2d2net.errors import CheckpointError, UnvouchedWarning
from r2d2net.files import replace_when_written
from r2d2net.folder_lock import writing
from r2d2net.saved_json import (
    MOST_BYTES,
    Each,
    Whole,
    open_regular,
    parse_json,
    read_all,
    require_conforming,
)

FILE = "manifest.json"
FORMAT = 1
MARK = "vouched"  # in a part of its own: it was written with a manifest, and is not to be read without it
MOST_PARTS = 1000
TRIES = 5
ENTRY = {"bytes": Whole(), "sha256": str}
SCHEMA = {"format": Whole(1), "parts": Each(ENTRY), "documents": Each(ENTRY), "sha256": str}
_SAID: set[str] = set()  # folders without a manifest of which the user was told
Entries = dict[str, dict[str, Any]]


class Parts:
    """The parts of a folder, open and checked.

    Attributes:
        folder: The folder.
        names: The parts that the manifest lists; None where the folder has no manifest.
    """

    def __init__(self, folder: Path, files: dict[str, tuple[Path, BufferedReader]] | None) -> None:
        self.folder, self._files = folder, files
        self.names = None if files is None else frozenset(files)

    def has(self, name: str) -> bool:
        """Tell whether the folder has a part.

        Args:
            name: Name of the file.
        """
        return (self.folder / name).exists() if self._files is None else name in self._files

    def json(self, name: str, schema: Any = None) -> dict[str, Any]:
        """Read a JSON part.

        Args:
            name: Name of the file.
            schema: What it has to look like (see `saved_json`).

        Returns:
            Its content.

        Raises:
            CheckpointError: If it is missing or damaged.
        """
        path = self.folder / name
        with self._file(name) as (_, file):
            content = parse_json(read_all(file, path, MOST_BYTES), path, schema)
        return self._with_manifest(path, content)

    def tensors(self, name: str, *, mmap: bool = False) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read a part that `checkpoint` wrote.

        Args:
            name: Name of the file.
            mmap: Leave large tensors in the file, as in `checkpoint.read`.

        Returns:
            The tensors by name, and the header.

        Raises:
            CheckpointError: If it is missing or damaged.
        """
        with self._file(name) as (path, file):
            tensors, header = checkpoint.read_open(file, path, mmap=mmap, checked=self._files is not None)
        return tensors, self._with_manifest(path, header)

    @contextmanager
    def _file(self, name: str) -> Iterator[tuple[Path, BufferedReader]]:
        if self._files is None:
            with open_regular(self.folder / name) as file:
                yield self.folder / name, file
        elif name in self._files:
            yield self._files[name]
        elif (self.folder / name).exists():
            fix = "it was put there after the folder was written; take the folder that it comes from"
            raise CheckpointError("is not in the manifest", value=self.folder / name, fix=fix)
        else:
            raise CheckpointError("is not there", value=self.folder / name, fix="give the folder of a saved run")

    def _with_manifest(self, path: Path, content: dict[str, Any]) -> dict[str, Any]:
        if self._files is None and content.get(MARK):
            fix = "copy the whole folder, or save it again"
            raise CheckpointError(f"was written with a {FILE}, which is not there", value=path, fix=fix)
        if self._files is None and os.path.realpath(self.folder) not in _SAID:
            _SAID.add(os.path.realpath(self.folder))
            problem = f"{self.folder} was saved by an older version, without a manifest: it is read, but that its parts"
            warnings.warn(UnvouchedWarning(f"{problem} belong together cannot be checked"), stacklevel=6)
        return content


@contextmanager
def opened(folder: Path) -> Iterator[Parts]:
    """Open a folder, all parts of which are checked before any is used.

    Args:
        folder: The folder.

    Yields:
        Its parts.

    Raises:
        CheckpointError: If a part is missing, altered or of another folder, or the manifest is damaged.
    """
    with ExitStack() as stack:
        for attempt in range(TRIES):
            manifest = _read(folder)
            if manifest is None:
                yield Parts(folder, None)
                return
            try:
                files = {}
                for name, entry in manifest["parts"].items():
                    path, file = _checked(folder, name, entry)
                    files[name] = path, stack.enter_context(file)
                break
            except CheckpointError:
                if attempt == TRIES - 1 or _read(folder) == manifest:
                    raise
                stack.close()  # it was replaced just now
        yield Parts(folder, files)


def changed_documents(folder: Path) -> list[str]:
    """Name the documents of a folder that were changed or removed after they were written.

    Args:
        folder: The folder.
    """
    manifest = _read(folder)
    found = []
    for name, entry in ({} if manifest is None else manifest["documents"]).items():
        try:
            _checked(folder, name, entry)[1].close()
        except CheckpointError:
            found.append(name)
    return found


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / FILE
    if not os.path.lexists(path):
        return None
    with open_regular(path) as file:
        content = read_all(file, path, MOST_BYTES)
    manifest = parse_json(content, path)
    if manifest.get("format") not in (None, FORMAT):
        problem = f"has format {manifest['format']!r:.20}, this version of r2d2net reads {FORMAT}"
        raise CheckpointError(problem, value=path)
    require_conforming(manifest, SCHEMA, path)
    if content != _text(manifest["parts"], manifest["documents"]).encode():
        raise CheckpointError("is truncated or altered: its digest does not match", value=path)
    for name in (*manifest["parts"], *manifest["documents"]):
        if not name or Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            raise CheckpointError(f"names a part outside its folder, {name!r:.60}", value=path)
    if len(manifest["parts"]) > MOST_PARTS:
        raise CheckpointError(f"names {len(manifest['parts']):,} parts, at most {MOST_PARTS:,} are read", value=path)
    return manifest


def _text(parts: Entries, documents: Entries) -> str:
    content = {"format": FORMAT, "parts": parts, "documents": documents}
    return json.dumps({**content, "sha256": hashlib.sha256(json.dumps(content).encode()).hexdigest()}, indent=1) + "\n"


def _checked(folder: Path, name: str, entry: dict[str, Any]) -> tuple[Path, BufferedReader]:
    """Open a part after a look at every byte of it; where it stands under the name of a new part, that one."""
    path = folder / name
    staged = _staged(path, entry["sha256"])
    place = staged if staged.exists() else path
    file = open_regular(place)
    try:
        size = os.fstat(file.fileno()).st_size
        if size != entry["bytes"] or _digest(file) != entry["sha256"]:
            problem = f"is not the part that {FILE} names: it was truncated, altered or taken from another folder"
            raise CheckpointError(problem, value=path, fix="take the folder from a backup, or make it anew")
    except OSError as error:
        file.close()
        raise CheckpointError(f"could not be read: {error.strerror}", value=path) from error
    except CheckpointError:
        file.close()
        raise
    return place, file


def _digest(file: BufferedReader) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _staged(path: Path, digest: str) -> Path:
    return path.with_name(f".{path.name}.{digest[:16]}.staged")


class Staging:
    """New parts of a folder, which replace those of the same names together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: Entries = {}
        self._partial: dict[str, Path] = {}

    def json(self, name: str, content: dict[str, Any]) -> None:
        """Add a JSON part.

        Args:
            name: Name of the file.
            content: The object.
        """
        self._add(name, (json.dumps({**content, MARK: FORMAT}, indent=2) + "\n").encode())

    def tensors(self, name: str, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
        """Add a part of tensors.

        Args:
            name: Name of the file.
            tensors: Tensors by name.
            header: Everything else, as JSON can hold it.
        """
        self._add(name, checkpoint.encoded(tensors, {**header, MARK: FORMAT}))

    def _add(self, name: str, content: bytes | bytearray) -> None:
        partial = self.folder / f".{name}.{os.getpid()}.partial"
        self._partial[name] = partial
        self.entries[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def commit(self, kept: Entries, documents: Entries) -> None:
        """Replace the manifest, from when on the new parts count, and put them in their places."""
        places = {name: self.folder / name for name in self.entries}
        staged = {name: _staged(path, self.entries[name]["sha256"]) for name, path in places.items()}
        for name, path in staged.items():
            os.replace(self._partial.pop(name), path)
        with replace_when_written(self.folder / FILE) as partial, open(partial, "w", encoding="utf-8") as file:
            file.write(_text({**kept, **self.entries}, documents))
            file.flush()
            os.fsync(file.fileno())
        checkpoint.sync_folder(self.folder)
        for name, path in staged.items():
            os.replace(path, places[name])
        checkpoint.sync_folder(self.folder)

    def drop(self) -> None:
        """Remove what was not put in its place."""
        for partial in self._partial.values():
            partial.unlink(missing_ok=True)


@contextmanager
def replacing(folder: Path, *, keep: Sequence[str] = (), documents: Sequence[str] = ()) -> Iterator[Staging]:
    """Replace parts of a folder, all of them or none; what is neither new nor kept is no part of it any more.

    Args:
        folder: The folder, made where it is missing.
        keep: Files of the folder, where they are there, that remain parts as they are.
        documents: Files of the folder for people, where they are there.

    Yields:
        Takes the new parts.

    Raises:
        CheckpointError: If a file cannot be written, or somebody else writes to the folder.
    """
    with writing(folder):
        staging = Staging(folder)
        try:
            tidy(folder)
            yield staging
            staging.commit(_entries(folder, keep), _entries(folder, documents))
        except OSError as error:
            raise CheckpointError(f"could not be written: {error}", value=folder) from error
        finally:
            staging.drop()


def _entries(folder: Path, names: Sequence[str]) -> Entries:
    entries = {}
    for name in names:
        if (folder / name).is_file():
            with open_regular(folder / name) as file:
                entries[name] = {"bytes": os.fstat(file.fileno()).st_size, "sha256": _digest(file)}
    return entries


def tidy(folder: Path) -> None:
    """Finish what a killed writer has begun: put new parts in their places and remove partial files.

    Args:
        folder: A folder to which nobody else writes.
    """
    try:
        manifest = _read(folder)
    except CheckpointError:  # whoever reads the folder is told
        manifest = None
    for name, entry in ({} if manifest is None else manifest["parts"]).items():
        staged = _staged(folder / name, entry["sha256"])
        if staged.exists():
            os.replace(staged, folder / name)
    checkpoint.remove_partial(folder)
