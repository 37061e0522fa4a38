"""r2d2net: Bayesian neural networks with shrinkage priors."""

from r2d2net import data, diagnostics, distributions, inference, likelihoods, metrics, nets, priors, shrinkage
from r2d2net.errors import CheckpointError, DataError, DivergenceError, ParameterError, R2D2NetError
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior, load, save
from r2d2net.run.fit import fit

__version__ = "0.1.0"
__all__ = [
    "BayesianModel",
    "CheckpointError",
    "DataError",
    "DivergenceError",
    "ParameterError",
    "Posterior",
    "R2D2NetError",
    "__version__",
    "data",
    "diagnostics",
    "distributions",
    "fit",
    "inference",
    "likelihoods",
    "load",
    "metrics",
    "nets",
    "priors",
    "save",
    "shrinkage",
]
