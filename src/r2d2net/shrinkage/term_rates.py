"""Selection by the probability that no term of a sparse second-order regression has an input.

    lfdr_j = P(no term that counts has a column of input j | data)
    q_(k) as in `local_rates`,     ascending; selected are the inputs with q <= fdr

The terms are those of `term_search`: slopes, curves and products of two columns. The rates are means of two chains of
`inclusion_chain`, which are run anew with twice the steps while they disagree. y takes part by its normal scores, which
changes no answer to the question whether y depends on an input given all others, and keeps heavy tails and skewed
targets from looking like effects. It fits no network: effects that three inputs have only together, and curves with
many turns, are what it cannot see, and what `randomization_test` asks a network about.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from r2d2net.shrinkage.conditional_inputs import normal_scores
from r2d2net.shrinkage.inclusion_chain import Inclusion, inclusion_chain
from r2d2net.shrinkage.term_search import Features, features

CHAINS, STEPS, MOST_STEPS = 2, 2000, 8000
AGREE = 0.1  # difference between the chains' rates up to which they are long enough
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
    steps = STEPS
    while True:
        seeds = range(CHAINS * seed, CHAINS * (seed + 1))
        rates = np.stack([_rates(found, inclusion_chain(found.terms, score, steps, s, most)) for s in seeds])
        if np.ptp(rates, axis=0).max() <= AGREE or steps >= MOST_STEPS:
            return torch.from_numpy(rates.mean(0))
        steps *= 2


def _rates(found: Features, drawn: Inclusion) -> np.ndarray:
    """Return the weight of the draws in which no term that counts has a column of an input, for each input."""
    draw, term = drawn.counts.nonzero()
    used = np.zeros((len(drawn.weight), int(found.owners.max()) + 1), dtype=bool)
    used[draw[:, None], found.owners[term]] = True
    return np.asarray(drawn.weight @ ~used)


def has_many_values(y: Tensor) -> bool:
    """Whether targets are one column of numbers with many different values."""
    flat = y.dim() == 1 or (y.dim() == 2 and y.shape[1] == 1)
    return flat and len(y.unique()) >= FEWEST_VALUES
