"""JSON of saved folders, read in one place: regular files of bounded size, values checked against a schema.

A schema is plain Python:

    str, (int, float)          a value of this type; whole numbers pass as float, truth values do not pass as numbers
    Maybe(schema)              null or the schema
    Whole(1, 10), Finite()     a whole number in a range; a number that is neither infinite nor NaN
    [schema]                   a list of such values
    {"name": schema}           an object with these names; "name?" may be absent, other names are left alone
    Each(schema)               an object of any names with such values

Whatever is wrong is one `CheckpointError` that names the file and the place in it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import MISSING, dataclass, fields
from io import BufferedReader
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from r2d2net.errors import CheckpointError

MOST_BYTES = 1 << 27  # of a JSON file; levels of categories and leave-one-out moments are the longest
LARGEST = sys.float_info.max
FIX = "fit again, or take the folder from a backup"


@dataclass(frozen=True)
class Maybe:
    """Null, or a value of a schema."""

    schema: Any


@dataclass(frozen=True)
class Each:
    """An object whose values are all of a schema."""

    schema: Any


@dataclass(frozen=True)
class Whole:
    """A whole number from ``least`` to ``most``."""

    least: int = 0
    most: int = 1 << 62


@dataclass(frozen=True)
class Finite:
    """A number that is neither infinite nor NaN."""


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; pipes and devices, which may never end, are refused without reading them.

    Args:
        path: The file.

    Returns:
        The open file.

    Raises:
        CheckpointError: If it is not there, cannot be read or is no regular file.
    """
    try:
        # without O_NONBLOCK opening a pipe waits for its writer; Windows has neither
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as error:
        raise CheckpointError("is not there", value=path, fix="give the folder of a saved run") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"could not be read: {reason}", value=path) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        problem = "could not be read: Is a directory" if stat.S_ISDIR(mode) else "is no regular file"
        raise CheckpointError(problem, value=path, fix="give the folder of a saved run")
    return open(descriptor, "rb")


def read_all(file: BufferedReader, path: Path, most: int) -> bytes:
    """Read a file that `open_regular` opened.

    Args:
        file: The open file.
        path: Its path, for messages.
        most: Largest number of bytes.

    Returns:
        The content.

    Raises:
        CheckpointError: If it is larger, or cannot be read.
    """
    require_size(os.fstat(file.fileno()).st_size, path, most)
    try:
        file.seek(0)
        return file.read(most + 1)
    except OSError as error:
        raise CheckpointError(f"could not be read: {error.strerror}", value=path) from error


def require_size(size: int, path: Path, most: int) -> None:
    """Refuse a file of more bytes than its kind ever has."""
    if size > most:
        raise CheckpointError(f"has {size:,} bytes, and such a file at most {most:,}", value=path, fix=FIX)


def read_json(path: Path, schema: Any = None) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Args:
        path: The file.
        schema: What the object has to look like; None for any object.

    Returns:
        The object.

    Raises:
        CheckpointError: If it cannot be read, is no JSON or does not conform.
    """
    with open_regular(path) as file:
        return parse_json(read_all(file, path, MOST_BYTES), path, schema)


def parse_json(content: bytes | str, path: Path, schema: Any = None) -> dict[str, Any]:
    """Parse JSON text that holds an object.

    Args:
        content: The text.
        path: Where it was read, for messages.
        schema: What the object has to look like; None for any object.

    Returns:
        The object.

    Raises:
        CheckpointError: If it is no JSON or does not conform.
    """
    try:
        found = json.loads(content if isinstance(content, str) else content.decode())
    except (ValueError, RecursionError) as error:
        raise CheckpointError("is damaged, it is no JSON", value=path, fix=FIX) from error
    if not isinstance(found, dict):
        raise CheckpointError(f"is damaged, it holds a {type(found).__name__}", value=path, fix=FIX)
    if schema is not None:
        require_conforming(found, schema, path)
    return found


def require_conforming(value: Any, schema: Any, path: Path) -> None:
    """Raise a `CheckpointError` that names the first place where a value does not conform to a schema."""
    fault = fault_of(value, schema)
    if fault is not None:
        raise CheckpointError(f"is damaged, {fault}", value=path, fix=FIX)


def fault_of(value: Any, schema: Any, place: str = "") -> str | None:
    """Describe the first place where a value does not conform to a schema; None if it conforms.

    >>> print(fault_of({"n": 3, "names": ["a"]}, {"n": Whole(1), "names": [str], "seed?": int}))
    None
    >>> fault_of({"n": 0, "names": []}, {"n": Whole(1), "names": [str]})
    "'n' is 0"
    >>> fault_of({"n": 1, "names": ["a", 2]}, {"n": Whole(1), "names": [str]})
    "'names[1]' is 2"
    >>> fault_of({"n": 1}, {"n": Whole(1), "names": [str]})
    "it lacks 'names'"
    """
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return _wrong(value, place)
        for name, inner in schema.items():
            plain, is_optional = name.removesuffix("?"), name.endswith("?")
            where = f"{place}.{plain}".lstrip(".")
            if plain not in value:
                if is_optional:
                    continue
                return f"it lacks {where!r}"
            fault = fault_of(value[plain], inner, where)
            if fault is not None:
                return fault
        return None
    if isinstance(schema, Each):
        if not isinstance(value, dict):
            return _wrong(value, place)
        parts = ((f"{place}.{name}".lstrip("."), part) for name, part in value.items())
        return next((fault for where, part in parts if (fault := fault_of(part, schema.schema, where))), None)
    if isinstance(schema, list):
        if not isinstance(value, list):
            return _wrong(value, place)
        parts = ((f"{place}[{i}]", part) for i, part in enumerate(value))
        return next((fault for where, part in parts if (fault := fault_of(part, schema[0], where))), None)
    if isinstance(schema, Maybe):
        return None if value is None else fault_of(value, schema.schema, place)
    if isinstance(schema, Whole):
        fits = isinstance(value, int) and not isinstance(value, bool) and schema.least <= value <= schema.most
        return None if fits else _wrong(value, place)
    if isinstance(schema, Finite):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return None if is_number and abs(value) <= LARGEST else _wrong(value, place)
    kinds = schema if isinstance(schema, tuple) else (schema,)
    if isinstance(value, bool):
        return None if bool in kinds else _wrong(value, place)
    return None if isinstance(value, (*kinds, int) if float in kinds else kinds) else _wrong(value, place)


def schema_of(cls: type) -> dict[str, Any]:
    """Return the schema of the fields of a dataclass, as `dataclasses.asdict` and JSON write them.

    Args:
        cls: A dataclass whose fields are texts, numbers, truth values, and lists of them.

    >>> @dataclass
    ... class Column:
    ...     name: str
    ...     means: list[float]
    ...     levels: tuple[str, ...] = ()
    >>> schema_of(Column)
    {'name': <class 'str'>, 'means': [Finite()], 'levels?': [<class 'str'>]}
    """
    hints = get_type_hints(cls)
    return {
        field.name if field.default is MISSING and field.default_factory is MISSING else f"{field.name}?": _schema(
            hints[field.name]
        )
        for field in fields(cls)
    }


def _schema(hint: Any) -> Any:
    if get_origin(hint) in (list, tuple):
        return [_schema(get_args(hint)[0])]
    return Finite() if hint is float else hint


def _wrong(value: Any, place: str) -> str:
    shown = repr(value)
    return f"{place!r} is {shown if len(shown) <= 60 else shown[:60] + ' ...'}"
