"""Estimators for scikit-learn: `R2D2Regressor`, `R2D2Classifier` and `R2D2Selector`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from r2d2net.estimators.classifier import R2D2Classifier
    from r2d2net.estimators.regressor import R2D2Regressor
    from r2d2net.estimators.selector import R2D2Selector

__all__ = ["R2D2Classifier", "R2D2Regressor", "R2D2Selector"]
HOMES = {"R2D2Classifier": "classifier", "R2D2Regressor": "regressor", "R2D2Selector": "selector"}


def __getattr__(name: str) -> Any:
    """Import an estimator when it is first used: scikit-learn takes a second, which the command line does without."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    estimator = getattr(import_module(f"r2d2net.estimators.{HOMES[name]}"), name)
    globals()[name] = estimator
    return estimator


def __dir__() -> list[str]:
    """Return the public names, which `dir` and editors show."""
    return sorted(__all__)
