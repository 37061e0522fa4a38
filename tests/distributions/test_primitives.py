"""Gamma variates and their expected log."""

import pytest
import torch
from scipy import stats
from torch.distributions import Gamma

from r2d2net.distributions import gamma_mean_log, standard_gamma
from reference import DRAWS, LEVEL, f64, ks_p_value, seeded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("shape", [0.02, 0.3, 1.0, 7.0, 1e4])
def test_draws(shape, dtype):
    """False-alarm rate 2e-7 for each of 10 tests; at shape 0.02 a sixth of the float32 draws underflow."""
    a = torch.tensor(shape, dtype=dtype)
    x = standard_gamma(a.expand(DRAWS), seeded(int(shape * 100)))
    assert bool((x >= torch.finfo(dtype).tiny).all())
    assert ks_p_value(x, stats.gamma(a.item()).cdf) > LEVEL


def test_generator():
    shape, state = torch.full((50,), 0.4), torch.get_rng_state()
    assert torch.equal(standard_gamma(shape, seeded(1)), standard_gamma(shape, seeded(1)))
    assert not torch.equal(standard_gamma(shape, seeded(1)), standard_gamma(shape, seeded(2)))
    assert torch.equal(state, torch.get_rng_state())


def test_mean_log():
    """Against 1e6 draws: false-alarm rate of 6 standard errors 2e-9."""
    x = 2 * standard_gamma(torch.full((1_000_000,), 0.7, dtype=torch.float64), seeded(0))
    z = (x.log().mean() - gamma_mean_log(Gamma(f64(0.7), f64(0.5)))) / (x.log().std() / 1000)
    assert abs(z.item()) < 6
