"""Metrics of predicted classes: accuracy, macro-F1, Brier score, calibration error.

``y`` holds class numbers. ``predicted`` holds class numbers (rows,) or probabilities (rows, classes), in which case the
most probable class counts as the prediction, and the first of several equally probable ones.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from r2d2net.errors import require, require_whole
from r2d2net.metrics.arrays import Array, Labels, Numbers, class_labels, labelled_probabilities, numbers, require_rows


def accuracy(y: Numbers, predicted: Numbers) -> float:
    """Compute the share of rows whose class is predicted correctly.

    Args:
        y: Class numbers 0, 1, ..., of shape (rows,).
        predicted: Class numbers (rows,) or class probabilities (rows, classes).

    Returns:
        The accuracy, in [0, 1].

    Example:
        >>> accuracy([0, 1, 2, 1], [0, 1, 1, 1])
        0.75
    """
    label, guess = _labels_and_guesses(y, predicted)
    return float((label == guess).mean())


def macro_f1(y: Numbers, predicted: Numbers) -> float:
    """Compute the F1 score of each class, averaged over the classes that occur in y or among the predictions.

    F1 = 2 precision recall / (precision + recall); a class that is never predicted correctly has 0.

    Args:
        y: Class numbers 0, 1, ..., of shape (rows,).
        predicted: Class numbers (rows,) or class probabilities (rows, classes).

    Returns:
        The macro-averaged F1 score, in [0, 1].

    Example:
        >>> macro_f1([0, 0, 1, 1], [0, 0, 1, 2])
        0.5555555555555555
    """
    from sklearn.metrics import f1_score  # slow to import

    label, guess = _labels_and_guesses(y, predicted)
    return float(f1_score(label, guess, average="macro", zero_division=0.0))


def brier(y: Numbers, probs: Numbers) -> float:
    """Compute the Brier score: the mean squared distance of the probabilities from the one-hot label.

    The squares are summed over all classes; for two classes that is twice the form that takes one class alone.

    Args:
        y: Class numbers 0, 1, ..., of shape (rows,).
        probs: Class probabilities, (rows, classes).

    Returns:
        The score, in [0, 2]; smaller is better.

    Example:
        >>> brier([0, 1], [[1.0, 0.0], [0.5, 0.5]])
        0.25
    """
    label, array = labelled_probabilities(y, probs)
    truth = np.eye(array.shape[1])[label]
    return float(np.square(array - truth).sum(-1).mean())


def ece(
    y: Numbers, probs: Numbers, *, bins: int = 15, binning: Literal["equal_width", "equal_mass"] = "equal_width"
) -> float:
    """Compute the expected calibration error of the most probable class (Guo et al., 2017).

        ECE = sum_b n_b / n |accuracy_b - mean confidence_b|,    confidence = largest probability

    Args:
        y: Class numbers.
        probs: Class probabilities, (rows, classes).
        bins: Number of bins.
        binning: "equal_width" cuts [0, 1] into intervals (a, b]; "equal_mass" cuts at quantiles of the confidences,
            rows of equal confidence staying together.

    Returns:
        The error, in [0, 1].

    Example:
        >>> ece([0, 1], [[0.75, 0.25], [0.75, 0.25]])
        0.25
    """
    require_whole("bins", bins)
    require(binning in ("equal_width", "equal_mass"), "binning", binning, "use 'equal_width' or 'equal_mass'")
    label, array = labelled_probabilities(y, probs)
    confidence, right = array.max(-1), array.argmax(-1) == label
    inner = np.arange(1, bins) / bins
    edges: Array = inner if binning == "equal_width" else np.quantile(confidence, inner)
    index = np.searchsorted(edges, confidence, side="left")
    gap = np.bincount(index, weights=right - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(label))


def _labels_and_guesses(y: Numbers, predicted: Numbers) -> tuple[Labels, Labels]:
    shape = numbers("predicted", predicted).shape
    if len(shape) == 2 and shape[1] > 1:
        label, probs = labelled_probabilities(y, predicted)
        return label, probs.argmax(-1).astype(np.int64)
    label, guess = class_labels("y", y), class_labels("predicted", predicted)
    require_rows(label, guess, "predicted")
    return label, guess
