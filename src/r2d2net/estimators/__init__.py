"""Estimators for scikit-learn: `R2D2Regressor` and `R2D2Classifier`."""

from r2d2net.estimators.classifier import R2D2Classifier
from r2d2net.estimators.regressor import R2D2Regressor

__all__ = ["R2D2Classifier", "R2D2Regressor"]
