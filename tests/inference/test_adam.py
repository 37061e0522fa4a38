"""Adam against torch's own, and the proximal step against the problem it solves."""

import pytest
import torch

from r2d2net.inference.adam import Step, adam_step, no_moments, proximal_step


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def as_tensors(step: Step) -> Step:
    return Step(*(torch.tensor(number, dtype=torch.float64) for number in step[:4]))


FORMS = pytest.mark.parametrize("form", [lambda step: step, as_tensors], ids=["numbers", "tensors"])


@FORMS
@pytest.mark.parametrize("ascend", [False, True])
def test_adam_is_torchs_adam(form, ascend):
    mine, theirs = normal(20), normal(20).requires_grad_()
    moments, optimizer = no_moments(mine), torch.optim.Adam([theirs], lr=0.03, maximize=ascend)
    for t in range(1, 60):
        gradient = normal(20, seed=t) * 10 ** normal(20, seed=-t)
        theirs.grad = gradient.clone()
        optimizer.step()
        adam_step(mine, gradient, moments, form(Step.at(t, 0.03)), ascend=ascend)
        torch.testing.assert_close(mine, theirs.detach(), rtol=0, atol=1e-12)


@FORMS
def test_the_proximal_step_is_the_exact_minimiser(form):
    """Of (mu - mu')^2 / (2 eta) + weight c mu^2 / 2, mu' being where Adam alone leads and eta its step size."""
    start, gradient, precision, weight = normal(30), normal(30, seed=1), (5 * normal(30, seed=2)).exp(), 0.01
    alone, moments = start.clone(), no_moments(start)
    for t in range(1, 4):
        adam_step(alone, gradient, moments, Step.at(t, 0.1))
    found = alone.clone()
    proximal_step(found, moments, form(Step.at(3, 0.1)), precision, form(Step.at(3, weight)).lr)
    eta = 0.1 / (moments.second / (1 - 0.999**3) + 1e-16).sqrt()
    slope = (found - alone) / eta + weight * precision * found
    torch.testing.assert_close(slope * eta, torch.zeros_like(slope), rtol=0, atol=1e-12)


@pytest.mark.parametrize("precision", [0.0, 1e30])
def test_the_proximal_step_is_stable_at_both_ends(precision):
    mean = torch.tensor([1.0, -2.0])
    proximal_step(mean, no_moments(mean), Step.at(1, 1.0), torch.full((2,), precision), 1.0)
    torch.testing.assert_close(mean, torch.tensor([1.0, -2.0]) * (precision == 0))


@pytest.mark.parametrize("ascend", [False, True])
def test_units_multiply_the_step_size_of_each_entry(ascend):
    """One step of entries with two units, against two steps of step sizes of their own."""
    unit = torch.tensor([0.5] * 10 + [3.0] * 10, dtype=torch.float64)
    joint, parts, precision = normal(20), [*normal(20).split(10)], normal(20, seed=9).exp()
    moments, own = no_moments(joint), [no_moments(part) for part in parts]
    for t in range(1, 30):
        gradient = normal(20, seed=t)
        adam_step(joint, gradient, moments, Step.at(t, 0.03, unit), ascend=ascend)
        proximal_step(joint, moments, Step.at(t, 0.03, unit), precision, 0.2)
        for part, g, m, c, size in zip(parts, gradient.split(10), own, precision.split(10), (0.5, 3.0), strict=True):
            adam_step(part, g.clone(), m, Step.at(t, 0.03 * size), ascend=ascend)
            proximal_step(part, m, Step.at(t, 0.03 * size), c, 0.2)
    torch.testing.assert_close(joint, torch.cat(parts), rtol=1e-12, atol=1e-14)
