"""What a table or figure of the paper is: its cells at three scales, and the function that computes one of them.

smoke      about a minute: exercises everything, means nothing
machine    what two cores do in about an hour
paper      the paper's own settings, for a machine with a GPU
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from r2d2net.errors import ParameterError
from r2d2net.experiments.grid import Cell, Compute, Grid

Scale = Literal["smoke", "machine", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)


@dataclass(frozen=True)
class Artefact:
    """One table or figure.

    Attributes:
        name: What the command line calls it.
        title: What it shows, in a line.
        cells: (scale, replicates or None for the scale's own number) -> its cells.
        compute: The result of one cell; a function of a module, so that other processes find it.
        reduced: What is less than in the paper at a scale, in a sentence; "" where nothing is.
        data: Names of the data sets it needs (`r2d2net data list`).
    """

    name: str
    title: str
    cells: Callable[[Scale, int | None], Sequence[Cell]]
    compute: Compute
    reduced: Callable[[Scale], str]
    data: tuple[str, ...] = ()

    def grid(self, scale: Scale, out: Path, replicates: int | None = None, only: Sequence[str] = ()) -> Grid:
        """The cells at a scale; ``only`` keeps those whose key has one of these words in it, and what they need."""
        cells = list(self.cells(scale, replicates))
        wanted = [cell for cell in cells if not only or any(word in cell.key for word in only)]
        if not wanted:
            raise ParameterError(f"only={','.join(only)} matches no cell of {self.name}: a key is like {cells[-1].key}")
        return Grid(wanted, self.compute, out / f"{self.name}-{scale}")
