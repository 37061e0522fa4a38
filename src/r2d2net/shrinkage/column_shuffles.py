"""Shuffles of a table's columns, many inputs at a time, in blocks of bounded memory.

A block holds, for B inputs of k columns each, the change d = x_i' - x_i of each column at the N = shuffles x rows rows
of the shuffled tables. All draws of a network use the same blocks: tables up to `KEPT` numbers keep them, larger ones
compute them again for each draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

KEPT = 1 << 24  # largest number of changes that are kept in memory


class Block:
    """Neighbouring inputs of the same number of columns, each shuffled over the rows.

    Args:
        x: The table, (rows, columns).
        columns: Numbers of the columns of each input, (inputs, columns of an input).
        orders: Permutations of the rows for each input, (inputs, shuffles, rows).
    """

    def __init__(self, x: Tensor, columns: Tensor, orders: Tensor) -> None:
        self.x, self.columns, self.orders = x, columns, orders

    def __len__(self) -> int:
        """Return the number of inputs."""
        return len(self.columns)

    @cached_property
    def change(self) -> Tensor:
        """The change of each column at each row, (inputs, columns of an input, shuffles x rows)."""
        values = self.x.T[self.columns]  # (inputs, columns of an input, rows)
        orders = self.orders.flatten(1)[:, None].expand(-1, values.shape[1], -1)
        return torch.gather(values, 2, orders).sub_(values.repeat(1, 1, self.orders.shape[1]))

    @cached_property
    def second_moment(self) -> Tensor:
        """Mean of d d' over shuffles and rows, (inputs, columns of an input, columns of an input)."""
        return self.change @ self.change.mT / self.change.shape[2]

    def tables(self, i: int) -> Tensor:
        """Return the tables after shuffling one input.

        Args:
            i: Number of the input within the block.

        Returns:
            The tables one below the other, (shuffles x rows, columns).
        """
        columns, rows = self.columns[i], self.orders[i].flatten()
        return self.x.repeat(len(self.orders[i]), 1).index_copy_(1, columns, self.x[rows][:, columns])


class ColumnShuffles:
    """The blocks of all inputs.

    Args:
        x: The table, (rows, columns).
        inputs: Columns of each input.
        orders: Permutations of the rows, (inputs, shuffles, rows).
        most: Largest number of rows of all shuffled tables of a block, unless one input has more.
    """

    def __init__(self, x: Tensor, inputs: Sequence[Sequence[int]], orders: Tensor, most: int) -> None:
        self.x, self.orders = x, orders.to(x.device)
        together = max(1, most // (orders.shape[1] * orders.shape[2]))
        self.spans: list[tuple[int, Tensor]] = []
        start = 0
        for _, run in groupby(inputs, key=len):
            columns = torch.tensor(list(run), device=x.device)
            self.spans += [(start + i, columns[i : i + together]) for i in range(0, len(columns), together)]
            start += len(columns)
        changes = sum(map(len, inputs)) * orders.shape[1] * orders.shape[2]
        self.kept = list(self._new_blocks()) if changes <= KEPT else None

    def _new_blocks(self) -> Iterator[Block]:
        return (Block(self.x, columns, self.orders[i : i + len(columns)]) for i, columns in self.spans)

    def __iter__(self) -> Iterator[Block]:
        """Iterate over the blocks, in the order of the inputs."""
        return iter(self.kept) if self.kept is not None else self._new_blocks()
