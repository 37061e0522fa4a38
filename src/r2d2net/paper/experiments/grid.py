"""A grid of cells, each with its own seed, result file and log; cells that have a result are not computed again.

    <out>/<artefact>-<scale>/cells/<key>.json     settings, seed, result, versions, commit, wall time
    <out>/<artefact>-<scale>/cells/<key>.log      what the cell printed, and its traceback if it failed
    <out>/<artefact>-<scale>/runs/<key>/          checkpoints, from which an interrupted cell resumes
    <out>/<artefact>-<scale>/shared/              files that later stages read, such as the weights of an oracle

A cell's result is a function of its settings alone, so a grid that was killed and started again ends with the results
of one that was not. A cell whose result file has other settings is computed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.errors import ParameterError
from r2d2net.paper.cell_files import Result, cell_path, read_cell

Settings = dict[str, Any]


class Place(NamedTuple):
    """Folders to which a cell may write."""

    run: Path  # its checkpoints; removed when the cell is done
    shared: Path  # files that other cells read


Compute = Callable[[Settings, Place], dict[str, Any]]  # -> the result, plain JSON


class Cell(NamedTuple):
    """One entry of a table, or one curve of a figure, of one replicate."""

    key: str  # a file name
    settings: Settings  # plain JSON: everything that decides the result, including the seed
    stage: int = 0  # cells of a stage start when those of all earlier stages have ended
    needs: tuple[str, ...] = ()  # keys of cells of earlier stages whose shared files it reads
    leaves: tuple[str, ...] = ()  # names of the shared files it writes


class Grid(NamedTuple):
    """Cells that one function computes, and the folder of their results."""

    cells: Sequence[Cell]
    compute: Compute  # a function of a module, so that it can be sent to other processes
    folder: Path

    @property
    def shared(self) -> Path:
        """The folder of the files that cells leave for others."""
        return self.folder / "shared"

    def path(self, cell: Cell) -> Path:
        """Return where the result file of a cell is."""
        return cell_path(self.folder, cell.key)

    def log(self, cell: Cell) -> Path:
        """Return where the log of a cell is."""
        return self.path(cell).with_suffix(".log")

    def place(self, cell: Cell) -> Place:
        """Return the folders to which a cell may write."""
        return Place(self.folder / "runs" / cell.key, self.shared)

    def result(self, cell: Cell) -> Result | None:
        """Read the result file of a cell.

        Returns:
            The whole file; None if there is none with the settings of the cell.

        Raises:
            DataError: The file is damaged.
        """
        path = self.path(cell)
        result = read_cell(path) if path.exists() else None
        return result if result is not None and result["settings"] == json.loads(json.dumps(cell.settings)) else None

    def results(self) -> list[Result]:
        """Read the result files of all cells that have one."""
        return [result for cell in self.cells if (result := self.result(cell)) is not None]

    def unfinished(self) -> list[Cell]:
        """Find the cells without a result, and cells whose shared files are lost and needed by one of them."""
        unfinished: set[str] = set()
        needed: set[str] = set()
        for cell in sorted(self.cells, key=lambda cell: -cell.stage):
            lost = not all((self.shared / name).exists() for name in cell.leaves)
            if self.result(cell) is None or (lost and cell.key in needed):
                unfinished.add(cell.key)
                needed.update(cell.needs)
        return [cell for cell in self.cells if cell.key in unfinished]

    def only(self, words: Sequence[str]) -> Grid:
        """Select the cells whose key contains one of these words, and the cells that they need.

        Args:
            words: Parts of keys; blanks around them are ignored. Without words all cells are selected.

        Returns:
            A grid of the selected cells.

        Raises:
            ParameterError: A word is in no key.
        """
        parts = [word.strip() for word in words if word.strip()]
        if not parts:
            return self
        unknown = [part for part in parts if not any(part in cell.key for cell in self.cells)]
        if unknown:
            example = self.cells[-1].key
            fix = f"use parts of keys, such as {example}"
            raise ParameterError("matches no cell", argument="only", value=",".join(unknown), fix=fix)
        selected = {cell.key for cell in self.cells if any(part in cell.key for part in parts)}
        for cell in sorted(self.cells, key=lambda cell: -cell.stage):
            if cell.key in selected:
                selected.update(cell.needs)
        return self._replace(cells=[cell for cell in self.cells if cell.key in selected])
