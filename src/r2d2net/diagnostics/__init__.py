"""What tells whether a sampler has arrived."""

from r2d2net.diagnostics.convergence import Convergence, diagnose, of_predictions, of_weights

__all__ = ["Convergence", "diagnose", "of_predictions", "of_weights"]
