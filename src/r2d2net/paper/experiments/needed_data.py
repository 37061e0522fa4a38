"""Which data sets a grid reads, and whether they are there: asked before anything is run."""

from __future__ import annotations

import os
from collections.abc import Collection

from r2d2net.data.loading import VARIABLE, data_root, find, known, split_of
from r2d2net.errors import DataError, R2D2NetError
from r2d2net.paper.experiments.artefact import Artefact
from r2d2net.paper.experiments.grid import Cell


def require_data(artefact: Artefact, cells: Collection[Cell]) -> None:
    """Refuse to begin without the data sets that the cells read: one line names all that are not there."""
    missing = {
        name: lost for name, splits in needed_data(artefact, cells).items() if (lost := missing_splits(name, splits))
    }
    if not missing:
        return
    names = ", ".join(f"{name} ({' and '.join(splits)})" for name, splits in missing.items())
    root = os.environ.get(VARIABLE)
    where = f"not in {VARIABLE}={root}" if root else f"{VARIABLE} is not set"
    public = [name for name, splits in missing.items() if known(name).fetchable(splits[0])]
    get = f"; `r2d2net data fetch {' '.join(public)}` downloads to it" if public else ""
    raise DataError(f"{artefact.name} needs {names}, {where}: set it to the folder that holds the data sets{get}")


def needed_data(artefact: Artefact, cells: Collection[Cell]) -> dict[str, tuple[str, ...]]:
    """Data set -> the splits that the cells read.

    A cell trains on the set that its settings name, or else on the artefact's first, and tests on the others too.
    """
    if not cells:
        return {}
    named = dict.fromkeys(cell.settings["set"] for cell in cells if "set" in cell.settings)
    trained = tuple(named) or artefact.data[:1]
    return {name: ("train", "test") if name in trained else ("test",) for name in tuple(named) or artefact.data}


def missing_splits(name: str, splits: Collection[str]) -> list[str]:
    """Those splits of a set, by its own names, whose files are not in the folder that R2D2NET_DATA names."""
    entry = known(name)
    missing = []
    for split in dict.fromkeys(split_of(entry, one if len(entry.splits) > 1 else None) for one in splits):
        try:
            find(entry, data_root(None), split)
        except R2D2NetError:
            missing.append(split)
    return missing
