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
from r2d2net.paper.experiments.grid import Cell, Compute, Grid, Settings

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
        variants: Kinds of it, the default first; ``cells`` then takes a ``variant``.
        gpu: Whether its networks are trained on a GPU where there is one.
    """

    name: str
    title: str
    cells: Callable[..., Sequence[Cell]]
    compute: Compute
    reduced: Callable[[Scale], str]
    data: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    gpu: bool = False

    def grid(self, scale: Scale, out: Path, replicates: int | None = None, variant: str | None = None) -> Grid:
        """All cells at a scale; each variant but the default has its own folder."""
        if variant is not None and variant not in self.variants:
            use = f"use {' or '.join(self.variants)}" if self.variants else f"{self.name} has no variants, leave it out"
            raise ParameterError(f"variant={variant!r} is not known: {use}")
        name = self.name if variant is None or variant == self.variants[0] else f"{self.name}-{variant}"
        options = {"variant": variant or self.variants[0]} if self.variants else {}
        return Grid(list(self.cells(scale, replicates, **options)), self.compute, out / f"{name}-{scale}")


def cells_of_rows(
    rows: Sequence[str], replicates: int, first_seed: int, settings: Settings | Callable[[str], Settings]
) -> list[Cell]:
    """Every row in every replicate; ``settings`` are the same for all, or a function of the row."""
    return [
        Cell(
            f"{row}-{replicate}",
            {
                "row": row,
                "replicate": replicate,
                "seed": first_seed + replicate,
                **(settings(row) if callable(settings) else settings),
            },
        )
        for replicate in range(replicates)
        for row in rows
    ]


def only(grid: Grid, given: Sequence[str]) -> Grid:
    """The cells whose key has one of these words in it, and those that they need; all cells if there are no words."""
    words = [word.strip() for word in given if word.strip()]
    if not words:
        return grid
    odd = [word for word in words if not any(word in cell.key for cell in grid.cells)]
    if odd:
        raise ParameterError(f"only='{','.join(odd)}' matches no cell: use parts of keys, such as {grid.cells[-1].key}")
    wanted = {cell.key for cell in grid.cells if any(word in cell.key for word in words)}
    for cell in sorted(grid.cells, key=lambda cell: -cell.stage):
        if cell.key in wanted:
            wanted.update(cell.needs)
    return grid._replace(cells=[cell for cell in grid.cells if cell.key in wanted])
