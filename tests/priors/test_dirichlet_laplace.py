"""The Dirichlet-Laplace prior against its reference density and brute-force quadrature."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from prior_proofs import assert_factors_are_the_posterior, gold_densities, kl_on_grid
from r2d2net.priors import DirichletLaplace

PRIOR = DirichletLaplace(concentration=0.4, scale=0.5)


def test_gold_density() -> None:
    ((hyper, w, density),) = gold_densities("dirichlet_laplace")
    ours = DirichletLaplace(hyper["a_star"]).log_prob(w).exp()
    torch.testing.assert_close(ours, density, rtol=1e-10, atol=0)


def test_density_at_zero() -> None:
    """Infinite up to concentration 1, then 1 / (4 (a - 1) scale), the limit of its neighbourhood."""
    near, zero = torch.tensor(1e-14, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    assert DirichletLaplace(1.0).log_prob(zero) == math.inf
    prior = DirichletLaplace(2.5, 0.5)
    assert prior.log_prob(zero).exp().item() == pytest.approx(1 / 3)
    torch.testing.assert_close(prior.log_prob(zero), prior.log_prob(near))


@pytest.mark.parametrize("prior", [PRIOR, DirichletLaplace(2.5, 0.5)], ids=repr)
@pytest.mark.parametrize("u", [1e-3, 0.5, 30.0])
def test_factors_are_the_posterior(prior: DirichletLaplace, u: float) -> None:
    assert_factors_are_the_posterior(prior, u, seed=1)


@pytest.mark.parametrize("u", [1e-3, 0.5, 1.0, 30.0])
def test_kl_against_quadrature(u: float) -> None:
    def log_prior(psi: np.ndarray, phi: np.ndarray) -> np.ndarray:
        return stats.gamma(0.4, scale=2).logpdf(phi) - psi / 2 - math.log(2)

    kl, log_variance = kl_on_grid(log_prior, lambda psi, phi: psi * (0.5 * phi) ** 2, u)
    factors = PRIOR.cavi(
        torch.tensor([u * u], dtype=torch.float64), PRIOR.init_scales((1,), torch.Generator().manual_seed(0))
    )
    assert factors.kl().item() == pytest.approx(kl, rel=1e-8, abs=1e-9)
    assert factors.log_variance().item() == pytest.approx(log_variance, rel=1e-8)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
def test_many_weights_are_interpolated(dtype: torch.dtype, tolerance: float) -> None:
    m = torch.logspace(-30, 30, 3000, dtype=dtype)
    few, generator = m[::100].contiguous(), torch.Generator().manual_seed(0)
    table, exact = (PRIOR.cavi(x, PRIOR.init_scales(x.shape, generator, dtype=dtype)).log_variance() for x in (m, few))
    torch.testing.assert_close(table[::100], exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("argument", ["concentration", "scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_impossible_arguments_are_named(argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{argument}={value} is out of range: use a number between"):
        DirichletLaplace(**{argument: value})
