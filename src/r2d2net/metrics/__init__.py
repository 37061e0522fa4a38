"""Metrics: pure functions of arrays or tensors that take the targets first and return floats or numpy arrays."""

from r2d2net.metrics.classification import accuracy, brier, ece, macro_f1
from r2d2net.metrics.inference_error import function_distance, function_error, parameter_error
from r2d2net.metrics.likelihood import nll
from r2d2net.metrics.ood import OODScores, compare_scores, ood_scores, uncertainty_scores
from r2d2net.metrics.ranked_probability import crps, crps_gaussian, crps_samples, rps
from r2d2net.metrics.ranking import aupr, auroc, fpr_at_tpr, macro_aupr, macro_auroc
from r2d2net.metrics.regression import coverage, gaussian_nll, interval_width, mse, rmse
from r2d2net.metrics.uncertainty import expected_entropy, max_prob, mutual_information, predictive_entropy

__all__ = [
    "OODScores",
    "accuracy",
    "aupr",
    "auroc",
    "brier",
    "compare_scores",
    "coverage",
    "crps",
    "crps_gaussian",
    "crps_samples",
    "ece",
    "expected_entropy",
    "fpr_at_tpr",
    "function_distance",
    "function_error",
    "gaussian_nll",
    "interval_width",
    "macro_aupr",
    "macro_auroc",
    "macro_f1",
    "max_prob",
    "mse",
    "mutual_information",
    "nll",
    "ood_scores",
    "parameter_error",
    "predictive_entropy",
    "rmse",
    "rps",
    "uncertainty_scores",
]
