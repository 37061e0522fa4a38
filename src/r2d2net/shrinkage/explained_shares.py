"""The share of a network's output that an input explains by itself, for many inputs at a time.

    m_i = 1 - min over parabolas l of Var(f(x) - l(x_i)) / Var f(x)        (adjusted for their coefficients)

With Q_i an orthonormal basis of x_i and x_i^2, both centred, the least variance is that of f less that of Q_i Q_i' f.
For an input of one column Q_i are two vectors, which Gram and Schmidt's method gives for all inputs at once; for a
category Q_i comes from a singular value decomposition of its columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LEAST = 1e-8  # smallest singular value that counts, in units of the largest
CHUNK = 1 << 22  # elements of the inputs that are worked on at a time


def explained_shares(table: Tensor, inputs: Sequence[Sequence[int]], outputs: Tensor) -> Tensor:
    """Compute the share of the outputs' variance that parabolas in each input explain.

    The share is the adjusted R^2: the share that noise would explain on average is subtracted, and negative values
    count as zero.

    Args:
        table: The rows, (rows, columns).
        inputs: Columns of each input.
        outputs: Outputs of each draw at the rows, (draws, rows, outputs).

    Returns:
        The shares, (inputs, draws).
    """
    draws, rows, width = outputs.shape
    centred = outputs - outputs.mean(1, keepdim=True)
    total = centred.square().sum((1, 2)).clamp(min=torch.finfo(outputs.dtype).tiny)
    columns = centred.permute(1, 0, 2).reshape(rows, draws * width)
    shares = outputs.new_zeros(len(inputs), draws)

    def adjusted(basis: Tensor, rank: Tensor) -> Tensor:  # basis (inputs, directions, rows), rank (inputs,)
        explained = (basis.to(outputs) @ columns).view(*basis.shape[:2], draws, width).square().sum((1, 3))
        left = (rows - 1 - rank).clamp(min=1)[:, None].to(outputs)
        share = (1 - (1 - explained / total) * (rows - 1) / left).clamp(min=0)
        return torch.where(((rank > 0) & (rank < rows - 1))[:, None], share, 0)

    single = [i for i, group in enumerate(inputs) if len(group) == 1]
    step = max(1, CHUNK // max(rows, 2 * draws * width))
    for chosen in (single[start : start + step] for start in range(0, len(single), step)):
        shares[chosen] = adjusted(*_parabolas(table[:, [inputs[i][0] for i in chosen]].T.double()))
    for i, group in enumerate(inputs):
        if len(group) > 1:
            shares[i] = adjusted(*_directions(table[:, list(group)].double()))[0]
    return shares


def _standardised(columns: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the columns and their squares, centred; for 0/1 columns the square is a multiple of the column."""
    line = columns - columns.mean(dim, keepdim=True)
    line = line / line.std(dim, keepdim=True).clamp(min=1e-300)
    square = line.square()
    return line, square - square.mean(dim, keepdim=True)


def _parabolas(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the orthonormal basis of each column and its square, (columns, 2, rows), and its rank.

    For vectors a and b the product of both singular values is |a| |b - its projection on a|, and the sum of their
    squares is |a|^2 + |b|^2. What is not part of the basis is zero.
    """
    line, curve = _standardised(columns, dim=1)
    first = line.norm(dim=1, keepdim=True)
    unit = line / first.clamp(min=1e-300)
    rest = curve
    for _ in range(2):  # once more, for what rounding leaves of the projection
        rest = rest - unit * (unit * rest).sum(1, keepdim=True)
    second, product = rest.norm(dim=1, keepdim=True), first * rest.norm(dim=1, keepdim=True)
    squares = first.square() + curve.norm(dim=1, keepdim=True).square()
    largest = (squares + (squares.square() - 4 * product.square()).clamp(min=0).sqrt()) / 2
    has_curve = product > LEAST * largest
    rest = torch.where(has_curve, rest / second.clamp(min=1e-300), 0)
    return torch.stack([unit, rest], dim=1), ((first > 0).long() + has_curve)[:, 0]


def _directions(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the orthonormal basis of some columns and their squares, (1, rank, rows), and its rank."""
    directions, sizes, _ = torch.linalg.svd(torch.cat(_standardised(columns, dim=0), dim=1), full_matrices=False)
    basis = directions[:, (sizes > sizes.max() * LEAST) & (sizes > 0)]
    return basis.T[None], torch.tensor([basis.shape[1]], device=basis.device)
