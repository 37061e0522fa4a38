"""e^y E1(y) against mpmath."""

import math

import mpmath
import torch
from torch.autograd import gradcheck

from r2d2net.distributions import scaled_expint
from reference import f64


def test_against_mpmath():
    """Relative error at most 4e-15, on both sides of the border at 1.5 and over 38 decades."""
    points = [10.0**k for k in range(-30, 9)] + [0.05 * k for k in range(1, 100)] + [1.5 - 1e-12, 1.5, 1.5 + 1e-12]
    with mpmath.workdps(30):
        truth = f64([float(mpmath.exp(y) * mpmath.e1(mpmath.mpf(y))) for y in points])
    torch.testing.assert_close(scaled_expint(f64(points)), truth, rtol=4e-15, atol=0)


def test_gradcheck():
    assert gradcheck(scaled_expint, f64([1e-3, 0.3, 1.4999, 1.5, 1.5001, 4.0, 60.0]).requires_grad_(), rtol=1e-6)


def test_limits_and_dtype():
    value = scaled_expint(torch.tensor([0.0, math.inf, 1.0]))
    assert value.dtype == torch.float32
    assert value[:2].tolist() == [math.inf, 0.0]
    assert scaled_expint(torch.empty(0, 3)).shape == (0, 3)
