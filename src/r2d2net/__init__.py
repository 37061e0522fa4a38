"""r2d2net: Bayesian neural networks with shrinkage priors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from r2d2net.errors import CheckpointError, DataError, DivergenceError, ParameterError, R2D2NetError

if TYPE_CHECKING:
    from r2d2net import (
        data,
        diagnostics,
        distributions,
        estimators,
        inference,
        likelihoods,
        metrics,
        nets,
        priors,
        shrinkage,
        testing,
    )
    from r2d2net.estimators import R2D2Classifier, R2D2Regressor
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
    "testing",
]
HOMES = {
    "BayesianModel": "model",
    "Posterior": "posterior",
    "R2D2Classifier": "estimators",
    "R2D2Regressor": "estimators",
    "fit": "run.fit",
    "load": "posterior",
    "save": "posterior",
}


def __getattr__(name: str) -> Any:
    """Names are imported when first used: torch takes seconds, for which `r2d2net --help` need not wait."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"r2d2net.{HOMES.get(name, name)}")
    globals()[name] = found = getattr(home, name) if name in HOMES else home
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
