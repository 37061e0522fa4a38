"""The spike-and-slab prior: responsibilities, their KL, and arguments."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, MixtureSameFamily, Normal, kl_divergence

from prior_proofs import assert_factors_are_the_posterior
from r2d2net.priors import SpikeSlab
from r2d2net.priors.spike_slab import SpikeSlabScales

PRIOR = SpikeSlab(0.3, 2.0, 0.2)


def test_density() -> None:
    w = torch.linspace(-5, 5, 21)
    components = Normal(torch.zeros(2), torch.tensor([2.0, 0.2]))
    mixture = MixtureSameFamily(Categorical(torch.tensor([0.3, 0.7])), components)
    torch.testing.assert_close(PRIOR.log_prob(w), mixture.log_prob(w))


@pytest.mark.parametrize("u", [0.01, 0.45, 0.8])
def test_factors_are_the_posterior(u: float) -> None:
    assert_factors_are_the_posterior(PRIOR, u, seed=1)


def test_kl_is_that_of_the_indicators_and_the_responsibility_is_best() -> None:
    m = torch.tensor([1e-4, 0.2, 0.5], dtype=torch.float64)
    factors = PRIOR.cavi(m, PRIOR.init_scales(m.shape, torch.Generator().manual_seed(0)))
    r = factors.scales.slab

    def kl(r: torch.Tensor) -> torch.Tensor:
        return kl_divergence(Bernoulli(r), Bernoulli(torch.full_like(r, 0.3))).sum()

    def bound(r: torch.Tensor) -> torch.Tensor:
        log_v = 2 * (r * math.log(2.0) + (1 - r) * math.log(0.2))
        normal = -0.5 * (math.log(2 * math.pi) + log_v + m / PRIOR.variance(SpikeSlabScales(r)))
        return normal.sum() - kl(r)

    torch.testing.assert_close(factors.kl(), kl(r))
    torch.testing.assert_close(factors.bound(m), bound(r))
    for step in (-1e-3, 1e-3):
        assert bound(torch.sigmoid(torch.logit(r) + step)) < bound(r)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slab_probability": 1.0}, r"slab_probability=1.0 is out of range: use a number in \(0, 1\)"),
        ({"slab_scale": -2.0}, "slab_scale=-2.0 is out of range: use a number between"),
        ({"spike_scale": 1.0}, "spike_scale=1.0 is out of range: use a number below slab_scale=1.0"),
    ],
)
def test_impossible_arguments_are_named(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpikeSlab(**arguments)
