"""Importances as shares of a whole, and the cut between the inputs that are kept and the others.

    share_i = importance_i / max(1, sum_j importance_j)        importances below 0 count 0

Importances of correlated inputs may add up to more than 1, and one alone may be above 1, as shuffling makes rows such
as never occur. Shares lie between 0 and 1, add up to at most 1 and rank inputs as importances do.

Inputs are needed if the network uses them, r_i >= ``least`` with posterior probability 95% or more; but an input that
another one stands in for has a large share and is not needed. What is kept must not contradict the shares, so that kept
are the first k inputs by share,

    k = the largest that maximises  (needed among the first k) - (not needed among the first k)

which is the cut with the fewest contradictions between the shares and what is needed.
"""

from __future__ import annotations

import torch
from torch import Tensor


def importance_shares(importance: Tensor) -> Tensor:
    """Convert importances to shares.

    Args:
        importance: Importances of the inputs, (inputs,).

    Returns:
        Shares between 0 and 1 with a sum of at most 1, (inputs,).

    >>> importance_shares(torch.tensor([2.0, 0.5, -0.1]))
    tensor([0.8000, 0.2000, 0.0000])
    >>> importance_shares(torch.tensor([0.4, 0.1]))
    tensor([0.4000, 0.1000])
    """
    positive = importance.clamp(min=0)
    return positive / positive.sum().clamp(min=1)


def kept_by_share(share: Tensor, needed: Tensor) -> Tensor:
    """Cut the inputs in the order of their shares where the cut agrees best with the inputs that are needed.

    Args:
        share: Shares of the inputs, (inputs,).
        needed: Whether each input is needed, (inputs,).

    Returns:
        Whether each input is kept: no input that is not has a larger share than one that is.

    >>> kept_by_share(torch.tensor([0.5, 0.3, 0.2, 0.01]), torch.tensor([True, False, True, False]))
    tensor([ True,  True,  True, False])
    """
    order = share.argsort(descending=True, stable=True)
    agreement = torch.cat([torch.zeros(1, dtype=torch.long), (2 * needed[order].long() - 1).cumsum(0).cpu()])
    best = int((agreement == agreement.max()).nonzero().max())
    kept = torch.zeros_like(needed, dtype=torch.bool)
    kept[order[:best]] = True
    return kept
