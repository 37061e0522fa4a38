"""Adam against torch's own, and the proximal step against the problem it solves."""

import pytest
import torch

from r2d2net.inference.adam import adam_step, no_moments


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    "unit", [1.0, 0.25, torch.full((20,), 0.25, dtype=torch.float64)], ids=["one", "number", "vector"]
)
def test_adam_is_torchs_adam(unit):
    """But for eps, which is under the root: a share of at most eps / |g|, here about 1e-5, of a step of 0.03."""
    mine, theirs = normal(20), normal(20).requires_grad_()
    moments, optimizer = no_moments(mine), torch.optim.Adam([theirs], lr=0.03 * float(torch.as_tensor(unit).max()))
    for t in range(1, 60):
        gradient = normal(20, seed=t) * 10 ** normal(20, seed=-t)
        theirs.grad = gradient.clone()
        optimizer.step()
        adam_step(mine, gradient, moments, t, 0.03, unit)
        torch.testing.assert_close(mine, theirs.detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("unit", [0.5, torch.linspace(0.1, 2, 30, dtype=torch.float64)], ids=["number", "vector"])
def test_the_proximal_step_is_the_exact_minimiser(unit):
    """Of (mu - mu')^2 / (2 eta) + weight c mu^2 / 2, mu' being where Adam alone leads and eta its step size."""
    start, gradient, precision, weight = normal(30), normal(30, seed=1), (5 * normal(30, seed=2)).exp(), 0.01
    alone, found = start.clone(), start.clone()
    moments, others = no_moments(start), no_moments(start)
    for t in range(1, 4):
        found.copy_(alone)
        adam_step(alone, gradient, moments, t, 0.1, unit)
        adam_step(found, gradient, others, t, 0.1, unit, precision=precision, weight=weight)
    eta = 0.1 * unit / (moments.second / (1 - 0.999**3) + 1e-16).sqrt()
    slope = (found - alone) / eta + weight * precision * found
    torch.testing.assert_close(slope * eta, torch.zeros_like(slope), rtol=0, atol=1e-12)


@pytest.mark.parametrize("precision", [0.0, 1e30])
def test_the_proximal_step_is_stable_at_both_ends(precision):
    mean = torch.tensor([1.0, -2.0])
    adam_step(mean, torch.zeros(2), no_moments(mean), 1, 1.0, precision=torch.full((2,), precision), weight=1.0)
    torch.testing.assert_close(mean, torch.tensor([1.0, -2.0]) * (precision == 0))
