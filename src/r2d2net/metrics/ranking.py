"""Metrics of a ranking: AUROC, AUPR, and the false positive rate at a true positive rate of 95%.

The binary metrics take labels 0 and 1 and a score that is large where 1 is likely. Ties count as midranks: a positive
and a negative of equal score count as one half of a correctly ordered pair. Labels of one class are an error.

AUPR is the average precision, sum_k (recall_k - recall_{k-1}) precision_k over distinct scores, without interpolation.

The macro metrics rank every class against the rest by its probability and average over the classes that occur in y: a
class without rows has no curve.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from r2d2net.errors import DataError, Value, require
from r2d2net.metrics.arrays import Array, Labels, Numbers, class_labels, labelled_probabilities, numbers, require_rows


def auroc(y: Numbers, score: Numbers) -> float:
    """Compute the area under the ROC curve: P(score of a positive > score of a negative) + P(equal) / 2.

    Args:
        y: Labels 0 and 1, of shape (rows,), both present.
        score: Scores, of shape (rows,), large where 1 is likely.

    Returns:
        The area, in [0, 1].

    Example:
        >>> auroc([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8])
        0.875
    """
    from sklearn.metrics import roc_auc_score  # slow to import

    return float(roc_auc_score(*_binary(y, score)))


def aupr(y: Numbers, score: Numbers) -> float:
    """Compute the area under the precision-recall curve, as average precision.

    Args:
        y: Labels 0 and 1, of shape (rows,), both present.
        score: Scores, of shape (rows,), large where 1 is likely.

    Returns:
        The area, in [0, 1].

    Example:
        >>> round(aupr([0, 1, 1], [0.5, 0.3, 0.8]), 4)
        0.8333
    """
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_binary(y, score)))


def fpr_at_tpr(y: Numbers, score: Numbers, tpr: float = 0.95) -> float:
    """Compute the false positive rate at the highest threshold that a share ``tpr`` of the positives reaches.

    Args:
        y: Labels 0 and 1, of shape (rows,), both present.
        score: Scores, of shape (rows,), large where 1 is likely.
        tpr: True positive rate, above 0 and at most 1.

    Returns:
        The share of negatives whose score reaches the threshold.

    Example:
        >>> fpr_at_tpr([0, 0, 0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9, 0.5, 0.8])
        0.5
    """
    require(0 < tpr <= 1, "tpr", tpr, "use a share above 0, at most 1")
    label, value = _binary(y, score)
    positive = np.sort(value[label == 1])[::-1]
    needed = int(np.ceil(tpr * len(positive) - 1e-9))  # .95 * 20 must be 19
    return float((value[label == 0] >= positive[needed - 1]).mean())


def macro_auroc(y: Numbers, probs: Numbers) -> float:
    """Compute the AUROC of each class against the rest, averaged over the classes that occur in y.

    Args:
        y: Class numbers 0, 1, ..., of shape (rows,).
        probs: Class probabilities, (rows, classes).

    Returns:
        The mean area, in [0, 1].
    """
    return _macro(y, probs, auroc)


def macro_aupr(y: Numbers, probs: Numbers) -> float:
    """Compute the AUPR of each class against the rest, averaged over the classes that occur in y.

    Args:
        y: Class numbers 0, 1, ..., of shape (rows,).
        probs: Class probabilities, (rows, classes).

    Returns:
        The mean area, in [0, 1].
    """
    return _macro(y, probs, aupr)


def _macro(y: Numbers, probs: Numbers, measure: Callable[[Labels, Array], float]) -> float:
    label, array = labelled_probabilities(y, probs)
    present = np.unique(label)
    if len(present) < 2:
        fix = "a ranking needs rows of two classes or more"
        raise DataError(("holds class ", Value(int(present[0])), " alone"), argument="y", fix=fix)
    return float(np.mean([measure((label == k).astype(np.int64), array[:, k]) for k in present]))


def _binary(y: Numbers, score: Numbers) -> tuple[Labels, Array]:
    label, value = class_labels("y", y), numbers("score", score)
    if value.ndim == 2 and value.shape[1] == 1:
        value = value[:, 0]
    if value.ndim != 1:
        fix = "give (rows,); for class probabilities use the macro measures"
        raise DataError(("has shape ", Value(value.shape)), argument="score", fix=fix)
    require_rows(label, value, "score")
    if label.max() > 1:
        fix = "give 0 and 1; for several classes use the macro measures"
        raise DataError(("holds ", Value(int(label.max()))), argument="y", fix=fix)
    if label.min() == label.max():
        fix = "a ranking needs rows of both classes"
        raise DataError(("holds class ", Value(int(label[0])), " alone"), argument="y", fix=fix)
    return label, value
