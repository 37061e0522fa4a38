"""r2d2net: Bayesian neural networks with shrinkage priors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from r2d2net.errors import CheckpointError, DataError, DivergenceError, ParameterError, R2D2NetError, RankError

if TYPE_CHECKING:
    from r2d2net import (
        adapters,
        callbacks,
        data,
        diagnostics,
        distributions,
        estimators,
        graphs,
        inference,
        likelihoods,
        metrics,
        nets,
        novelty,
        optim,
        priors,
        shrinkage,
        testing,
    )
    from r2d2net.combining import combine
    from r2d2net.diagnostics.comparison import compare
    from r2d2net.estimators import R2D2Classifier, R2D2Regressor, R2D2Selector
    from r2d2net.model import BayesianModel
    from r2d2net.posterior import Posterior
    from r2d2net.prediction import Classification, Counts, DirichletClassification, Mixture, Prediction, Regression
    from r2d2net.run.fit import fit
    from r2d2net.saved_posteriors import load, save

__version__ = "0.1.0"
__all__ = [
    "BayesianModel",
    "CheckpointError",
    "Classification",
    "Counts",
    "DataError",
    "DirichletClassification",
    "DivergenceError",
    "Mixture",
    "ParameterError",
    "Posterior",
    "Prediction",
    "R2D2Classifier",
    "R2D2NetError",
    "R2D2Regressor",
    "R2D2Selector",
    "RankError",
    "Regression",
    "__version__",
    "adapters",
    "callbacks",
    "combine",
    "compare",
    "data",
    "diagnostics",
    "distributions",
    "estimators",
    "fit",
    "graphs",
    "inference",
    "likelihoods",
    "load",
    "metrics",
    "nets",
    "novelty",
    "optim",
    "priors",
    "save",
    "shrinkage",
    "testing",
]
HOMES = {
    "combine": "combining",
    "BayesianModel": "model",
    "Posterior": "posterior",
    "R2D2Classifier": "estimators",
    "R2D2Regressor": "estimators",
    "R2D2Selector": "estimators",
    "Classification": "prediction",
    "Counts": "prediction",
    "DirichletClassification": "prediction",
    "Mixture": "prediction",
    "Prediction": "prediction",
    "Regression": "prediction",
    "compare": "diagnostics.comparison",
    "fit": "run.fit",
    "load": "saved_posteriors",
    "save": "saved_posteriors",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, for which `r2d2net --help` need not wait."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"r2d2net.{HOMES.get(name, name)}")
    public = getattr(home, name) if name in HOMES else home
    globals()[name] = public
    return public


def __dir__() -> list[str]:
    """Return the public names, which `dir` and editors show."""
    return sorted(__all__)
