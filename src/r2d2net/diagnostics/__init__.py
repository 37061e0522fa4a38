"""Convergence diagnostics of samplers: R-hat and effective sample sizes."""

from r2d2net.diagnostics.convergence import Convergence, diagnose, of_predictions, of_weights

__all__ = ["Convergence", "diagnose", "of_predictions", "of_weights"]
