"""Contract tests for priors, ours and anyone's: each raises `ContractError` or returns.

    check_prior(MyPrior())              draws, density, Gibbs sweeps, coordinate ascent, extremes, saving

They need neither pytest nor anything else besides r2d2net, and take seconds to a minute. Seeds are pinned: a pass
stays a pass until the code changes. Every statistical check states its false-alarm rate.
"""

from r2d2net.testing.contract_error import ContractError
from r2d2net.testing.gibbs_invariance import Geweke, geweke
from r2d2net.testing.prior import PRIOR_CHECKS, check_prior

__all__ = ["PRIOR_CHECKS", "ContractError", "Geweke", "check_prior", "geweke"]
