"""The state of a run that is divided among processes, put together and taken apart again.

A tensor of the state is common, the same on all ranks, or each rank has a range of its entries. Whole tensors are sent
in pieces of a million numbers, so that a rank which does not keep them needs no room for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.base import flatten
from r2d2net.inference.mean_field_family import VariationalState
from r2d2net.inference.sharded_sweeps import ShardedSweeps
from r2d2net.model import Tensors
from r2d2net.ranks import Slices

PIECE = 1 << 20  # numbers of a message


class Place(NamedTuple):
    """The entries of a whole tensor that a rank has.

    Attributes:
        shape: Shape of the whole tensor.
        dtype: Its dtype, by name.
        start: First entry.
        stop: The entry after the last one.
        is_common: Whether every rank has the whole tensor.
    """

    shape: tuple[int, ...]
    dtype: str
    start: int
    stop: int
    is_common: bool


class ShardedState:
    """The places of a state's tensors, and their transport.

    Args:
        slices: The slices of the weights.
        sweeps: The scales that belong to them.
    """

    def __init__(self, slices: Slices, sweeps: ShardedSweeps) -> None:
        self.slices, self.sweeps, self.ranks = slices, sweeps, slices.ranks
        self.parts = {part.slot.name: part for part in sweeps.parts}

    def form(self, state: VariationalState) -> VariationalState:
        """Return a whole state that has names, shapes and dtypes, and no memory for what is divided."""
        size = self.slices.bounds[-1]

        def whole(vector: Tensor) -> Tensor:
            return vector.new_zeros(()).expand(size)

        moments = {name: own if name == "fixed" else type(own)(*map(whole, own)) for name, own in state.moments.items()}
        mean, rho, precision = map(whole, (state.mean, state.rho, state.precision))
        return state._replace(mean=mean, rho=rho, precision=precision, moments=moments, scales=self.sweeps.forms)

    def common(self, state: VariationalState) -> Tensors:
        """Return the tensors of which every rank has all."""
        places = self._places(state)
        return {name: tensor for name, tensor in flatten(state).items() if places[name].is_common}

    def whole(self, state: VariationalState, *, everywhere: bool, only: tuple[str, ...] = ()) -> Tensors:
        """Put tensors together; all ranks call this.

        Args:
            state: This rank's state.
            everywhere: Whether every rank keeps them, or rank 0 alone.
            only: Names of those that are wanted; () for all.

        Returns:
            Whole tensors by name on the ranks that keep them, none on the others.
        """
        own, keeps = flatten(state), everywhere or self.ranks.is_first
        result: Tensors = {}
        for name, each in self._every_place(state).items():
            if only and name not in only:
                continue
            place = next(iter(each.values()))
            if place.is_common:
                if keeps:
                    result[name] = own[name].clone()
                continue
            like = own[name] if name in own else torch.empty(0, dtype=_dtype(place), device=state.mean.device)
            room = like.new_empty(_count(place)) if keeps else None
            for owner, start, stop in _messages(each):
                if owner == self.ranks.rank:
                    first = each[owner].start
                    piece = own[name].reshape(-1)[start - first : stop - first].contiguous()
                else:
                    piece = like.new_empty(stop - start)
                self.ranks.share_from(piece, owner)
                if room is not None:
                    room[start:stop] = piece
            if room is not None:
                result[name] = room.view(place.shape)
        return result

    def place_(self, state: VariationalState, tensors: Tensors | None) -> None:
        """Overwrite the ranks' states by whole tensors that rank 0 has; all ranks call this.

        Args:
            state: This rank's state.
            tensors: Whole tensors by name on rank 0, None on the others.
        """
        own = flatten(state)
        for name, each in self._every_place(state).items():
            some = next(iter(each.values()))
            place, here = each.get(self.ranks.rank), own.get(name)
            source = None if tensors is None else tensors[name].reshape(-1)
            room = None if here is None else torch.empty_like(here, memory_format=torch.contiguous_format).view(-1)
            for start in range(0, _count(some), PIECE):
                stop = min(start + PIECE, _count(some))
                piece = torch.empty(stop - start, dtype=_dtype(some), device=state.mean.device)
                if source is not None:
                    piece.copy_(source[start:stop])
                self.ranks.share_from(piece)
                if place is not None and room is not None:
                    first, last = max(start, place.start), min(stop, place.stop)
                    if first < last:
                        room[first - place.start : last - place.start] = piece[first - start : last - start]
            if here is not None and room is not None:
                here.copy_(room.view(here.shape))

    def fitting(self, state: VariationalState) -> Tensors:
        """Return by name what the whole tensors of such a state are, without memory for what is divided."""
        return flatten(self.form(state))

    def _places(self, state: VariationalState) -> dict[str, Place]:
        """Return where this rank's tensors lie in whole ones."""
        shapes = {name: tuple(tensor.shape) for name, tensor in flatten(self.form(state)).items()}
        places = {}
        for name, tensor in flatten(state).items():
            first, *rest = name.split("/")
            start, is_common = 0, True
            if first in ("mean", "rho", "precision") or (first == "moments" and rest[0] != "fixed"):
                start, is_common = self.slices.start, False
            elif first == "scales":
                part = self.parts[rest[0]]
                is_local = part.is_cut and shapes[name] == tuple(part.slot.shape)
                start, is_common = part.first if is_local else 0, part.is_cut and not is_local
            dtype = str(tensor.dtype).removeprefix("torch.")
            places[name] = Place(shapes[name], dtype, start, start + tensor.numel(), is_common)
        return places

    def _every_place(self, state: VariationalState) -> dict[str, dict[int, Place]]:
        """Return by name and rank where the ranks' tensors lie, of those that have entries."""
        told: list[dict[str, list[Any]]] = self.ranks.gather_json(self._places(state))
        every: dict[str, dict[int, Place]] = {}
        for name in flatten(self.form(state)):
            for rank, places in enumerate(told):
                if name in places:
                    shape, *rest = places[name]
                    place = Place(tuple(shape), *rest)
                    every.setdefault(name, {})[rank] = place
        return every


def _messages(places: dict[int, Place]) -> Iterator[tuple[int, int, int]]:
    """Yield the owner and the range of entries of each message of a tensor."""
    for owner, place in places.items():
        for start in range(place.start, place.stop, PIECE):
            yield owner, start, min(start + PIECE, place.stop)


def _count(place: Place) -> int:
    count = 1
    for length in place.shape:
        count *= length
    return count


def _dtype(place: Place) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, place.dtype)
    return dtype
