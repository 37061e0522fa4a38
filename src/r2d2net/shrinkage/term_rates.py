"""Selection by the probability that no term of a sparse second-order regression has an input.

    lfdr_j = P(no term that counts has a column of input j | data)
    q_(k) = (lfdr_(1) + ... + lfdr_(k)) / k,     ascending; selected are the inputs with q <= fdr

The terms are those of `term_search`: slopes, curves and products of two columns; the draws are those of
`inclusion_chain`, two chains of which the mean is taken. y takes part by its normal scores, which changes no answer to
the question whether y depends on an input given all others, and keeps heavy tails and skewed targets from looking
like effects. It fits no network: effects that three inputs have only together, and curves with many turns, are what it
cannot see, and what `randomization_test` asks a network about.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from r2d2net.shrinkage.conditional_inputs import normal_scores
from r2d2net.shrinkage.inclusion_chain import inclusion_chain
from r2d2net.shrinkage.term_search import features

CHAINS, STEPS = 2, 2000
MOST_TERMS = 100  # that count at a time, and at most a third of the rows
MOST_ROWS = 5000  # of more rows so many are drawn
FEWEST_VALUES = 10  # different targets; fewer are rather classes, which normal scores do not suit


def term_rates(x: Tensor, y: Tensor, inputs: Sequence[Sequence[int]], seed: int = 0) -> Tensor:
    """Compute the probability that a target does not depend on each input.

    Args:
        x: The table, (rows, columns).
        y: Numbers, (rows,).
        inputs: Columns of each input.
        seed: Seed of the draws.

    Returns:
        The local false discovery rates, (inputs,), float64.
    """
    table, target = x.double().cpu().numpy(), y.double().cpu().numpy()
    if len(table) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).permutation(len(table))[:MOST_ROWS])
        table, target = table[rows], target[rows]
    score = normal_scores(target[:, None])[:, 0]
    found = features(table, score, inputs)
    most = min(MOST_TERMS, len(score) // 3)
    rates = np.zeros(len(inputs))
    for chain in range(CHAINS):
        drawn = inclusion_chain(found.terms, score, STEPS, CHAINS * seed + chain, most)
        draw, term = drawn.counts.nonzero()
        used = np.zeros((len(drawn.weight), len(inputs)), dtype=bool)
        used[draw[:, None], found.owners[term]] = True
        rates += drawn.weight @ ~used
    return torch.from_numpy(rates / CHAINS)


def has_many_values(y: Tensor) -> bool:
    """Whether targets are one column of numbers with many different values."""
    flat = y.dim() == 1 or (y.dim() == 2 and y.shape[1] == 1)
    return flat and len(y.unique()) >= FEWEST_VALUES
