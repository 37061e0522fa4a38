"""Diagnostics: R-hat and effective sample sizes of samplers, leave-one-out predictions of linear models."""

from r2d2net.diagnostics.convergence import Convergence, diagnose, of_predictions, of_weights
from r2d2net.diagnostics.leave_one_out import LeaveOneOut, loo

__all__ = ["Convergence", "LeaveOneOut", "diagnose", "loo", "of_predictions", "of_weights"]
