"""Unconstrained scales of priors that tests/priors/test_contract.py does not have.

False alarms: fewer than 30 tests at 1e-6 each. Seeds are pinned.
"""

import pytest

from r2d2net.priors import R2D2, ContinuousScalePrior, Horseshoe
from r2d2net.testing.scale_density import check_unconstrained

PRIORS = [R2D2(0.3, 1.5, sigma0=0.5), R2D2.from_r2(0.6, 3.0, concentration=0.9, sigma0=2.0)]


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_unconstrained_scales_have_the_density_of_the_draws(prior):
    assert isinstance(prior, ContinuousScalePrior)
    check_unconstrained(prior)


class Centred(Horseshoe):
    """Its local scale follows the global one, so the variables depend on each other."""

    def unconstrained(self, scales):
        u = super().unconstrained(scales)
        first, *_, last = u
        return {**u, first: u[first] + u[last]}


def test_dependent_variables_are_rejected():
    with pytest.raises(AssertionError):
        check_unconstrained(Centred())
