"""Likelihoods: distributions of the targets given a network's output. The contract is in `base`."""

from r2d2net.likelihoods.base import Likelihood, Noise, Unit
from r2d2net.likelihoods.discrete import Bernoulli, Categorical, Poisson
from r2d2net.likelihoods.gaussian import Gaussian, Heteroscedastic

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Heteroscedastic", "Likelihood", "Noise", "Poisson", "Unit"]
