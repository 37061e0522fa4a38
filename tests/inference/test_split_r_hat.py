"""Split R-hat and effective draws against arviz and against autoregressive chains, whose worth is known."""

import pytest
import torch

from r2d2net.diagnostics.convergence import diagnose
from r2d2net.inference.split_r_hat import effective_draws, split_r_hat


def autoregressive(phi, chains=4, draws=400, number=50):
    g = torch.Generator().manual_seed(0)
    noise = torch.randn(chains, draws, number, generator=g, dtype=torch.float64)
    values = [noise[:, 0]]
    for t in range(1, draws):
        values.append(phi * values[-1] + (1 - phi**2) ** 0.5 * noise[:, t])
    return torch.stack(values, 1)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_effective_draws_of_autoregressive_chains(phi):
    """The mean over 50 quantities is n (1 - phi) / (1 + phi) within 10%, and arviz's rank-normalised one within 5%."""
    draws = autoregressive(phi)
    worth = effective_draws(draws).mean()
    assert abs(worth / (1600 * (1 - phi) / (1 + phi)) - 1) < 0.1
    found = diagnose(draws)
    assert abs(worth / found.ess_bulk.mean() - 1) < 0.05
    assert (split_r_hat(draws) - found.rhat).abs().max() < 0.02


def test_chains_that_disagree_are_worth_little():
    draws = autoregressive(0.5) + 5 * torch.arange(4.0, dtype=torch.float64)[:, None, None]
    assert effective_draws(draws).max() < 10
    assert split_r_hat(draws).min() > 2


def test_what_does_not_vary_counts_in_full():
    draws = torch.ones(3, 20, 2)
    assert effective_draws(draws).tolist() == [60, 60]
    assert split_r_hat(draws).tolist() == [1, 1]
