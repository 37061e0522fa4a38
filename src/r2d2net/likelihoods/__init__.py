"""Likelihoods: distributions of the targets given a network's output. The contract is in `base`."""

from r2d2net.likelihoods.base import Likelihood, Noise, Unit
from r2d2net.likelihoods.discrete import Bernoulli, Categorical, Poisson
from r2d2net.likelihoods.gamma import Gamma
from r2d2net.likelihoods.gaussian import Gaussian, Heteroscedastic
from r2d2net.likelihoods.log_normal import LogNormal
from r2d2net.likelihoods.negative_binomial import NegativeBinomial
from r2d2net.likelihoods.ordinal import Ordinal
from r2d2net.likelihoods.positions import BernoulliLabels, CategoricalPositions
from r2d2net.likelihoods.student_t import StudentT

__all__ = [
    "Bernoulli",
    "BernoulliLabels",
    "Categorical",
    "CategoricalPositions",
    "Gamma",
    "Gaussian",
    "Heteroscedastic",
    "Likelihood",
    "LogNormal",
    "NegativeBinomial",
    "Noise",
    "Ordinal",
    "Poisson",
    "StudentT",
    "Unit",
]
