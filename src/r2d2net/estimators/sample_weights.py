"""Weights of rows as scikit-learn gives them: ``sample_weight`` of `fit`, and ``class_weight`` of classifiers.

A row of weight 2 counts as two rows that are alike, one of weight 0 is left out. Weights are not divided by their mean:
their sum stands for the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.phrases import quoted_names
from r2d2net.errors import Argument, DataError, ParameterError, Value

POSITIVE = "give a number from 0 for each row"
FIX = "use 'balanced', or a dict of a number from 0 for each label"


def weights_of(sample_weight: Any, rows: int) -> Values | None:
    """Check the weights of rows.

    Args:
        sample_weight: A number from 0 for each row, one for all, or None.
        rows: Number of rows.

    Returns:
        The weights, (rows,); None for None.

    Raises:
        DataError: They are no such numbers, or all of them are 0.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        problem = ("of type ", Value(type(sample_weight)), " are no numbers")
        raise DataError(problem, argument="sample_weight", fix=POSITIVE) from error
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.shape != (rows,):
        shape = f"has shape {weights.shape}, and there are {rows} rows"
        raise DataError(shape, argument="sample_weight", fix=POSITIVE)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        raise DataError(("holds ", Value(float(weights[bad][0]))), argument="sample_weight", fix=POSITIVE)
    if not (weights > 0).any():
        zeros = "holds zeros alone: all sample weights are zero"
        raise DataError(zeros, argument="sample_weight", fix="give a positive one")
    return weights


def weights_by_class(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weights: Values | None
) -> Values | None:
    """Multiply weights of rows by those of their classes.

    Args:
        class_weight: "balanced", weights by label, or None. Balanced classes have weights of one sum, those of all
            classes that of the rows.
        classes: The labels in ascending order.
        codes: Place of each row's label.
        weights: Weights of the rows; None for ones.

    Returns:
        The products, (rows,); None where nothing has weights.

    Raises:
        ParameterError: The weights of classes are none.

    >>> weights_by_class("balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1]), None)
    array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    if class_weight is None:
        return weights
    own = np.ones(len(codes)) if weights is None else weights
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(codes, own, len(classes))
        return own * (own.sum() / (len(classes) * np.where(sums > 0, sums, 1.0)))[codes]
    if not isinstance(class_weight, Mapping):
        raise ParameterError("is neither", argument="class_weight", value=class_weight, fix=FIX)
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        problem = ("names ", Value(unknown[0]), ", which ", Argument("y"), " does not hold")
        raise ParameterError(problem, argument="class_weight", fix=f"it has {quoted_names(labels)}")
    factors = [class_weight.get(label, 1.0) for label in labels]
    for factor in factors:
        if not (isinstance(factor, Real) and 0 <= float(factor) < np.inf):
            raise ParameterError(("holds ", Value(factor)), argument="class_weight", fix=FIX)
    found = own * np.array(factors, dtype=np.float64)[codes]
    if not (found > 0).any():
        raise ParameterError("leaves no row a weight", argument="class_weight", fix=FIX)
    return found
