"""Catalogue files: a TOML file that describes re-packed copies of data sets in a data folder.

    [svhn.train]                       # data set and split
    kind = "mosaic"                    # how the files are laid out: one of `copy_kinds.KINDS`
    files = ["svhn/train_*.webp"]      # relative to the data folder; * and ? in the last part, sorted
    labels = "svhn/labels.npz"         # settings of the kind
    key = "train"
    rows = 5_000                       # optional: what `r2d2net data verify` compares with
    sha256 = { "svhn/labels.npz" = "..." }
    note = "a tenth of the digits"

A data folder carries it as `r2d2net-data.toml`. One that stands elsewhere is named by an argument or by the variable
R2D2NET_DATA_CATALOGUE, and is read before the folder's own. Whoever wrote the file, it can only point at files inside
the data folder and choose among the readers of `copy_kinds`; nothing is imported, executed or unpickled.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from r2d2net.data.copy_kinds import KINDS, Kind, Setting, is_names, is_text, is_whole
from r2d2net.data.entry import Entry, Source
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.errors import DataError, ParameterError, Value

FILE = "r2d2net-data.toml"
VARIABLE = "R2D2NET_DATA_CATALOGUE"
LARGEST = 1 << 20  # bytes of a catalogue file
KIND = "a catalogue file"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # names of sets and splits become part of file names in the cache
CHECKSUM = re.compile(r"[0-9a-fA-F]{64}")
PATH = "a path inside the data folder, such as svhn/labels.npz"


class Copy(NamedTuple):
    """A re-packed copy of one split of a data set."""

    name: str
    split: str
    source: Source
    classes: int
    note: str


def catalogue_files(root: Path, catalogue: str | Path | None = None) -> list[Path]:
    """Return the catalogue files that apply to a data folder: the given one, then the folder's own.

    Args:
        root: The data folder.
        catalogue: A catalogue file; by default the environment variable R2D2NET_DATA_CATALOGUE names it, if set.

    Raises:
        ParameterError: If the given file does not exist.
    """
    given = catalogue if catalogue is not None else os.environ.get(VARIABLE) or None
    own = root / FILE
    files = []
    if given is not None:
        path = Path(given).expanduser()
        if not path.is_file():
            name = "catalogue" if catalogue is not None else VARIABLE
            fix = "name a catalogue file, see docs/data.md"
            raise ParameterError("is not a file", argument=name, value=path, fix=fix)
        files.append(path)
    if own.is_file() and not any(own.samefile(path) for path in files):
        files.append(own)
    return files


def read_catalogue(path: Path, root: Path, public: Mapping[str, Entry]) -> list[Copy]:
    """Read and check a catalogue file.

    Args:
        path: The file.
        root: The data folder that its paths are relative to.
        public: The sets known without it, whose splits and classes a copy must have.

    Returns:
        One `Copy` for every split that the file describes.

    Raises:
        DataError: If the file is not TOML, or says something else than the format allows.
    """
    with reading(path, KIND):
        if path.stat().st_size > LARGEST:
            raise damaged(path, KIND, f"it has more than {LARGEST} bytes")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    copies = []
    for name, splits in content.items():
        _check_name(path, "data set", name)
        if not isinstance(splits, dict) or not all(isinstance(table, dict) for table in splits.values()):
            fix = f"describe each in a table of its own, such as [{name}.train]"
            raise DataError(f", {name} has no splits", value=path, fix=fix)
        for split, table in splits.items():
            _check_name(path, "split", split)
            copies.append(_Table(path, root, name, split, table).copy(public.get(name)))
    return copies


def _check_name(path: Path, what: str, name: str) -> None:
    if not NAME.fullmatch(name):
        fix = "use up to 64 letters, digits and . _ -"
        raise DataError((f"{path}, ", Value(name), f" cannot name a {what}"), fix=fix)


class _Table(NamedTuple):
    """The table of one split as it stands in the file."""

    path: Path
    root: Path
    name: str
    split: str
    table: dict[str, Any]

    def copy(self, entry: Entry | None) -> Copy:
        """Return the copy that the table describes; ``entry`` is the public set of its name, if there is one."""
        kind = self.kind(entry)
        common = {
            "kind": Setting("", lambda value: True),
            "files": Setting("a list of paths inside the data folder", is_names),
            "rows": Setting("a whole number", is_whole(0), None),
            "sha256": Setting('a table of file = "64 hexadecimal digits"', lambda value: isinstance(value, dict), {}),
            "note": Setting("a text in one line", is_text, ""),
        }
        allowed = common | dict(kind.settings)
        unknown = next((key for key in self.table if key not in allowed), None)
        if unknown is not None:
            problem = (Value(unknown), f" is no setting of kind {self.table['kind']}")
            raise self.fault(*problem, use=", ".join(allowed))
        values = {key: self.value(key, setting) for key, setting in allowed.items()}
        files = [file for pattern in values["files"] for file in self.expanded("files", pattern)]
        if len(files) > 1 and not kind.several:
            use = f"one file or folder for kind {values['kind']}"
            raise self.fault(f"files names {len(files)} files", use=use)
        settings = {key: values[key] for key in kind.settings}
        further = [self.inside(key, settings[key]) for key, setting in kind.settings.items() if setting.path]
        classes = settings.get("classes", ())
        if entry is not None and entry.classes and classes and len(classes) != entry.classes:
            use = f"the {entry.classes} classes of {self.name}"
            raise self.fault(f"classes has {len(classes)} names", use=use)
        checksums = self.checksums(values["sha256"], {*files, *further})
        source = _source(kind, self.split, files, further, settings, values["rows"], checksums)
        return Copy(self.name, self.split, source, len(classes), values["note"])

    def kind(self, entry: Entry | None) -> Kind:
        """Return the kind, checked against what is known of the set."""
        if "kind" not in self.table:
            raise self.fault("kind is missing", use=", ".join(KINDS))
        name = self.table["kind"]
        if not isinstance(name, str) or name not in KINDS:
            raise self.fault("kind=", Value(name), " is not known", use=", ".join(KINDS))
        kind = KINDS[name]
        if entry is not None and self.split not in entry.splits:
            raise self.fault(f"{self.name} has no split ", Value(self.split), use=", ".join(entry.splits))
        if entry is not None and entry.shape is not None and kind.images != (len(entry.shape) == 3):
            holds = "images" if len(entry.shape) == 3 else "a table"
            fitting = ", ".join(key for key, other in KINDS.items() if other.images != kind.images)
            raise self.fault("kind=", Value(name), f" does not fit {self.name}, which is {holds}", use=fitting)
        return kind

    def value(self, key: str, setting: Setting) -> Any:
        """Return a checked value, or the default."""
        if key not in self.table:
            if setting.required:
                raise self.fault(f"{key} is missing", use=setting.expected)
            return setting.default
        value = self.table[key]
        if not setting.accepts(value):
            raise self.fault(f"{key}=", Value(value), " cannot be used", use=setting.expected)
        return value

    def expanded(self, key: str, pattern: str) -> list[str]:
        """Return the files that a pattern matches in sorted order; the pattern itself if it matches none."""
        folder, _, last = pattern.rpartition("/")
        if ("*" not in last and "?" not in last) or "[" in last:
            return [self.inside(key, pattern)]
        place = self.root / self.inside(key, folder or ".")
        with reading(place, "a folder"):
            entries = list(place.iterdir()) if place.is_dir() else []
        names = sorted(path.name for path in entries if fnmatchcase(path.name, last))
        return [self.inside(key, f"{folder}/{name}" if folder else name) for name in names] or [pattern]

    def inside(self, key: str, file: str) -> str:
        """Return a path unless it leads outside the data folder, by its name or by a link."""
        parts = file.split("/")
        plain = is_text(file) and "\\" not in file and ":" not in parts[0] and not PurePosixPath(file).is_absolute()
        if not plain or ".." in parts or any(sign in file for sign in "*?["):
            raise self.fault(f"{key}=", Value(file), " cannot be used", use=PATH)
        try:
            resolved = (self.root / file).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name that is too long
            raise self.fault(f"{key}=", Value(file), " cannot be resolved", use=PATH) from error
        if not resolved.is_relative_to(self.root.resolve()):
            problem = (f"{key}=", Value(file), f" leads outside {self.root} by a link")
            raise self.fault(*problem, use="the file itself there")
        return file

    def checksums(self, given: Mapping[str, object], files: set[str]) -> dict[str, str]:
        """Return the checksums by file, each of a file that the table names."""
        for file, digest in given.items():
            if file not in files:
                problem = ("sha256 has ", Value(file), ", which is none of the files")
                raise self.fault(*problem, use=", ".join(sorted(files)))
            if not isinstance(digest, str) or not CHECKSUM.fullmatch(digest):
                raise self.fault(f"sha256 of {file} is ", Value(digest), use="64 hexadecimal digits")
        return {file: f"sha256:{digest}" for file, digest in given.items()}

    def fault(self, *problem: str | Value, use: str) -> DataError:
        return DataError((f"{self.path}, [{self.name}.{self.split}]: ", *problem), fix=f"use {use}")


def _source(
    kind: Kind,
    split: str,
    files: list[str],
    further: list[str],
    settings: Mapping[str, Any],
    rows: int | None,
    checksums: Mapping[str, str],
) -> Source:
    """Build the source that reads the copy with the reader of its kind."""

    def read(folder: Path, part: str) -> Any:
        located = {key: folder / value if kind.settings[key].path else value for key, value in settings.items()}
        return kind.read([folder / file for file in files], located, part)

    return Source(
        {split: (*further, *files)},
        read,
        {} if rows is None else {split: rows},
        quick=not kind.images,
        checksums=checksums,
        settings=json.dumps(settings, sort_keys=True),
    )
