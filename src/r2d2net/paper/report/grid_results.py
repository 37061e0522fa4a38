"""The results of a grid of cells, as its report reads them from the folder that `r2d2net reproduce` filled."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.errors import DataError
from r2d2net.paper.cell_files import cell_path, has_table, is_file_name, read_cell, read_json, read_table

ABOUT = ("artefact", "title", "scale", "reduced", "cells")


class GridResults(NamedTuple):
    """The description of a grid and the results of its cells.

    Attributes:
        about: The content of grid.json: artefact, title, scale, and key and settings of every cell.
        results: The result of each cell that has one, in the order of the grid.
        missing: The keys of cells without a result.
        failures: The last line of the log of each cell that was started and has no result, by its key.
    """

    about: dict[str, Any]
    results: list[dict[str, Any]]
    missing: list[str]
    failures: dict[str, str] = {}  # noqa: RUF012 -- never changed

    @property
    def name(self) -> str:
        """The name of the artefact on the command line."""
        return str(self.about["artefact"])

    @property
    def variant(self) -> str:
        """The variant of the artefact; "" where it has none."""
        return str(self.about.get("variant") or "")


def read_grid(folder: Path) -> GridResults:
    """Read the results of a grid, from its cell files or from the table of all cells.

    Args:
        folder: The folder of the grid.

    Returns:
        The description of the grid and all results whose settings are those of the description.

    Raises:
        DataError: A file cannot be read, or was not written by a grid.
    """
    about = read_json(folder / "grid.json", ABOUT, "run `r2d2net reproduce` first")
    table = read_table(folder) if has_table(folder) else None
    results: list[dict[str, Any]] = []
    missing: list[str] = []
    failures: dict[str, str] = {}
    for cell in about["cells"]:
        if not _is_cell(cell):
            problem = f"lists a cell that is none ({cell!r:.60})"
            raise DataError(problem, value=folder / "grid.json", fix="run `r2d2net reproduce`")
        path = cell_path(folder, cell["key"])
        result = _stored_result(path) if table is None else table.get(cell["key"])
        if result is not None and result["settings"] == cell["settings"]:
            results.append(result)
            continue
        missing.append(cell["key"])
        log = path.with_suffix(".log")
        if result is None and log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            failures[cell["key"]] = next((line for line in reversed(lines) if line.strip()), "")
    return GridResults(about, results, missing, failures)


def _stored_result(path: Path) -> dict[str, Any] | None:
    return read_cell(path) if path.exists() else None


def _is_cell(cell: Any) -> bool:
    """Whether an entry of grid.json has settings and a key that can be the name of a file."""
    return isinstance(cell, dict) and isinstance(cell.get("settings"), dict) and is_file_name(cell.get("key"))
