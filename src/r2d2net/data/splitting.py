"""Splits by a seed: stratified k-fold, and train/validation/test, as row numbers drawn by scikit-learn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import ParameterError, require, require_whole


class Fold(NamedTuple):
    """Row numbers of one fold, int64, ascending."""

    train: Tensor
    test: Tensor


class Parts(NamedTuple):
    """Row numbers of a three-way split, int64, ascending."""

    train: Tensor
    validation: Tensor
    test: Tensor


def stratified_folds(labels: Tensor, folds: int = 5, *, seed: int) -> list[Fold]:
    """Draw stratified cross-validation folds; their test parts together are all rows.

    Args:
        labels: The class of each row, whole numbers.
        folds: The number of folds, at most the number of rows of the rarest class.
        seed: The seed of the draw.

    Returns:
        The row numbers of each fold.

    Raises:
        ParameterError: If an argument is out of range.

    >>> labels = torch.tensor([0, 1] * 10)
    >>> [fold.test.shape[0] for fold in stratified_folds(labels, 5, seed=0)]
    [4, 4, 4, 4, 4]
    """
    from sklearn.model_selection import StratifiedKFold

    require_whole("folds", folds, least=2)
    require_whole("seed", seed, least=0)
    y = _classes(labels)
    rarest = int(np.unique(y, return_counts=True)[1].min()) if len(y) else 0
    require(folds <= rarest, "folds", folds, f"the rarest class has {rarest} rows; use at most so many folds")
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)
    return [Fold(torch.from_numpy(train), torch.from_numpy(test)) for train, test in parts]


def train_validation_test(n: int | Tensor, validation: float = 0.1, test: float = 0.1, *, seed: int) -> Parts:
    """Divide n rows at random into three parts.

    Args:
        n: The number of rows; or the class of each row, and then each part has the classes in their proportions.
        validation: The share of rows for validation.
        test: The share of rows for the test.
        seed: The seed of the draw.

    Returns:
        The row numbers of each part.

    Raises:
        ParameterError: If the shares leave no rows to train on, or a class has too few rows.

    >>> [len(part) for part in train_validation_test(100, 0.2, 0.1, seed=0)]
    [70, 20, 10]
    """
    require_whole("seed", seed, least=0)
    for name, share in (("validation", validation), ("test", test)):
        require(0 <= share < 1, name, share, "use a share from 0, below 1")
    require(validation + test < 1, "validation + test", validation + test, "leave something to train on")
    y = _classes(n) if isinstance(n, Tensor) else None
    rows = np.arange(n if not isinstance(n, Tensor) else len(n))
    rest, tested = _cut(rows, y, round(test * len(rows)), seed)
    train, validated = _cut(rest, y, round(validation * len(rows)), seed)
    return Parts(*(torch.from_numpy(np.sort(part)) for part in (train, validated, tested)))


def _cut(rows: np.ndarray, y: np.ndarray | None, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import train_test_split

    if count == 0:
        return rows, rows[:0]
    try:
        kept, cut = train_test_split(rows, test_size=count, random_state=seed, stratify=None if y is None else y[rows])
    except ValueError as error:
        reason = " ".join(str(error).split())
        problem = f"rows cannot be cut ({reason})"
        raise ParameterError(problem, value=len(rows), fix="use other shares") from error
    return kept, cut


def _classes(labels: Tensor) -> np.ndarray:
    if labels.dim() != 1 or labels.is_floating_point():
        problem = f"are of {labels.dtype} and shape {tuple(labels.shape)}"
        raise ParameterError(problem, argument="labels", fix="give whole numbers in one dimension")
    return labels.cpu().numpy()
