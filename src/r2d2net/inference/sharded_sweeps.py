"""Sweeps of scales that are divided among processes, each of which has those of its slice of the weights.

A layer that lies within one slice is swept by the rank that has it. One that is cut is swept part by part: local scales
by the ranks that have them, one sum over all ranks, then the shared scales, which every rank has (`layer_parts`).

Random numbers are those of an undivided sweep: ranks take their turns with one generator, whose state goes from rank to
rank, and layers are cut where the sweep of a whole one has its blocks. Coordinate ascent draws nothing: nobody waits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.base import flatten, unflatten
from r2d2net.inference.scale_updates import Known, Scales, ScaleUpdate
from r2d2net.model import BayesianModel, Slot
from r2d2net.priors.layer_parts import Divisible, is_divisible
from r2d2net.ranks import Ranks, Slices, Span


class Part(NamedTuple):
    """What this rank has of one parameter tensor.

    Attributes:
        slot: The tensor's place in the whole vector.
        own: The place of the rank's part in its slice, of no entries where it has none.
        first: Number of the part's first entry within the tensor.
        owners: The ranks that have parts.
    """

    slot: Slot
    own: Slot
    first: int
    owners: list[int]

    @property
    def is_cut(self) -> bool:
        """Whether several ranks have parts."""
        return len(self.owners) > 1

    @property
    def size(self) -> int:
        """Number of the part's entries."""
        return self.own.stop - self.own.start


def spans_of(model: BayesianModel[Any]) -> list[Span]:
    """Return the places of a model's Bayesian parameters, and which of them can be cut."""
    return [Span(slot.start, slot.stop, is_divisible(slot.prior)) for slot in model.bayesian]


def parts_of(model: BayesianModel[Any], slices: Slices) -> list[Part]:
    """Return what this rank has of each Bayesian parameter."""
    parts = []
    for slot in model.bayesian:
        span = slot.start, slot.stop
        start, stop = slices.within(span, slices.ranks.rank)
        whole = stop - start == slot.stop - slot.start
        here = start - slices.start if stop > start else 0
        own = slot._replace(
            shape=slot.shape if whole else torch.Size([stop - start]), start=here, stop=here + stop - start
        )
        parts.append(Part(slot, own, start - slot.start, slices.owners(span)))
    return parts


class ShardedSweeps:
    """The scales of all priors of a model, of which each rank has those of its part, and their update.

    Args:
        model: The model.
        update: How scales are refreshed.
        slices: The slices of the weights.
    """

    def __init__(self, model: BayesianModel[Any], update: ScaleUpdate, slices: Slices) -> None:
        self.model, self.update, self.slices = model, update, slices
        self.parts = parts_of(model, slices)
        self.forms: Scales = {}  # those of whole layers, as tensors without memory

    def start(self, generator: torch.Generator) -> Scales:
        """Draw the scales of every parameter from its prior, one whole layer at a time, and keep this rank's part."""
        scales: Scales = {}
        for part in self.parts:
            slot = part.slot
            assert slot.prior is not None
            drawn = slot.prior.init_scales(slot.shape, generator, dtype=self.model.dtype, device=self.model.device)
            tensors = flatten(drawn)
            self.forms[slot.name] = unflatten(drawn, {k: t.new_zeros(()).expand(t.shape) for k, t in tensors.items()})
            if part.is_cut:
                own = {name: self._cut(part, tensor) for name, tensor in tensors.items()}
                scales[slot.name] = type(drawn)(**own)
            elif part.size:
                scales[slot.name] = drawn
        return scales

    @staticmethod
    def _cut(part: Part, tensor: Tensor) -> Tensor:
        """Return a rank's part of a field of a layer's scales: all of it where it is shared."""
        if tensor.shape != part.slot.shape:
            return tensor
        return tensor.reshape(-1)[part.first : part.first + part.size].clone()

    def refresh(
        self, scales: Scales, precision: Tensor, known: Known, generator: torch.Generator, sweeps: int = 1
    ) -> None:
        """Refresh every parameter's scales and its entries of the precision 1 / v, in place; all ranks call this.

        Args:
            scales: This rank's scales.
            precision: Its slice of the precisions.
            known: Values of its slice of the weights.
            generator: Source of randomness, in the same state on all ranks before and after.
            sweeps: Number of refreshes of each parameter.
        """
        for part in self.parts:
            prior, name = part.slot.prior, part.slot.name
            assert prior is not None
            own = part.own.of(precision)
            if prior.known_deviation is not None:
                own.fill_(prior.known_deviation**-2)
                continue
            given = known.of(part.own)
            for _ in range(sweeps):
                if part.is_cut:
                    layer: Any = CutLayer(prior, self.slices.ranks, part)  # type: ignore[arg-type]
                    scales[name] = self.update(layer, scales[name], own, given, generator)
                    continue
                if part.size:
                    scales[name] = self.update(prior, scales[name], own, given, generator)
                if self.update.needs_draw:
                    self.slices.ranks.share_generator(generator, part.owners[0])


class CutLayer:
    """The prior of a layer that is cut, as a `ScaleUpdate` calls it: one sweep of all parts.

    Every rank calls it, also one whose part has no entries: it has the shared scales too.

    Args:
        prior: The prior.
        ranks: The processes.
        part: This rank's part.
    """

    def __init__(self, prior: Divisible, ranks: Ranks, part: Part) -> None:
        self.prior, self.ranks, self.part = prior, ranks, part
        self.count = part.slot.stop - part.slot.start

    def gibbs_(
        self, w: Tensor, scales: Any, precision: Tensor, generator: torch.Generator, *, compiled: bool = False
    ) -> Any:
        """Draw the scales of all parts, one part after the other."""
        total = w.new_zeros(())
        for owner in self.part.owners:
            if owner == self.ranks.rank:
                total = self.prior.gibbs_local_(w, scales, precision, generator)
            self.ranks.share_generator(generator, owner)
        return self.prior.gibbs_shared(scales, self.ranks.sum_(total), self.count, generator)

    def cavi_(self, second_moment: Tensor, scales: Any, precision: Tensor, *, compiled: bool = False) -> Any:
        """Update the factors of all parts."""
        empty = second_moment.new_zeros(())
        total = self.prior.cavi_local_(second_moment, scales, precision) if self.part.size else empty
        return self.prior.cavi_shared(scales, self.ranks.sum_(total), self.count)
