"""What a grid of cells left in its folder, as reports read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.errors import DataError

ABOUT = ("artefact", "title", "scale", "reduced", "cells")
RESULT = ("key", "settings", "seed", "versions", "commit", "seconds", "result")


class Found(NamedTuple):
    """A grid's folder as it was read."""

    about: dict[str, Any]
    results: list[dict[str, Any]]
    missing: list[str]  # keys of cells without a result
    failures: dict[str, str] = {}  # noqa: RUF012 -- never changed; key -> last line of the log, of cells that were begun

    @property
    def name(self) -> str:
        """What the command line calls the artefact."""
        return str(self.about["artefact"])

    @property
    def variant(self) -> str:
        """Which variant of the artefact; "" where it has none."""
        return str(self.about.get("variant") or "")


def read_folder(folder: Path) -> Found:
    """What a grid left in its folder; files that are none of a grid's are one clear error."""
    about = _read(folder / "grid.json", ABOUT, "run `r2d2net reproduce` first")
    results: list[dict[str, Any]] = []
    missing: list[str] = []
    failures: dict[str, str] = {}
    for cell in about["cells"]:
        if not _is_cell(cell):
            raise DataError(f"{folder / 'grid.json'} lists a cell that is none ({cell!r:.60}): run `r2d2net reproduce`")
        place = folder / "cells" / f"{cell['key']}.json"
        found = _read(place, RESULT, "remove it and run `r2d2net reproduce` again") if place.exists() else None
        if found is not None and found["settings"] == cell["settings"]:
            results.append(found)
            continue
        missing.append(cell["key"])
        log = place.with_suffix(".log")
        if found is None and log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            failures[cell["key"]] = next((line for line in reversed(lines) if line.strip()), "")
    return Found(about, results, missing, failures)


def _is_cell(cell: Any) -> bool:
    """Whether it has settings, and a key that is a file's name and no way to elsewhere."""
    if not isinstance(cell, dict) or not isinstance(cell.get("settings"), dict):
        return False
    return isinstance(cell.get("key"), str) and Path(cell["key"]).name == cell["key"] != ""


def _read(path: Path, names: tuple[str, ...], fix: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}): {fix}") from error
    absent = [name for name in names if not isinstance(found, dict) or name not in found]
    if absent:
        raise DataError(f"{path} is no file of a grid (without {absent[0]!r}): {fix}")
    return found
