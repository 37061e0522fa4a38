"""The meaning of a classifier's parameter ``likelihood``, and the order of its classes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from r2d2net.errors import Argument, DataError, ParameterError, Shown, Value
from r2d2net.estimators.perceptron import class_numbers, numbers_of
from r2d2net.likelihoods import Categorical, Likelihood, Ordinal

EXAMPLE = Argument("likelihood", Shown("Ordinal(('low', 'medium', 'high'))"))


def category_order(y: Any) -> list[Any] | None:
    """Return the categories of an ordered pandas Categorical from the lowest to the highest; None of anything else.

    Args:
        y: Labels in any form: an array, a list, a Series, a Categorical or a DataFrame of one column.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    column = y.iloc[:, 0] if isinstance(y, pandas.DataFrame) and y.shape[1] == 1 else y
    kind = getattr(column, "dtype", None)
    return kind.categories.tolist() if isinstance(kind, pandas.CategoricalDtype) and kind.ordered else None


def class_likelihood(
    likelihood: Any, y: np.ndarray, order: Sequence[Any] | None = None
) -> tuple[Likelihood[Any], np.ndarray, np.ndarray]:
    """Find the likelihood of labels, and number them.

    Args:
        likelihood: "auto"; "ordinal", whose labels are numbers or in a given order; or an `Ordinal`, with labels in
            their order or not.
        y: Labels, (rows,).
        order: Order of the labels, if their column has one (see `category_order`); it may have more than the labels.

    Returns:
        The likelihood, the classes in the order of their numbers, and the number of each row's class.

    Raises:
        DataError: If there is one class only, or a label that is not among those of an `Ordinal`.
        ParameterError: If the parameter is none of these.

    >>> class_likelihood("ordinal", np.array([3, 1, 2, 1]))
    (Ordinal(classes=3), array([1, 2, 3]), array([2, 0, 1, 0]))
    """
    classes, codes = class_numbers(y)
    if isinstance(likelihood, str) and likelihood.lower() == "auto":
        return Categorical(), classes, codes
    named = isinstance(likelihood, str) and likelihood.lower() == "ordinal"
    if not named and not isinstance(likelihood, Ordinal):
        fix = "it is for numbers: use auto or ordinal, or R2D2Regressor"
        raise ParameterError("is not for classes", argument="likelihood", value=likelihood, fix=fix)
    if named or likelihood.labels is None:
        if order is not None:
            classes = classes[np.argsort([order.index(label) for label in classes.tolist()])]
            codes = numbers_of(y, classes)
        elif classes.dtype.kind not in "biuf":
            unknown_order = "holds texts, whose order is not known"
            raise DataError(unknown_order, argument="y", fix=("give it, such as ", EXAMPLE))
        if not named and likelihood.count != len(classes):
            problem = f"has {likelihood.count} classes, the labels {len(classes)}"
            raise ParameterError(problem, argument="likelihood", value=likelihood, fix="use ordinal")
        return Ordinal(len(classes)), classes, codes
    listed = np.array(likelihood.labels)
    unknown = ~np.isin(classes, listed)
    if unknown.any():
        label = Value(classes[unknown].tolist()[0])
        not_listed = ("holds the label ", label, ", which ", Argument("likelihood"), " does not list")
        raise DataError(not_listed, argument="y", fix="add it where it belongs")
    if len(listed) > len(classes):
        absent = listed[~np.isin(listed, classes)].tolist()[0]
        raise DataError(("holds no label ", Value(absent)), argument="y", fix="leave it out of the likelihood")
    return likelihood, listed, numbers_of(y, listed)
