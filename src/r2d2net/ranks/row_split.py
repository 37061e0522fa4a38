"""A run whose rows are split among processes: what its trainer asks of them.

    g = sum_r n_r g_r / sum_r n_r,      g_r the mean gradient of the n_r rows of a step that rank r has

All ranks hold the whole state and draw from generators with the same seed, so that draws of weights and sweeps of
scales are the same everywhere and need no message. What is drawn for rows, such as activations and masks of Dropout,
comes from a generator of the rank's own, a function of (seed, rank, step). With ``apart`` so do the weights of a step:
k ranks are then k draws, whose gradients are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from r2d2net.ranks.group import Ranks


@dataclass(frozen=True)
class RowSplit:
    """A run on several ranks.

    Args:
        ranks: The processes.
        seed: Seed of the run.
        apart: Whether each rank draws weights of its own in a step.
    """

    ranks: Ranks
    seed: int
    apart: bool = False

    def generator(self, t: int, device: torch.device) -> torch.Generator:
        """Return the source of what this rank alone draws in step t."""
        return torch.Generator(device).manual_seed(self.own_seed(t))

    def own_seed(self, number: int) -> int:
        """Return a seed of this rank alone (SplitMix64)."""
        return _mixed(_mixed(self.seed, -7 - self.ranks.rank), number)

    def averaged(self, tensors: Sequence[Tensor], rows: int) -> list[Tensor]:
        """Average tensors over the ranks, weighted by their rows, as `Ranks.averaged`."""
        return self.ranks.averaged(tensors, rows)


class _ToAll(torch.autograd.Function):
    """A tensor that all ranks use: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks.sum_(gradient.clone(memory_format=torch.contiguous_format)), None


class _OfAll(torch.autograd.Function):
    """The sum of the ranks' tensors: each takes its gradient as it is."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        return ranks.sum_(tensor.clone(memory_format=torch.contiguous_format))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def for_all(tensor: Tensor, ranks: Ranks) -> Tensor:
    """Return a tensor, the same on all ranks, whose gradient is the sum of those of the ranks' rows."""
    return _ToAll.apply(tensor, ranks)


def of_all(tensor: Tensor, ranks: Ranks) -> Tensor:
    """Return the differentiable sum over the ranks of what each has computed of its rows."""
    return _OfAll.apply(tensor, ranks)


def _mixed(seed: int, number: int) -> int:
    z = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0x7FFFFFFFFFFFFFFF
