"""Terms of a sparse second-order regression on the inputs of a table.

    x_j            the column, standardised
    s_j            its normal score Phi^-1(rank / (n + 1)), where it is no straight line in x_j
    s_j^2          parabolas, of columns with five values or more
    s_j s_k        products of columns of different inputs

If the normal scores are jointly normal (a Gaussian copula), what these terms miss of y = f(s_S) + e is uncorrelated
with every term that has a column outside S: Hermite polynomials of different degrees are orthogonal, and the terms of S
are all of degrees one and two. So an input that y does not depend on is not needed to make up for what is missed. Of
products, of which there are many, those most correlated with y, or with what remains of it after the other terms, are
kept; the number searched is that of all, so that each must bring as much evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from r2d2net.shrinkage.conditional_inputs import normal_scores
from r2d2net.shrinkage.inclusion_chain import Terms

FEW_LEVELS = 5  # values of a column; one of fewer has no curve
STRAIGHT = 0.98  # correlation of a column and its score from which the score says nothing new
PRODUCTS = 200  # that are kept for each of two rankings
MOST_COLUMNS = 1000  # of a table whose products are searched
NUMBERS = 1 << 21  # of products that are ranked at a time
COLUMN, CURVE, PRODUCT = 0, 1, 2


class Features(NamedTuple):
    """Terms, and the inputs that they belong to.

    Attributes:
        terms: The terms.
        owners: Numbers of the inputs whose columns a term has, (terms, 2); twice the same of a term of one column.
    """

    terms: Terms
    owners: np.ndarray


def features(x: np.ndarray, y: np.ndarray, inputs: Sequence[Sequence[int]]) -> Features:
    """Build the terms of a table.

    Args:
        x: The table, (rows, columns).
        y: Targets, (rows,), by which products are ranked.
        inputs: Columns of each input; together all columns that are used.

    Returns:
        The terms.
    """
    columns = np.array([column for own in inputs for column in own])
    owner = np.array([number for number, own in enumerate(inputs) for _ in own])
    raw, score = _standardized(x[:, columns]), normal_scores(x[:, columns])
    curved = np.array([len(np.unique(x[:, column])) >= FEW_LEVELS for column in columns])
    bent = curved & (np.abs((raw * score).mean(0)) < STRAIGHT)
    single = np.hstack([raw, _standardized(score[:, bent]), _standardized(score[:, curved] ** 2)])
    owners = np.concatenate([owner, owner[bent], owner[curved]])
    pairs, searched = _products(score, owner, y - y.mean(), single)
    products = _standardized(score[:, pairs[:, 0]] * score[:, pairs[:, 1]])
    kind = np.repeat([COLUMN, CURVE, PRODUCT], [len(owner), len(owners) - len(owner), len(pairs)])
    counts = np.array([len(owner), max(len(owners) - len(owner), 1), max(searched, 1)])
    of_terms = np.concatenate([np.stack([owners, owners], 1), owner[pairs]])
    return Features(Terms(np.hstack([single, products]), kind, counts), of_terms)


def _standardized(columns: np.ndarray) -> np.ndarray:
    """Centre and scale columns; one that does not vary becomes 0."""
    centred = columns - columns.mean(0)
    deviation = centred.std(0)
    return np.asarray(centred / np.where(deviation > 1e-12, deviation, 1.0) * (deviation > 1e-12))


def _products(score: np.ndarray, owner: np.ndarray, y: np.ndarray, single: np.ndarray) -> tuple[np.ndarray, int]:
    """Rank products of columns of different inputs; return the pairs kept, (pairs, 2), and how many there are."""
    wanted = np.stack([y, y - _ridge_fit(single, y)], 1)
    first, second = np.triu_indices(len(owner), 1)
    other = owner[first] != owner[second]
    first, second = first[other], second[other]
    if len(first) == 0:
        return np.zeros((0, 2), dtype=int), 0
    columns = score.shape[1]
    if columns > MOST_COLUMNS:
        return np.zeros((0, 2), dtype=int), 0
    rank = np.zeros((columns, columns, 2))
    at_once = max(1, NUMBERS // score.size)
    for start in range(0, columns, at_once):
        block = (score[:, start : start + at_once, None] * score[:, None, :]).reshape(len(score), -1)
        block -= block.mean(0)
        norm = np.sqrt(np.einsum("ij,ij->j", block, block))
        found = np.abs(block.T @ wanted) / np.where(norm > 1e-9, norm, np.inf)[:, None]
        rank[start : start + at_once] = found.reshape(-1, columns, 2)
    kept = np.unique(np.concatenate([(-rank[first, second, k]).argsort(kind="stable")[:PRODUCTS] for k in (0, 1)]))
    return np.stack([first[kept], second[kept]], 1), len(first)


def _ridge_fit(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit y by ridge regression on terms, with the penalty of the least generalised cross-validation error."""
    vectors, sizes, _ = np.linalg.svd(z, full_matrices=False)
    values, along = sizes**2, vectors.T @ y
    outside = float(y @ y - along @ along)  # of the span of the terms
    best, fit = np.inf, np.zeros_like(y)
    for penalty in len(y) * np.exp(np.linspace(-4.0, 8.0, 13)):
        shrink = values / (values + penalty)
        error = (outside + float((((1 - shrink) * along) ** 2).sum())) / (1 - shrink.sum() / len(y)) ** 2
        if error < best:
            best, fit = error, vectors @ (shrink * along)
    return fit
