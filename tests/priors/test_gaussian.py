"""The Gaussian prior against torch.distributions."""

import pytest
import torch
from torch.distributions import Normal

from r2d2net.priors import Gaussian


def test_density_and_bound() -> None:
    prior, w = Gaussian(0.3), torch.linspace(-2, 2, 9, dtype=torch.float64)
    torch.testing.assert_close(prior.log_prob(w), Normal(0.0, 0.3).log_prob(w))
    factors = prior.cavi(w.square(), prior.init_scales(w.shape, torch.Generator().manual_seed(0), dtype=w.dtype))
    assert factors.kl() == 0
    torch.testing.assert_close(factors.bound(w.square()), prior.log_prob(w).sum())


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf")])
def test_an_impossible_scale_is_named(scale: float) -> None:
    with pytest.raises(ValueError, match=f"^scale={scale} is out of range: use a number between"):
        Gaussian(scale)
