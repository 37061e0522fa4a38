"""Groups of inputs that can stand for each other, by complete-linkage clustering of their correlations.

    similarity(a, b) = sqrt(min(R^2 of a given b, R^2 of b given a))       |correlation| for two columns

where R^2 is the share of the variance of all columns of one input that a linear function of the other explains, so that
categories take part with all their columns. Any two inputs of a group have a similarity of at least ``threshold``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

THRESHOLD = 0.8
MOST = 200  # inputs that are clustered, those of the largest shares


def input_groups(
    x: Tensor, inputs: Sequence[Sequence[int]], share: Tensor, *, least: float = 0.01, threshold: float = THRESHOLD
) -> Tensor:
    """Find the groups of inputs that carry nearly the same information.

    Args:
        x: Rows of the table, (rows, columns).
        inputs: Columns of each input.
        share: Shares of the inputs in the importance, (inputs,).
        least: Share from which an input takes part.
        threshold: Least similarity of two inputs of a group.

    Returns:
        The number of the group of each input, from 0 by the largest share of a member; -1 where it is in none.
    """
    groups = torch.full((len(inputs),), -1)
    ranked = share.argsort(descending=True, stable=True).tolist()
    part = [i for i in ranked if share[i] >= least][:MOST]
    if len(part) < 2:
        return groups
    alike = similarities(x.double().cpu(), [inputs[i] for i in part])
    labels = clusters(alike, threshold)
    found: dict[int, int] = {}
    for i, label in zip(part, labels, strict=True):
        if labels.count(label) > 1:
            groups[i] = found.setdefault(label, len(found))
    return groups


def clusters(alike: Tensor, threshold: float) -> list[int]:
    """Cluster inputs by complete linkage: any two of a cluster have at least a given similarity.

    Args:
        alike: Similarities, (inputs, inputs), two or more.
        threshold: The least similarity.

    Returns:
        A label for each input, the same within a cluster.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distances = squareform((1 - alike).clamp(min=0).fill_diagonal_(0).numpy(), checks=False)
    labels: list[int] = fcluster(linkage(distances, "complete"), 1 - threshold + 1e-9, "distance").tolist()
    return labels


def similarities(x: Tensor, inputs: Sequence[Sequence[int]]) -> Tensor:
    """Compute the similarity of each two inputs.

    Args:
        x: Rows of the table, (rows, columns).
        inputs: Columns of each input.

    Returns:
        A symmetric matrix, (inputs, inputs); 0 beside an input that does not vary.
    """
    centred = [x[:, list(columns)] - x[:, list(columns)].mean(0) for columns in inputs]
    bases = [_basis(part) for part in centred]
    totals = torch.stack([part.square().sum() for part in centred]).clamp(min=torch.finfo(x.dtype).tiny)
    explained = torch.stack(
        [torch.stack([(basis.T @ part).square().sum() for basis in bases]) for part in centred]
    )  # (explained input, explaining input)
    shares = explained / totals[:, None]
    return torch.minimum(shares, shares.T).clamp(0, 1).sqrt()


def _basis(columns: Tensor) -> Tensor:
    """Return an orthonormal basis of the span of columns, without directions that rounding alone makes."""
    vectors, sizes, _ = torch.linalg.svd(columns, full_matrices=False)
    return vectors[:, sizes > 1e-9 * sizes.max().clamp(min=torch.finfo(columns.dtype).tiny)]
