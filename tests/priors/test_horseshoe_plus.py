"""The horseshoe+ against the 17-digit reference; the rest is in test_half_cauchy_product.py."""

import torch

from prior_proofs import gold_densities
from r2d2net.priors import HorseshoePlus


def test_gold_density() -> None:
    ((hyper, w, density),) = gold_densities("horseshoe_plus")
    prior = HorseshoePlus(scale=hyper["lam"], global_scale=None)
    torch.testing.assert_close(prior.log_prob(w).exp(), density, rtol=1e-10, atol=0)
