"""Units of data that come batch by batch: means and deviations by one pass, in memory for one batch.

The moments of a and b rows join to those of a + b rows (Chan, Golub and LeVeque, 1983):

    m = m_a + (m_b - m_a) b / (a + b),      S = S_a + S_b + (m_b - m_a)^2 a b / (a + b),      deviation^2 = S / (a + b)

in float64, column by column. Targets that are NaN are not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, Shown, Value
from r2d2net.inference.base import Batch
from r2d2net.likelihoods.base import Unit
from r2d2net.likelihoods.masked import has_missing, require_some
from r2d2net.network_inputs import Units, no_units
from r2d2net.ranks import ALONE, Ranks


@dataclass
class Moments:
    """Moments of columns over the rows seen so far."""

    rows: Tensor  # seen of each column
    mean: Tensor
    squares: Tensor  # S, the sum of squared deviations
    largest: Tensor  # of the absolute values
    most: Tensor  # largest value
    dtype: torch.dtype

    @classmethod
    def of(cls, values: Tensor) -> Moments:
        """Return the moments of a batch, (rows, ...)."""
        exact = values.detach().double()
        missing = exact.isnan()
        if not bool(missing.any()):
            mean = exact.mean(0)
            squares = (exact - mean).square().sum(0)
            rows = torch.full_like(mean, len(exact))
            return cls(rows, mean, squares, exact.abs().amax(0), exact.amax(0), values.dtype)
        mean = exact.nanmean(0).nan_to_num()
        squares = (exact - mean).square().nansum(0)
        most = exact.masked_fill(missing, -torch.inf).amax(0)
        rows = (~missing).sum(0).double()
        return cls(rows, mean, squares, exact.nan_to_num().abs().amax(0), most, values.dtype)

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
        some = rows.clamp(min=1)
        self.squares += new.squares + apart.square() * (self.rows * new.rows / some)
        self.mean = self.mean + apart * (new.rows / some)
        self.largest, self.most = torch.maximum(self.largest, new.largest), torch.maximum(self.most, new.most)
        self.rows = rows

    def joined(self, ranks: Ranks) -> Moments:
        """Return the moments of the rows of all ranks, of which each has seen others."""
        own = torch.stack([self.rows, self.mean, self.squares, self.largest, self.most])
        every = ranks.gathered(own.unsqueeze(0).to(ranks.device)).to(own.device)
        parts = [
            Moments(rows, mean, squares, largest, most, self.dtype) for rows, mean, squares, largest, most in every
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


class Measured(NamedTuple):
    """What a pass over data that come in batches has found.

    Attributes:
        units: The units. Inputs are standardised where they are tables of floating numbers.
        rows: Number of rows.
        missing: Whether some targets are NaN.
    """

    units: Units
    rows: int
    missing: bool


def stream_units(batches: Iterable[Batch], *, targets: bool, like: Tensor, ranks: Ranks = ALONE) -> Measured:
    """Measure the units of data that come in batches.

    Args:
        batches: Inputs and targets, the latter on the scale that is standardised; each row once.
        targets: Whether to standardise the targets.
        like: Tensor whose dtype and device units have that standardise nothing.
        ranks: Processes, where the batches of each are its part of the rows.

    Returns:
        What was found.

    Raises:
        DataError: If batches have different columns, or an output has no target.
    """
    of_x: Moments | None = None
    of_y: Moments | None = None
    rows, missing = 0, False
    for x, y in batches:
        rows += len(y)
        missing = missing or has_missing(y)
        if is_table(x):
            of_x = _with(of_x, x)
        if targets:
            of_y = _with(of_y, y)
    if ranks.size > 1:
        rows, missing = sum(ranks.gather_json(rows)), any(ranks.gather_json(missing))
        of_x, of_y = (None if moments is None else moments.joined(ranks) for moments in (of_x, of_y))
    units = no_units(like)
    if of_x is not None:
        units = units._replace(x_center=of_x.center(), x_scale=of_x.scale())
    if of_y is not None:
        require_some(of_y.rows, rows)
        units = units._replace(y=Unit(of_y.center(), of_y.scale(), of_y.most.to(of_y.dtype)))
    return Measured(units, rows, missing)


def is_table(x: object) -> bool:
    """Tell whether inputs are a table of floating numbers, which is standardised."""
    return isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point()


def _with(moments: Moments | None, values: Tensor) -> Moments:
    if moments is None:
        return Moments.of(values)
    moments.add(values)
    return moments
