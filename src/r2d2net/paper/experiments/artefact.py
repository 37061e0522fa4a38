"""A table or figure of the paper as a declaration: its cells at three scales, and the function that computes a cell.

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
        name: Its name on the command line.
        title: What it shows, in one line.
        cells: Function of a scale and a number of replicates (None for the scale's own) that returns the cells.
        compute: Function that computes the result of a cell; of a module, so that it can be sent to other processes.
        reduced: Function of a scale that says, in a sentence, what is less than in the paper; "" if nothing is.
        data: Names of the data sets that it needs (`r2d2net data list`).
        variants: Names of its variants, the default first; ``cells`` then takes a ``variant``.
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
        """Return the grid of all cells at a scale.

        Args:
            scale: The scale.
            out: Folder of all results; the grid has a folder in it, and each variant but the default one of its own.
            replicates: Number of replicates; None for the scale's own.
            variant: The variant; None for the default.

        Returns:
            The grid.

        Raises:
            ParameterError: There is no such variant.
        """
        if variant is not None and variant not in self.variants:
            use = f"use {' or '.join(self.variants)}" if self.variants else f"{self.name} has no variants, leave it out"
            raise ParameterError("is not known", argument="variant", value=variant, fix=use)
        name = self.name if variant is None or variant == self.variants[0] else f"{self.name}-{variant}"
        options = {"variant": variant or self.variants[0]} if self.variants else {}
        return Grid(list(self.cells(scale, replicates, **options)), self.compute, out / f"{name}-{scale}")


def cells_of_rows(
    rows: Sequence[str], replicates: int, first_seed: int, settings: Settings | Callable[[str], Settings]
) -> list[Cell]:
    """Return a cell for every row in every replicate.

    Args:
        rows: Names of the rows.
        replicates: Number of replicates.
        first_seed: Seed of the first replicate; each further one has the next number.
        settings: Settings that all cells share, or a function of the row that returns them.

    Returns:
        The cells, replicate by replicate.
    """
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
