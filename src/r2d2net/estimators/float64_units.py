"""Columns that float32 does not hold: 100,000 +- 1, Unix times, sizes of 1e-40.

Networks are trained in float32, tables are float64. Such a column is centred, and as an input scaled, in float64 before
it becomes float32; all others become float32 as they are. What was done is then part of the posterior's units, kept in
float64, so that the posterior takes inputs and predicts targets in the user's units.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.likelihoods.base import Unit
from r2d2net.new_inputs import as_tensors
from r2d2net.posterior import Posterior
from r2d2net.units import Units, no_units

FAR = 1e-3  # of the mean: smaller deviations are rounded in float32 by 1e-4 of themselves or so, and more
SMALLEST, LARGEST = 1e-30, 1e30  # deviations that float32 holds with room to spare


class Moved(NamedTuple):
    """What is subtracted from each column, and what it is then divided by: 0 and 1 for most."""

    center: np.ndarray
    scale: np.ndarray

    def of(self, values: np.ndarray) -> Tensor:
        """The columns, moved, in float32."""
        return torch.from_numpy((values - self.center) / self.scale).float()

    @property
    def is_nothing(self) -> bool:
        return bool((self.center == 0).all() and (self.scale == 1).all())


NOTHING = Moved(np.zeros(()), np.ones(()))


def move_inputs(x: np.ndarray) -> Moved:
    """How to move the columns that float32 does not hold; rounding errors of float64 are no deviation."""
    size = np.abs(x).max(0)
    size = np.where(size > 0, size, 1.0)
    from_first = x / size - x[0] / size  # of a constant column exactly 0
    deviation = from_first.std(0)
    center = x[0] + size * from_first.mean(0)
    varies = deviation > 4 * np.finfo(np.float64).eps
    moves = varies & ((size * deviation < FAR * np.abs(center)) | (size < SMALLEST) | (size > LARGEST))
    return Moved(np.where(moves, center, 0.0), np.where(moves, size * deviation, 1.0))


def move_targets(y: np.ndarray) -> Moved:
    """How to centre targets that float32 does not hold; their scale is the user's, and so are scores of the fit.

    >>> move_targets(np.array([1e6 - 2, 1e6 + 2])).center
    array(1000000.)
    """
    center = move_inputs(y).center
    return Moved(center, np.ones_like(center))


class FarPosterior(Posterior):
    """A posterior that standardises inputs in float64, before they become float32."""

    def _outputs(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self.bare()._outputs(self.seen(x), *args, **kwargs)

    def seen(self, x: Any) -> Tensor:
        """The table as the network sees it."""
        table: Tensor = self.units.inputs(as_tensors(x).to(self.model.device, torch.float64))
        return table.to(self.model.dtype)

    def bare(self) -> Posterior:
        """The same network, of inputs as it sees them."""
        like = torch.zeros((), dtype=self.model.dtype, device=self.model.device)
        return Posterior(self.running, self.state, no_units(like), flat_target=self.flat_target)


def in_users_units(posterior: Posterior, x: Moved, y: Moved | None) -> Posterior:
    """The posterior of a fit to moved columns, for columns as the user has them; class numbers (None) do not move."""
    y = NOTHING if y is None else y
    units = posterior.units
    if (x.is_nothing and y.is_nothing) or _is_exact(units):  # the latter was saved in the folder of `fit_in`
        return exact_where_moved(posterior)
    inputs = _joined(x, Unit(units.x_center, units.x_scale))
    return exact_where_moved(posterior, Units(inputs.center, inputs.scale, _joined(y, units.y)))


def exact_where_moved(posterior: Posterior, units: Units | None = None) -> Posterior:
    """The posterior with these units; where they are float64 inputs are standardised so."""
    units = posterior.units if units is None else units
    if not _is_exact(units):
        return posterior
    return FarPosterior(
        posterior.running,
        posterior.state,
        units,
        flat_target=posterior.flat_target,
        history=posterior.history,
        settings=posterior.settings,
        candidates=posterior.candidates,
    )


def _is_exact(units: Units) -> bool:
    return units.x_scale.dtype == torch.float64


def _joined(moved: Moved, unit: Unit) -> Unit:
    """value = moved.center + moved.scale (unit.center + unit.scale z), z being what the network sees."""
    center, scale = (torch.from_numpy(np.array(part)).to(unit.center.device) for part in moved)
    return Unit(center + scale * unit.center.double(), scale * unit.scale.double())
