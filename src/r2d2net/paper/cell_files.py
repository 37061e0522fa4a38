"""Results of a grid's cells on disk: one file for each cell while the grid runs, one table of all cells to keep.

    <folder>/cells/<key>.json    one result: key, settings, seed, versions, commit, seconds, result
    <folder>/cells.jsonl         the same results, one line each, in the order of the file names

A running grid writes cell files and resumes from them. `pack_cells` copies them into the table, `unpack_cells` restores
them, byte for byte. The table is read only where there is no folder ``cells``: where both exist, cell files count, and
`note_on_table` tells whether the table holds anything else.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from r2d2net.errors import DataError, Shown
from r2d2net.files import write_json, write_text

CELLS, TABLE = "cells", "cells.jsonl"
FIELDS = ("key", "settings", "seed", "versions", "commit", "seconds", "result")
RUN_AGAIN = "remove it and run `r2d2net reproduce` again"

Result = dict[str, Any]


def cell_path(folder: Path, key: str) -> Path:
    """Return where the result file of a cell is."""
    return folder / CELLS / f"{key}.json"


def is_file_name(key: object) -> bool:
    """Whether a key can be used as the name of a file, without leading to another folder."""
    return isinstance(key, str) and "\0" not in key and Path(key).name == key != ""


def read_json(path: Path, fields: tuple[str, ...], fix: str) -> dict[str, Any]:
    """Read a JSON object from a file and check that it has all fields.

    Args:
        path: The file.
        fields: Names that the object must have.
        fix: What the user can do about a file that is damaged, for the error message.

    Returns:
        The object.

    Raises:
        DataError: The file cannot be read, or is not an object with these fields.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read ({error})", value=path, fix=fix) from error
    return _parsed(text, path, fields, fix)


def read_cell(path: Path) -> Result:
    """Read one result file.

    Raises:
        DataError: The file cannot be read, or is not a result file.
    """
    return read_json(path, FIELDS, RUN_AGAIN)


def has_table(folder: Path) -> bool:
    """Whether a folder keeps its results in the table, which is so if there is a table and no folder of cell files."""
    return (folder / TABLE).exists() and not (folder / CELLS).is_dir()


def read_table(folder: Path) -> dict[str, Result]:
    """Read all results of the table ``cells.jsonl``.

    Returns:
        The results by the keys of their cells.

    Raises:
        DataError: The table cannot be read, or one of its lines is not a result.
    """
    path = folder / TABLE
    fix = "restore the file, or remove it and run `r2d2net reproduce` again"
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read ({error})", value=path, fix=fix) from error
    results: dict[str, Result] = {}
    for number, line in enumerate(lines, start=1):
        result = _parsed(line, _line(path, number), FIELDS, fix)
        if not is_file_name(result["key"]) or result["key"] in results:
            problem = f"has a key that cannot be used ({result['key']!r:.60})"
            raise DataError(problem, value=_line(path, number), fix=fix)
        results[result["key"]] = result
    return results


def note_on_table(folder: Path) -> str | None:
    """Describe the results of a table that are not used because the folder has cell files too.

    A table that a running grid has left behind holds fewer results than the cell files: that is nothing to tell.

    Args:
        folder: The folder of a grid.

    Returns:
        One line; None where the table holds no result that is absent from the cell files or different there.
    """
    if not (folder / TABLE).exists() or has_table(folder):
        return None
    use = f"remove {folder / CELLS} to use the table; otherwise it is replaced"
    try:
        results = read_table(folder)
    except DataError as error:
        return f"{error.value} cannot be read: the cell files count; the table is replaced"
    paths = {key: cell_path(folder, key) for key in results}
    unused = [key for key, path in paths.items() if not path.exists() or read_cell(path) != results[key]]
    if not unused:
        return None
    count = f"{len(unused)} result{'s' if len(unused) > 1 else ''}"
    return f"{folder / TABLE} holds {count} that the cell files lack or have otherwise ({unused[0]}): {use}"


def pack_cells(folder: Path) -> Path | None:
    """Write all cell files of a grid into its table.

    Args:
        folder: The folder of the grid.

    Returns:
        The table; None where there are no cell files, in which case the table is left as it is.

    Raises:
        DataError: A file among the cells is not a result file, or holds the result of another cell.
    """
    lines = []
    for path in sorted((folder / CELLS).glob("*.json")):
        result = read_cell(path)
        if result["key"] != path.stem:
            raise DataError(f"has the result of another cell ({result['key']!r:.60})", value=path, fix=RUN_AGAIN)
        lines.append(json.dumps(result, separators=(",", ":")) + "\n")
    if not lines:
        return None
    write_text(folder / TABLE, "".join(lines))
    return folder / TABLE


def unpack_cells(folder: Path) -> int:
    """Write the cell files of a grid from its table, unless the folder has cell files already.

    Args:
        folder: The folder of the grid.

    Returns:
        The number of files written.

    Raises:
        DataError: The table is damaged.
    """
    if not has_table(folder):
        return 0
    results = read_table(folder)
    partial = folder / f".{CELLS}.{os.getpid()}.partial"  # renamed when complete: a kill leaves all of them or none
    try:
        partial.mkdir()
        for key, result in results.items():
            write_json(partial / f"{key}.json", result)
        partial.rename(folder / CELLS)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return len(results)


def _line(path: Path, number: int) -> Shown:
    return Shown(f"{path}, line {number},")


def _parsed(text: str, where: Path | Shown, fields: tuple[str, ...], fix: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise DataError(f"cannot be read ({error})", value=where, fix=fix) from error
    absent = [name for name in fields if not isinstance(content, dict) or name not in content]
    if absent:
        raise DataError(f"is no file of a grid (without {absent[0]!r})", value=where, fix=fix)
    return content
