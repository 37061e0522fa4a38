"""r2d2net: Bayesian neural networks with shrinkage priors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from r2d2net import data, diagnostics, distributions, inference, likelihoods, metrics, nets, priors, shrinkage
from r2d2net.errors import CheckpointError, DataError, DivergenceError, ParameterError, R2D2NetError
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior, load, save
from r2d2net.run.fit import fit

if TYPE_CHECKING:
    from r2d2net import estimators
    from r2d2net.estimators import R2D2Classifier, R2D2Regressor

__version__ = "0.1.0"
__all__ = [
    "BayesianModel",
    "CheckpointError",
    "DataError",
    "DivergenceError",
    "ParameterError",
    "Posterior",
    "R2D2Classifier",
    "R2D2NetError",
    "R2D2Regressor",
    "__version__",
    "data",
    "diagnostics",
    "distributions",
    "estimators",
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


def __getattr__(name: str) -> Any:
    """The estimators, which need scikit-learn, are imported when first used."""
    if name not in ("estimators", "R2D2Classifier", "R2D2Regressor"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    estimators = import_module("r2d2net.estimators")
    return estimators if name == "estimators" else getattr(estimators, name)
