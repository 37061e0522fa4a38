"""Contract tests for priors, likelihoods and algorithms, ours and anyone's: each raises `ContractError` or returns.

    check_prior(MyPrior())              draws, density, Gibbs sweeps, coordinate ascent, extremes, saving
    check_likelihood(MyLikelihood())    targets, density, noise, predictions, saving
    check_algorithm(MyMethod())         fitting, killing and resuming, saving and loading, predictions, refusals

They need neither pytest nor anything else besides r2d2net, and take seconds to a minute. Seeds are pinned: a pass
stays a pass until the code changes. Every statistical check states its false-alarm rate.
"""

from r2d2net.testing.algorithm import ALGORITHM_CHECKS, check_algorithm
from r2d2net.testing.contract_error import ContractError
from r2d2net.testing.gibbs_invariance import Geweke, geweke
from r2d2net.testing.likelihood import LIKELIHOOD_CHECKS, check_likelihood
from r2d2net.testing.prior import PRIOR_CHECKS, check_prior

__all__ = [
    "ALGORITHM_CHECKS",
    "LIKELIHOOD_CHECKS",
    "PRIOR_CHECKS",
    "ContractError",
    "Geweke",
    "check_algorithm",
    "check_likelihood",
    "check_prior",
    "geweke",
]
