"""How much a fitted network uses each input, and which inputs it keeps.

For one draw f of the network, the relevance of input i is the share of the output's variance that goes when the
column is shuffled over the rows, all others left in place:

    r_i = E (f(x) - f(x with x_i shuffled))^2 / (2 Var f(x))

For independent inputs it is the total-effect index of sensitivity analysis (Jansen, 1999), and for a linear network
w_i^2 Var x_i / Var f(x). Interactions count for each partner, so shares may add up to more than 1. Shuffling breaks
correlations: of two inputs that say the same, each has what the network makes of it.

An input is kept if r_i >= ``least`` with posterior probability 95% or more. First-layer weights would not do: those of
a hidden unit that the next layer ignores follow their prior and may be large, and a Gibbs sweep can leave a tiny weight
with a far tinier standard deviation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, require, require_whole
from r2d2net.posterior import Posterior

LEVEL = 0.95  # posterior probability from which an input is kept


class Relevance(NamedTuple):
    """Relevance of each input, shape (inputs,), summarised over posterior draws.

    Attributes:
        mean: Posterior mean of r.
        std: Its standard deviation under the posterior.
        low, high: Ends of its central 90% interval.
        probability: Posterior probability of r >= least.
        kept: Whether that probability is at least 95%.
    """

    mean: Tensor
    std: Tensor
    low: Tensor
    high: Tensor
    probability: Tensor
    kept: Tensor


def input_relevance(
    posterior: Posterior, x: Any, *, least: float = 0.01, draws: int = 100, shuffles: int = 4, seed: int = 0
) -> Relevance:
    """Relevance of the columns of a table, by a network fitted to such tables.

    Args:
        posterior: The fitted network.
        x: Rows to shuffle, in the user's units, such as the training inputs; no targets are needed.
        least: Share of the output's variance below which an input does not matter. Where hundreds of inputs matter
            each has less than the default 1%: give less.
        draws: Posterior draws.
        shuffles: Shuffles of each column, averaged.
        seed: Seed of draws and shuffles.
    """
    require(0 < least < 1, "least", least, "use a share between 0 and 1, such as 0.01")
    require_whole("draws", draws)
    require_whole("shuffles", shuffles)
    table = torch.as_tensor(x)
    if table.dim() != 2 or len(table) < 2:
        raise DataError(f"x has shape {tuple(table.shape)}: give a table (rows, inputs) of at least two rows")
    generator = torch.Generator().manual_seed(seed)
    before = posterior.outputs(table, draws, seed=seed)  # (draws, rows, outputs)
    variance = before.var(1, correction=0).sum(-1).clamp(min=torch.finfo(before.dtype).tiny)
    shares = before.new_zeros(table.shape[1], len(before))
    for i, share in enumerate(shares):
        for _ in range(shuffles):
            shuffled = table.clone()
            shuffled[:, i] = table[torch.randperm(len(table), generator=generator), i]
            change = posterior.outputs(shuffled, draws, seed=seed) - before  # the same draws of the weights
            share += change.square().mean(1).sum(-1) / (2 * shuffles * variance)
    probability = (shares >= least).to(shares.dtype).mean(1)
    low, high = shares.quantile(0.05, dim=1), shares.quantile(0.95, dim=1)
    return Relevance(shares.mean(1), shares.std(1, correction=0), low, high, probability, probability >= LEVEL)
