"""Gradients in the outputs that are written out are those of automatic differentiation, and so is the noise's move."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from r2d2net.inference.chain_potential import row_log_likelihoods
from r2d2net.inference.layered_gradient import slope_of
from r2d2net.inference.output_gradients import _by_autograd, loss_of
from r2d2net.likelihoods import Categorical, Gaussian, Likelihood, StudentT
from r2d2net.likelihoods.base import Noise

NETWORKS, ROWS, OUTPUTS = 3, 7, 2


def _case(likelihood: Likelihood[Any]) -> tuple[Tensor, Tensor, Noise]:
    """Draw outputs and targets of each network, and noise that differs by network and output."""
    generator = torch.Generator().manual_seed(3)
    output = torch.randn(NETWORKS, ROWS, OUTPUTS, generator=generator, dtype=torch.float64)
    if likelihood.has_classes:
        return output, torch.randint(OUTPUTS, (ROWS,), generator=generator), {}
    y = 2 * torch.randn(ROWS, OUTPUTS, generator=generator, dtype=torch.float64)
    first = likelihood.init(y)
    factor = 0.5 + torch.rand(NETWORKS, OUTPUTS, generator=generator, dtype=torch.float64)
    return output, y, {name: tensor * factor for name, tensor in first.items()}


@pytest.mark.parametrize("likelihood", [Gaussian(), Categorical(), StudentT()], ids=lambda own: type(own).__name__)
def test_chains(likelihood: Likelihood[Any]) -> None:
    output, y, noise = _case(likelihood)
    by_row = row_log_likelihoods(likelihood, y, noise, NETWORKS)
    written = slope_of(likelihood, y, noise, lambda _: pytest.fail("not written out"))(output)
    leaf = output.clone().requires_grad_()
    total = by_row(leaf).sum(1)
    (gradient,) = torch.autograd.grad(total.sum(), leaf)
    torch.testing.assert_close(written[0], total.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(written[1], gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Gaussian(), Categorical(), StudentT()], ids=lambda own: type(own).__name__)
def test_members(likelihood: Likelihood[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    output, y, noise = _case(likelihood)
    targets = y.expand(NETWORKS, *y.shape)
    expected = _by_autograd(likelihood, output, targets, noise, 0.2)
    monkeypatch.setattr("r2d2net.inference.output_gradients._by_autograd", lambda *_: pytest.fail("not written out"))
    found = loss_of(likelihood, output, targets, noise, 0.2)
    for mine, other in ((found.nll, expected.nll), (found.gradient, expected.gradient)):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)
    assert found.noise.keys() == expected.noise.keys()
    for name, tensor in found.noise.items():
        torch.testing.assert_close(tensor, expected.noise[name], rtol=1e-12, atol=1e-12)
