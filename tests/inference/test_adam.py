"""Adam against torch's own, and the two proximal steps against the problems they solve."""

import pytest
import torch

from r2d2net.inference.adam import adam_step, no_moments, shrink_mean


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_adam_is_torchs_adam():
    mine, theirs = normal(20), normal(20).requires_grad_()
    moments, optimizer = no_moments(mine), torch.optim.Adam([theirs], lr=0.03)
    for t in range(1, 60):
        gradient = normal(20, seed=t) * 10 ** normal(20, seed=-t)
        theirs.grad = gradient.clone()
        optimizer.step()
        eta = adam_step(mine, gradient, moments, t, 0.03)
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-12, atol=1e-12)
    second = optimizer.state[theirs]["exp_avg_sq"]
    torch.testing.assert_close(eta, 0.03 / ((second / (1 - 0.999**t)).sqrt() + 1e-8), rtol=1e-12, atol=0)


def test_shrink_mean_is_the_exact_minimiser():
    start, eta, precision, weight = normal(30), normal(30, seed=1).exp(), (5 * normal(30, seed=2)).exp(), 0.01
    found = start.clone()
    shrink_mean(found, eta, precision, weight)
    slope = (found - start) / eta + weight * precision * found
    torch.testing.assert_close(slope * eta, torch.zeros_like(slope), rtol=0, atol=1e-12)


@pytest.mark.parametrize("precision", [0.0, 1e30])
def test_shrink_mean_is_stable_at_both_ends(precision):
    mean = torch.tensor([1.0, -2.0])
    shrink_mean(mean, torch.ones(2), torch.full((2,), precision), 1.0)
    torch.testing.assert_close(mean, torch.tensor([1.0, -2.0]) / (1 + precision))
