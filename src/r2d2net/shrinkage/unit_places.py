"""The units of a network: where their numbers are, which are one, and which cannot be removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

ZERO_AT_ZERO = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.ELU, nn.SELU, nn.CELU, nn.Mish, nn.Hardswish),
    *(nn.Hardtanh, nn.Softsign, nn.Tanhshrink, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
)


class Place(NamedTuple):
    """Entries of a parameter or buffer that belong to units.

    Attributes:
        tensor: Its name.
        dim: The dimension along which its entries belong to units.
        units: The unit of each entry along it.
        role: "in" for what makes a unit, "out" for what takes it, "own" for what else belongs to it.
        makes: Of the entries of a place that makes units, those without which a unit is zero; None for all.
    """

    tensor: str
    dim: int
    units: Tensor
    role: str
    makes: Tensor | None = None


@dataclass
class Units:
    """The units of a network.

    Attributes:
        places: Where their numbers are.
        layers: The units that each layer makes, by the layer's name.
        columns: The unit of each entry that reaches each linear layer, of those that it reads and others.
        locked: Why units cannot be removed, by their number.
        moved: Units whose value is not zero where all that makes them is.
    """

    places: list[Place] = field(default_factory=list)
    layers: dict[str, Tensor] = field(default_factory=dict)
    columns: dict[str, Tensor] = field(default_factory=dict)
    locked: dict[int, str] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    _parent: list[int] = field(default_factory=list)

    def new(self, count: int) -> Tensor:
        """Number new units."""
        start = len(self._parent)
        self._parent += range(start, start + count)
        return torch.arange(start, start + count)

    def root(self, unit: int) -> int:
        """Return the number of the unit that this one was made one with."""
        while self._parent[unit] != unit:
            self._parent[unit] = self._parent[self._parent[unit]]
            unit = self._parent[unit]
        return unit

    def roots(self, units: Tensor) -> Tensor:
        """Return the numbers of units that were made one."""
        return torch.tensor([self.root(unit) for unit in units.tolist()], dtype=torch.int64)

    def join(self, some: Tensor, others: Tensor) -> None:
        """Make units one, pair by pair."""
        for one, other in zip(some.tolist(), others.tolist(), strict=True):
            self._parent[self.root(one)] = self.root(other)

    def lock(self, units: Tensor, reason: str) -> None:
        """Keep units, for a reason."""
        for unit in units.unique().tolist():
            self.locked.setdefault(unit, reason)

    @property
    def count(self) -> int:
        """Number of units, those that are one counted each."""
        return len(self._parent)
