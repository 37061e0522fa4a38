"""Selection by knockoffs: twins of the inputs that tell nothing about the target, fitted beside them.

    (X, X~) has the same first two moments if X_G and X~_G change places, for every input G (Candès et al., 2018):
    X~ | X ~ N(X - (X - m) S^-1 D,  2 D - D S^-1 D),     D = gamma blockdiag(S_GG),
    gamma = min(1, 2 least eigenvalue of B^-1/2 S B^-1/2),  B = blockdiag(S_GG)

S is the covariance shrunk by Ledoit and Wolf. Z and Z~ are the shares of the output's variance that inputs and twins
take when they are shuffled, by our models fitted to both, and W = Z - Z~. The threshold is the least t with

    (1 + #{W <= -t}) / max(1, #{W >= t}) <= fdr

which bounds the expected share of false ones if the inputs are normal with this covariance. To select k inputs takes
k >= 1 / fdr: with fdr = 0.1 ten or none. Categories and skewed columns are normal in their first two moments alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError, Value
from r2d2net.posterior import Posterior
from r2d2net.shrinkage.relevance import input_relevance

SAFE = 0.999  # of gamma, so that the conditional covariance stays positive
DRAWS = 60  # of the relevance


def knockoffs(x: Tensor, inputs: Sequence[Sequence[int]], seed: int = 0) -> Tensor:
    """Draw second-order Gaussian knockoffs of a table, those of a group of columns together.

    Args:
        x: The table, (rows, columns).
        inputs: Columns of each input; together all columns that are drawn.
        seed: Seed of the draws.

    Returns:
        The twins of the columns, (rows, columns); columns of no input are as they are.

    Raises:
        DataError: If a column is constant.
    """
    from sklearn.covariance import ledoit_wolf

    own = x.double().cpu().numpy()
    deviation = own.std(0)
    constant = np.flatnonzero(deviation <= 1e-12 * np.abs(own).max(0, initial=1e-300))
    named = sorted(column for columns in inputs for column in columns)
    constant = np.intersect1d(constant, named)
    if len(constant):
        problem = ("has a constant column, ", Value(int(constant[0])))
        raise DataError(problem, argument="x", fix="leave it out: nothing can depend on it")
    mean, unit = own[:, named].mean(0), deviation[named]
    z = (own[:, named] - mean) / unit
    covariance, _ = ledoit_wolf(z, assume_centered=True)
    place = {column: k for k, column in enumerate(named)}
    blocks = np.zeros_like(covariance)
    root = np.zeros_like(covariance)
    for columns in inputs:
        own_places = np.ix_([place[c] for c in columns], [place[c] for c in columns])
        blocks[own_places] = covariance[own_places]
        values, vectors = np.linalg.eigh(covariance[own_places])
        root[own_places] = (vectors / np.sqrt(values)) @ vectors.T
    gamma = SAFE * min(1.0, 2 * float(np.linalg.eigvalsh(root @ covariance @ root)[0]))
    d = gamma * blocks
    pulled = np.linalg.solve(covariance, d)  # S^-1 D
    spread = 2 * d - d @ pulled
    spread = np.linalg.cholesky((spread + spread.T) / 2 + 1e-10 * np.eye(len(d)))
    normal = np.random.default_rng(seed).standard_normal(z.shape)
    twins = own.copy()
    twins[:, named] = mean + unit * (z - z @ pulled + normal @ spread.T)
    return torch.from_numpy(twins)


def statistics(networks: Sequence[Posterior], both: Tensor, inputs: Sequence[Sequence[int]], seed: int = 0) -> Tensor:
    """Compute how much more networks use inputs than their twins.

    Args:
        networks: Posteriors fitted to inputs and twins side by side, whose importances are added.
        both: The table and its twins, (rows, 2 columns).
        inputs: Columns of each input.
        seed: Seed of draws and shuffles.

    Returns:
        W, (inputs,), float64.
    """
    columns = both.shape[1] // 2
    each = [*inputs, *([columns + column for column in own] for own in inputs)]
    share = torch.stack(
        [input_relevance(net, both, groups=each, draws=DRAWS, seed=seed).mean.double().cpu() for net in networks]
    ).sum(0)
    return share[: len(inputs)] - share[len(inputs) :]


def knockoff_rates(w: Tensor) -> Tensor:
    """Compute the least bound at which each input would be selected.

    Args:
        w: The statistics, (inputs,).

    Returns:
        The q-values, (inputs,); 1 of inputs that no bound selects.

    >>> knockoff_rates(torch.tensor([3.0, 2.0, -1.0, 0.5])).tolist()
    [0.5, 0.5, 1.0, 0.6666666865348816]
    """
    q = torch.ones_like(w)
    positive = w > 0
    if not bool(positive.any()):
        return q
    thresholds = w[positive].sort(descending=True).values
    above = (w >= thresholds[:, None]).sum(1)
    below = (w <= -thresholds[:, None]).sum(1)
    ratio = ((1 + below) / above).to(w.dtype).clamp(max=1)
    least = ratio.flip(0).cummin(0).values.flip(0)  # any smaller threshold selects the input too
    q[positive] = least[(thresholds[None] > w[positive][:, None]).sum(1)]
    return q
