"""Refreshes of the scales of layers that have lost some of their weights for good.

A weight that is held at zero has left its layer: it is no observation of the scales that it shared. With k weights left
of p, R2D2's conditional of the global scale is

    xi | T ~ Gamma(k a_pi + b, 1 + sum of T_j over the k)

and so for every prior: counts and sums are over the weights that are left. Were the zeros counted, each would add a_pi
to the shape and next to nothing to the rate, since its T_j falls to zero with it; xi would rise with every weight that
is cut, and the variances of those that are left would fall. A layer without its zeros is refreshed as a vector of its
other weights, under the prior that `ScaleMixturePrior.kept` gives them; scales of weights that are gone stay as they
were. Under a stated R2 (`R2D2.from_r2`) few weights may have too small a concentration: it is raised so that R2 has
the law that was stated (`R2D2.smaller`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Value
from r2d2net.inference.scale_updates import Known, Scales, ScaleSweeps
from r2d2net.model import AnyPrior
from r2d2net.priors.base import ScaleMixturePrior
from r2d2net.priors.weight_groups import has_members


class KeptLayer(NamedTuple):
    """A layer and the weights that are left of it.

    Attributes:
        prior: Prior of the weights that are left, as a layer of one dimension.
        keep: Which weights they are, in the shape of the layer.
    """

    prior: AnyPrior
    keep: Tensor

    def scales(self, scales: Any) -> Any:
        """Copy the scales that have a weight left, as vectors; a scale of the whole layer stays a number."""
        return type(scales)._make(x.clone() if x.dim() == 0 else x[self._present(x)] for x in scales)

    def with_scales(self, scales: Any, new: Any) -> Any:
        """Return the scales of the whole layer with new ones in their places, in the memory of the old ones."""
        for old, fresh in zip(scales, new, strict=True):
            if old.dim() == 0:
                old.copy_(fresh.reshape(()))
            else:
                old[self._present(old)] = fresh
        return scales

    def _present(self, scale: Tensor) -> Tensor:
        return self.keep if scale.shape == self.keep.shape else has_members(self.keep, scale.shape)

    def require_kept(self, name: str, prior: AnyPrior, scales: Any) -> None:
        """Refuse a prior from outside that shares scales among some weights and has not said what is left of them."""
        shared = [x for x in scales if x.dim() and x.shape != self.keep.shape]
        if shared and type(prior).kept is ScaleMixturePrior.kept:
            problem = ("shares scales among some weights of ", Value(name), ", of which some are gone")
            raise ParameterError(problem, argument="prior", value=prior, fix="define its kept")


class KeptSweeps(ScaleSweeps):
    """Refreshes of the scales of all priors of a model some of whose weights are gone.

    Args:
        sweeps: Refreshes of the model with all weights.
        keep: Which weights are left, (weights,).
    """

    def __init__(self, sweeps: ScaleSweeps, keep: Tensor) -> None:
        super().__init__(sweeps.model, sweeps.update)
        self.layers: dict[str, KeptLayer] = {}
        for slot in self.model.bayesian:
            own = slot.of(keep)
            if slot.prior is not None and slot.prior.has_scales and bool(own.any()) and not bool(own.all()):
                self.layers[slot.name] = KeptLayer(slot.prior.kept(own), own)

    def refresh(
        self, scales: Scales, precision: Tensor, known: Known, generator: torch.Generator, sweeps: int = 1
    ) -> None:
        if not self.layers:
            super().refresh(scales, precision, known, generator, sweeps)
            return
        for slot in self.model.bayesian:
            assert slot.prior is not None
            own_precision, own = slot.of(precision), known.of(slot)
            layer = self.layers.get(slot.name)
            if slot.prior.known_deviation is not None:
                own_precision.fill_(slot.prior.known_deviation**-2)
            elif layer is None:
                for _ in range(sweeps):
                    scales[slot.name] = self.update(slot.prior, scales[slot.name], own_precision, own, generator)
            else:
                layer.require_kept(slot.name, slot.prior, scales[slot.name])
                second = None if own.second_moment is None else own.second_moment[layer.keep]
                left, room = Known(own.weights[layer.keep], second), own_precision[layer.keep]
                new = layer.scales(scales[slot.name])
                for _ in range(sweeps):
                    new = self.update(layer.prior, new, room, left, generator)
                own_precision[layer.keep] = room
                scales[slot.name] = layer.with_scales(scales[slot.name], new)
