"""The data sets that a grid reads, and the check that they are there before anything is run."""

from __future__ import annotations

import os
from collections.abc import Collection

from r2d2net.data.loading import VARIABLE, data_root, find, known, split_of
from r2d2net.errors import DataError, R2D2NetError
from r2d2net.paper.experiments.artefact import Artefact
from r2d2net.paper.experiments.grid import Cell


def require_data(artefact: Artefact, cells: Collection[Cell]) -> None:
    """Check that all data sets that the cells read are there.

    Args:
        artefact: The artefact of the cells.
        cells: The cells that are to be computed.

    Raises:
        DataError: Some are not; the one line names all of them.
    """
    missing = {
        name: absent
        for name, splits in required_splits(artefact, cells).items()
        if (absent := missing_splits(name, splits))
    }
    if not missing:
        return
    names = ", ".join(f"{name} ({' and '.join(splits)})" for name, splits in missing.items())
    root = os.environ.get(VARIABLE)
    where = f"not in {VARIABLE}={root}" if root else f"{VARIABLE} is not set"
    public = [name for name, splits in missing.items() if known(name).fetchable(splits[0])]
    fetch = f"; `r2d2net data fetch {' '.join(public)}` downloads to it" if public else ""
    fix = f"set it to the folder that holds the data sets{fetch}"
    raise DataError(f"{artefact.name} needs {names}, {where}", fix=fix)


def required_splits(artefact: Artefact, cells: Collection[Cell]) -> dict[str, tuple[str, ...]]:
    """Find the data sets that cells read, and which splits of them.

    A cell trains on the set that its settings name, or else on the artefact's first, and tests on the others too.

    Args:
        artefact: The artefact of the cells.
        cells: The cells.

    Returns:
        Names of splits by the name of their data set.
    """
    if not cells:
        return {}
    named = dict.fromkeys(cell.settings["set"] for cell in cells if "set" in cell.settings)
    trained = tuple(named) or artefact.data[:1]
    return {name: ("train", "test") if name in trained else ("test",) for name in tuple(named) or artefact.data}


def missing_splits(name: str, splits: Collection[str]) -> list[str]:
    """Find the splits of a data set whose files are not in the folder that R2D2NET_DATA names.

    Args:
        name: The data set.
        splits: "train" or "test"; a set with one split has that one for both.

    Returns:
        The missing splits by the names that the set itself has for them.
    """
    entry = known(name)
    missing = []
    for own_name in dict.fromkeys(split_of(entry, split if len(entry.splits) > 1 else None) for split in splits):
        try:
            find(entry, data_root(None), own_name)
        except R2D2NetError:
            missing.append(own_name)
    return missing
