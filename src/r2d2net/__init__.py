"""r2d2net: Bayesian neural networks with shrinkage priors."""

from r2d2net import distributions, priors
from r2d2net.errors import ParameterError, R2D2NetError

__version__ = "0.1.0"
__all__ = ["ParameterError", "R2D2NetError", "__version__", "distributions", "priors"]
