"""The half-Cauchy distribution against scipy."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.autograd import gradcheck

from r2d2net.distributions import HalfCauchy
from reference import DRAWS, LEVEL, f64, ks_p_value, seeded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 300.0])
def test_draws(scale, dtype):
    """False-alarm rate 2e-7 for each of 6 tests."""
    s = torch.tensor(scale, dtype=dtype)
    x = HalfCauchy(s).sample((DRAWS,), seeded(int(scale)))
    assert ks_p_value(x, stats.halfcauchy(scale=s.item()).cdf) > LEVEL


def test_tail_reaches_beyond_the_resolution_of_uniforms():
    """Of 1e6 float32 draws the largest exceeds 1e4 with probability 1 - e^-64."""
    assert HalfCauchy(1.0).sample((1_000_000,), seeded(0)).max() > 1e4


def test_log_prob_and_entropy():
    x = np.array([1e-30, 0.1, 2.0, 1e10, 1e30])
    for scale in (0.2, 3.0):
        q, p = HalfCauchy(f64(scale)), stats.halfcauchy(scale=scale)
        np.testing.assert_allclose(q.log_prob(f64(x)), p.logpdf(x), rtol=1e-12)
        np.testing.assert_allclose(q.entropy(), np.log(2 * np.pi * scale), rtol=1e-12)
    assert HalfCauchy(1.0, validate_args=False).log_prob(torch.tensor(-1.0)) == -torch.inf
    assert HalfCauchy(1.0).mean == torch.inf


def test_gradcheck():
    scale, x = f64([0.3, 2.0]).requires_grad_(), f64([0.1, 9.0]).requires_grad_()
    assert gradcheck(lambda s, v: HalfCauchy(s).log_prob(v), (scale, x))
    assert gradcheck(lambda s: HalfCauchy(s).entropy(), (scale,))
