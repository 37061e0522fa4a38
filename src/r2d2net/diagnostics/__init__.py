"""Diagnostics: convergence of samplers, rows left out, models compared, calibration by simulation."""

from r2d2net.diagnostics.calibration_ranks import SimulatedCalibration
from r2d2net.diagnostics.comparison import Compared, Comparison, compare
from r2d2net.diagnostics.convergence import Convergence, diagnose, of_predictions, of_weights
from r2d2net.diagnostics.leave_one_out import LeaveOneOut, loo
from r2d2net.diagnostics.simulated_calibration import vsbc

__all__ = [
    "Compared",
    "Comparison",
    "Convergence",
    "LeaveOneOut",
    "SimulatedCalibration",
    "compare",
    "diagnose",
    "loo",
    "of_predictions",
    "of_weights",
    "vsbc",
]
