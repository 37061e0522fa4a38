"""Units of data that come batch by batch: means and deviations by one pass, in memory for one batch.

The moments of a and b rows join to those of a + b rows (Chan, Golub and LeVeque, 1983):

    m = m_a + (m_b - m_a) b / (a + b),      S = S_a + S_b + (m_b - m_a)^2 a b / (a + b),      deviation^2 = S / (a + b)

in float64, column by column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from r2d2net.errors import DataError, Shown, Value
from r2d2net.inference.base import Batch
from r2d2net.likelihoods.base import Unit
from r2d2net.network_inputs import Units, no_units
from r2d2net.ranks import ALONE, Ranks


@dataclass
class Moments:
    """Moments of columns over the rows seen so far."""

    rows: int
    mean: Tensor
    squares: Tensor  # S, the sum of squared deviations
    largest: Tensor  # of the absolute values
    most: Tensor  # largest value
    dtype: torch.dtype

    @classmethod
    def of(cls, values: Tensor) -> Moments:
        """Return the moments of a batch, (rows, ...)."""
        exact = values.detach().double()
        mean = exact.mean(0)
        squares = (exact - mean).square().sum(0)
        return cls(len(exact), mean, squares, exact.abs().amax(0), exact.amax(0), values.dtype)

    def add(self, values: Tensor) -> None:
        """Take in the rows of another batch."""
        new = Moments.of(values)
        if new.mean.shape != self.mean.shape:
            shapes = f"{tuple(new.mean.shape)} and {tuple(self.mean.shape)}"
            raise DataError(("gives rows of shapes ", Value(Shown(shapes))), argument="data", fix="they must agree")
        self.join(new)

    def join(self, new: Moments) -> None:
        """Take in the moments of other rows."""
        rows, apart = self.rows + new.rows, new.mean - self.mean
        self.squares += new.squares + apart.square() * (self.rows * new.rows / rows)
        self.mean = self.mean + apart * (new.rows / rows)
        self.largest, self.most = torch.maximum(self.largest, new.largest), torch.maximum(self.most, new.most)
        self.rows = rows

    def joined(self, ranks: Ranks) -> Moments:
        """Return the moments of the rows of all ranks, of which each has seen others."""
        own = torch.stack([self.mean, self.squares, self.largest, self.most])
        counts = ranks.gather_json(self.rows)
        every = ranks.gathered(own.unsqueeze(0).to(ranks.device)).to(own.device)
        parts = [
            Moments(rows, mean, squares, largest, most, self.dtype)
            for rows, (mean, squares, largest, most) in zip(counts, every, strict=True)
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole.join(part)
        return whole

    def center(self) -> Tensor:
        """Return the means, in the dtype of the values."""
        return self.mean.to(self.dtype)

    def scale(self) -> Tensor:
        """Return the standard deviations; 1 where a column varies by no more than its rounding error."""
        deviation = (self.squares / self.rows).sqrt()
        varies = deviation > 4 * torch.finfo(self.dtype).eps * self.largest
        return torch.where(varies, deviation, 1.0).to(self.dtype)


def stream_units(batches: Iterable[Batch], *, targets: bool, like: Tensor, ranks: Ranks = ALONE) -> tuple[Units, int]:
    """Measure the units of data that come in batches.

    Args:
        batches: Inputs and targets, the latter on the scale that is standardised; each row once.
        targets: Whether to standardise the targets.
        like: Tensor whose dtype and device units have that standardise nothing.
        ranks: Processes, where the batches of each are its part of the rows.

    Returns:
        The units, and the number of rows. Inputs are standardised where they are tables of floating numbers.

    Raises:
        DataError: If batches have different columns.
    """
    of_x: Moments | None = None
    of_y: Moments | None = None
    rows = 0
    for x, y in batches:
        rows += len(y)
        if is_table(x):
            of_x = _with(of_x, x)
        if targets:
            of_y = _with(of_y, y)
    if ranks.size > 1:
        rows = sum(ranks.gather_json(rows))
        of_x, of_y = (None if moments is None else moments.joined(ranks) for moments in (of_x, of_y))
    units = no_units(like)
    if of_x is not None:
        units = units._replace(x_center=of_x.center(), x_scale=of_x.scale())
    if of_y is not None:
        units = units._replace(y=Unit(of_y.center(), of_y.scale(), of_y.most.to(of_y.dtype)))
    return units, rows


def is_table(x: object) -> bool:
    """Tell whether inputs are a table of floating numbers, which is standardised."""
    return isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point()


def _with(moments: Moments | None, values: Tensor) -> Moments:
    if moments is None:
        return Moments.of(values)
    moments.add(values)
    return moments
