"""A flat vector of which each rank keeps one slice: ZeRO's first stage, without its padding.

    rank r of k has the entries bounds[r], ..., bounds[r + 1] - 1, about 1 / k of them

    gather_      whole vectors from slices: each rank sends its own
    sums         slices of a sum over ranks: each rank receives its own

A vector of n numbers goes over the network once each way, as in an all-reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.ranks.group import LARGE, Ranks


class Span(NamedTuple):
    """The place of a tensor in the flat vector."""

    start: int
    stop: int
    can_be_cut: bool


@dataclass(frozen=True)
class Slices:
    """The slices of a flat vector.

    Args:
        ranks: The processes.
        bounds: First entry of each rank's slice, and the length of the vector.
    """

    ranks: Ranks
    bounds: tuple[int, ...]

    @property
    def start(self) -> int:
        """First entry of this rank."""
        return self.bounds[self.ranks.rank]

    @property
    def stop(self) -> int:
        """The entry after this rank's last one."""
        return self.bounds[self.ranks.rank + 1]

    def of(self, vector: Tensor) -> Tensor:
        """Return this rank's slice, a view."""
        return vector[self.start : self.stop]

    def within(self, span: tuple[int, int], rank: int) -> tuple[int, int]:
        """Return the entries of a span that a rank has, as first and one after the last; alike where it has none."""
        start, stop = max(span[0], self.bounds[rank]), min(span[1], self.bounds[rank + 1])
        return (start, stop) if start < stop else (span[0], span[0])

    def owners(self, span: tuple[int, int]) -> list[int]:
        """Return the ranks that have entries of a span."""
        every = range(self.ranks.size)
        return [rank for rank in every if len(range(*self.within(span, rank))) > 0]

    def gather_(self, vector: Tensor) -> None:
        """Fill a whole vector, in which each rank has written its slice, with those of the others."""
        for owner in range(self.ranks.size):
            part = vector[self.bounds[owner] : self.bounds[owner + 1]]
            if part.numel():
                self.ranks.share_from(part, owner)

    def sums(self, tensors: Sequence[Tensor], spans: Sequence[tuple[int, int]]) -> list[Tensor]:
        """Sum tensors that make up a whole vector over the ranks.

        Args:
            tensors: This rank's summands, which are overwritten.
            spans: Their places in the vector, one after the other.

        Returns:
            This rank's entries of each tensor of which it has some, flat.
        """
        own: list[Tensor] = []
        seen: set[int] = set()
        flats = []
        for tensor in tensors:
            flat = tensor.reshape(-1).contiguous()
            # autograd may give one tensor as the gradient of two leaves
            flats.append(flat.clone() if flat.data_ptr() in seen else flat)
            seen.add(flat.data_ptr())
        for owner in range(self.ranks.size):
            parts = []
            for flat, span in zip(flats, spans, strict=True):
                start, stop = self.within(span, owner)
                if start < stop:
                    parts.append(flat[start - span[0] : stop - span[0]])
            summed = self._sum_to(parts, owner)
            own = summed if owner == self.ranks.rank else own
        return own

    def _sum_to(self, parts: list[Tensor], owner: int) -> list[Tensor]:
        """Sum tensors on one rank; small neighbours go in one message."""
        result: list[Tensor] = []
        bundle: list[Tensor] = []

        def send() -> None:
            if not bundle:
                return
            flat = bundle[0] if len(bundle) == 1 else torch.cat(bundle)
            self.ranks.sum_to(flat, owner)
            result.extend(flat.split([part.numel() for part in bundle]))
            bundle.clear()

        for part in parts:
            if sum(other.numel() for other in bundle) + part.numel() > LARGE:
                send()
            bundle.append(part)
        send()
        return result


def bounds_of(spans: Sequence[Span], ranks: int, grain: int) -> tuple[int, ...]:
    """Divide a vector of tensors into slices of about the same size.

    Args:
        spans: The tensors, one after the other; only some can be cut.
        ranks: Number of slices.
        grain: Tensors are cut at multiples of so many entries.

    Returns:
        The bounds of the slices, of which some may be empty.

    Example:
        >>> bounds_of([Span(0, 700, True), Span(700, 1000, False)], 2, 100)
        (0, 500, 1000)
        >>> bounds_of([Span(0, 300, True), Span(300, 1000, False)], 2, 100)
        (0, 300, 1000)
    """
    size = spans[-1].stop if spans else 0
    bounds = [0]
    for rank in range(1, ranks):
        ideal = rank * size / ranks
        places = {edge for span in spans for edge in (span.start, span.stop)}
        for span in spans:
            if span.can_be_cut and span.start < ideal < span.stop:
                below = span.start + int((ideal - span.start) // grain) * grain
                places |= {below, min(below + grain, span.stop)}
        nearest = min(places, key=lambda place: (abs(place - ideal), place))
        bounds.append(max(bounds[-1], nearest))
    return (*bounds, size)
