"""The generalized double Pareto prior against its reference density and brute-force quadrature."""

import numpy as np
import pytest
import torch
from scipy import stats

from prior_proofs import assert_factors_are_the_posterior, gold_densities, kl_on_grid
from r2d2net.priors import GeneralizedDoublePareto

PRIOR = GeneralizedDoublePareto(alpha=1.5, eta=0.5)


def test_gold_density() -> None:
    ((hyper, w, density),) = gold_densities("gdp")
    ours = GeneralizedDoublePareto(**hyper).log_prob(w).exp()
    torch.testing.assert_close(ours, density, rtol=1e-12, atol=0)


@pytest.mark.parametrize("u", [1e-3, 0.5, 30.0])
def test_factors_are_the_posterior(u: float) -> None:
    assert_factors_are_the_posterior(PRIOR, u, seed=1)


@pytest.mark.parametrize("u", [1e-3, 0.5, 1.0, 30.0])
def test_kl_against_quadrature(u: float) -> None:
    def log_prior(tau: np.ndarray, lam: np.ndarray) -> np.ndarray:
        return np.log(lam**2 / 2) - lam**2 * tau / 2 + stats.gamma(1.5, scale=1 / 0.5).logpdf(lam)

    kl, log_variance = kl_on_grid(log_prior, lambda tau, lam: tau, u)
    factors = PRIOR.cavi(
        torch.tensor([u * u], dtype=torch.float64), PRIOR.init_scales((1,), torch.Generator().manual_seed(0))
    )
    assert factors.kl().item() == pytest.approx(kl, rel=1e-8, abs=1e-9)
    assert factors.log_variance().item() == pytest.approx(log_variance, rel=1e-8)


@pytest.mark.parametrize("argument", ["alpha", "eta"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_impossible_arguments_are_named(argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{argument}={value} is out of range: use a number between"):
        GeneralizedDoublePareto(**{argument: value})
