"""Columns that float32 does not hold: 100,000 +- 1, Unix times, sizes of 1e-40.

Networks are trained in float32, tables are float64. Such a column is centred, and as an input scaled, in float64 before
it becomes float32; all others become float32 as they are. What was done is then part of the posterior's units, kept in
float64, so that the posterior takes inputs and predicts targets in the user's units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError, Value
from r2d2net.likelihoods.base import Unit
from r2d2net.network_inputs import Units
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT

SMALLEST_TARGET = float(np.finfo(np.float32).smallest_subnormal)
FAR = 1e-3  # of the mean: smaller deviations are rounded in float32 by 1e-4 of themselves or so, and more
SMALLEST, LARGEST = 1e-30, 1e30  # deviations that float32 holds with room to spare


class Moved(NamedTuple):
    """Centre and scale of each column: 0 and 1 for columns that float32 can represent."""

    center: np.ndarray
    scale: np.ndarray

    def of(self, values: np.ndarray) -> Tensor:
        """Centre and scale the columns, and convert them to float32."""
        return torch.from_numpy((values - self.center) / self.scale).float()

    @property
    def is_nothing(self) -> bool:
        return bool((self.center == 0).all() and (self.scale == 1).all())


NOTHING = Moved(np.zeros(()), np.ones(()))


def move_inputs(x: np.ndarray) -> Moved:
    """Find centres and scales of the columns that float32 cannot represent; rounding is not variation."""
    size = np.abs(x).max(0)
    size = np.where(size > 0, size, 1.0)
    from_first = x / size - x[0] / size  # of a constant column exactly 0
    deviation = from_first.std(0)
    center = x[0] + size * from_first.mean(0)
    varies = deviation > 4 * np.finfo(np.float64).eps
    moves = varies & ((size * deviation < FAR * np.abs(center)) | (size < SMALLEST) | (size > LARGEST))
    return Moved(np.where(moves, center, 0.0), np.where(moves, size * deviation, 1.0))


def require_float32(y: np.ndarray) -> None:
    """Refuse targets of which float32 would make zeros or infinities, as no target is scaled before.

    Raises:
        DataError: The largest target is too small or too large.
    """
    largest = float(np.abs(y).max(initial=0.0))
    if largest and not SMALLEST_TARGET <= largest <= np.finfo(np.float32).max:
        problem = ("has values of size ", Value(largest, ".3g"), ", which float32 does not hold")
        raise DataError(problem, argument="y", fix="rescale it to between 1e-15 and 1e+15")


def move_targets(y: np.ndarray) -> Moved:
    """How to centre targets that float32 does not hold; their scale is the user's, and so are scores of the fit.

    >>> move_targets(np.array([1e6 - 2, 1e6 + 2])).center
    array(1000000.)
    """
    center = move_inputs(y).center
    return Moved(center, np.ones_like(center))


def in_users_units(posterior: Posterior[PredictionT], x: Moved, y: Moved | None) -> Posterior[PredictionT]:
    """Return the posterior of a fit to moved columns, for columns as the user has them.

    Args:
        posterior: The posterior of the moved columns.
        x: How the inputs were moved.
        y: How the targets were moved; None for class numbers, which do not move.
    """
    y = NOTHING if y is None else y
    units = posterior.units
    # units that are float64 already were saved in the folder of `fit_in`
    if (x.is_nothing and y.is_nothing) or units.are_exact_for(posterior.model.dtype):
        return posterior
    inputs = _joined(x, Unit(units.x_center, units.x_scale))
    return posterior.with_units(Units(inputs.center, inputs.scale, _joined(y, units.y)))


def _joined(moved: Moved, unit: Unit) -> Unit:
    """value = moved.center + moved.scale (unit.center + unit.scale z), z being what the network sees."""
    center, scale = (torch.from_numpy(np.array(part)).to(unit.center.device) for part in moved)
    most = None if unit.most is None else center + scale * unit.most.double()
    return Unit(center + scale * unit.center.double(), scale * unit.scale.double(), most)
