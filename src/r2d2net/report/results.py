"""What a grid of cells left in its folder, as reports read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.errors import DataError


class Found(NamedTuple):
    """A grid's folder as it was read."""

    about: dict[str, Any]
    results: list[dict[str, Any]]
    missing: list[str]  # keys of cells without a result


def read_folder(folder: Path) -> Found:
    """What a grid left in its folder."""
    path = folder / "grid.json"
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}): run `r2d2net reproduce` first") from error
    results, missing = [], []
    for cell in about["cells"]:
        place = folder / "cells" / f"{cell['key']}.json"
        found = json.loads(place.read_text(encoding="utf-8")) if place.exists() else None
        if found is None or found["settings"] != cell["settings"]:
            missing.append(cell["key"])
        else:
            results.append(found)
    return Found(about, results, missing)
