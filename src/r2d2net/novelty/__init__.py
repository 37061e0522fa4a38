"""Rows unlike the training data: one calibrated p-value for each, from layers of a network and its posterior."""

from r2d2net.novelty.conformal import Calibration, Combined
from r2d2net.novelty.detector import Detector, fit, load

__all__ = ["Calibration", "Combined", "Detector", "fit", "load"]
