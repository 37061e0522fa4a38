"""A number for each row of a table, which does not depend on the order of the rows.

Batches bring the rows in a new order every time. Sorted by these numbers they always come in the same order, so that
sums over rows agree to the last bit, and results for rows can be given back in the order of the user's table.
"""

from __future__ import annotations

import torch
from torch import Tensor


def row_keys(x: Tensor, y: Tensor) -> Tensor:
    """Compute the key of each row: a random but fixed linear combination of its numbers.

    Args:
        x: Inputs, (n, p).
        y: Targets, (n,) or (n, outputs).

    Returns:
        The keys in float64, (n,).
    """
    table = torch.cat([x.double(), y.reshape(len(x), -1).double()], 1)
    drawn = torch.Generator().manual_seed(0)
    direction = torch.randn(table.shape[1], generator=drawn, dtype=torch.float64).to(table.device)
    return (table * direction).sum(1)
