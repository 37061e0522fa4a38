"""Coordinate ascent of the horseshoe family: stationary, and with the KL that Monte Carlo finds."""

import math

import pytest
import torch
from torch.distributions import Gamma

from r2d2net.distributions import standard_gamma
from r2d2net.priors import Horseshoe, HorseshoePlus
from r2d2net.priors.half_cauchy_product import HalfCauchyFactors

FAMILY = [Horseshoe(0.5, 0.3), Horseshoe(2.0, None), HorseshoePlus(0.5, 0.3), HorseshoePlus(2.0, None)]
every_member = pytest.mark.parametrize("prior", FAMILY, ids=repr)
MOMENTS = torch.tensor([1e-4, 0.3, 2.0, 50.0], dtype=torch.float64)


def converged(prior: Horseshoe | HorseshoePlus) -> HalfCauchyFactors:
    scales = prior.init_scales(MOMENTS.shape, torch.Generator().manual_seed(0), dtype=MOMENTS.dtype)
    for _ in range(1500):
        factors = prior.cavi(MOMENTS, scales)
        scales = factors.scales
    return factors


@every_member
def test_the_fixed_point_is_stationary(prior: Horseshoe | HorseshoePlus) -> None:
    """The gradient of the bound in every variational parameter vanishes, and no step raises it."""
    factors = converged(prior)
    count = len(factors.precisions)
    q = [*factors.precisions, *factors.auxiliaries]
    parameters = [x.clone().requires_grad_() for g in q for x in (g.concentration.log(), g.rate.log())]

    def bound(values: list[torch.Tensor]) -> torch.Tensor:
        gammas = [Gamma(a.exp(), r.exp()) for a, r in zip(values[::2], values[1::2], strict=True)]
        return HalfCauchyFactors(factors.scales, gammas[:count], gammas[count:], factors._free).bound(MOMENTS)

    best = bound(parameters)
    for gradient in torch.autograd.grad(best, parameters):
        assert gradient.abs().max() < 1e-5
    for k in range(len(parameters)):
        for step in (-0.01, 0.01):
            moved = [x + step if i == k else x for i, x in enumerate(parameters)]
            assert bound(moved) < best


@every_member
def test_kl_and_log_variance_against_monte_carlo(prior: Horseshoe | HorseshoePlus) -> None:
    """Mean of log q - log p over draws from q; |z| < 6 is a false-alarm rate of 2e-9 for each of 20 means."""
    generator = torch.Generator().manual_seed(4)
    factors = converged(prior)
    draws = 100_000
    log_ratio = torch.zeros(draws, dtype=MOMENTS.dtype)
    log_variance = torch.zeros(draws, *MOMENTS.shape, dtype=MOMENTS.dtype)
    medians = [own.b for own in factors._free]
    for q, q_auxiliary, b in zip(factors.precisions, factors.auxiliaries, medians, strict=True):
        x, a = (
            standard_gamma(g.concentration.expand(draws, *g.batch_shape), generator) / g.rate for g in (q, q_auxiliary)
        )
        half = torch.tensor(0.5, dtype=MOMENTS.dtype)
        terms = q.log_prob(x) - Gamma(half, a).log_prob(x)
        terms = terms + q_auxiliary.log_prob(a) - Gamma(half, half * 0 + b**-2).log_prob(a)
        log_ratio += terms.reshape(draws, -1).sum(1)
        log_variance -= x.log().reshape(draws, -1)
    assert _z(log_ratio, factors.kl()) < 6
    assert _z(log_variance, factors.log_variance()) < 6


@pytest.mark.parametrize("argument", ["scale", "global_scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("prior", [Horseshoe, HorseshoePlus])
def test_impossible_scales_are_named(prior: type, argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{argument}={value} is out of range: use a number between"):
        prior(**{argument: value})


def _z(draws: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((draws.mean(0) - expected) / (draws.std(0) / math.sqrt(len(draws)))).abs().max())
