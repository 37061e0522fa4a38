"""What R2D2-Net must reach on linear problems whose truth is known; the default settings, fresh data, three seeds.

Slow. Errors are test mean squared errors; the noise has variance 1.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import r2d2net as rn

pytestmark = pytest.mark.slow
SEEDS = (101, 102, 103)
R2D2, Gaussian = rn.priors.R2D2, rn.priors.Gaussian
SVGI = rn.inference.SVGI


def linear(kind: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """200 inputs, 500 training and 2,000 test rows, noise 1: (x, y, coefficients)."""
    g = torch.Generator().manual_seed(seed)
    coefficients = torch.zeros(200)
    count, size = {"sparse": (10, 1.0), "dense": (200, 0.2)}[kind]
    coefficients[:count] = size * torch.randn(count, generator=g)
    x = torch.randn(2500, 200, generator=g)
    return x, x @ coefficients + torch.randn(2500, generator=g), coefficients


def linear_error(kind: str, seed: int, prior: Any, method: Any) -> tuple[float, Tensor, Tensor]:
    x, y, coefficients = linear(kind, seed)
    model = rn.BayesianModel(nn.Linear(200, 1), prior)
    posterior = rn.fit(model, (x[:500], y[:500]), method, epochs=500, batch_size=100, seed=seed)
    error = (posterior.predict(x[500:], "mean").mean - y[500:]).square().mean()
    return float(error), posterior.mean()[:200], coefficients


@pytest.mark.parametrize("seed", SEEDS)
def test_sparse_linear(seed: int) -> None:
    """At most 1.12 with SVGI, a quarter below the Gaussian prior; relevant inputs found."""
    gaussian, _, _ = linear_error("sparse", seed, Gaussian(), SVGI())
    error, mean, coefficients = linear_error("sparse", seed, R2D2(), SVGI())
    assert error < 1.12
    assert error < 0.75 * gaussian
    # coefficients below the noise of their estimate cannot be told from zero
    relevant, rest = mean[coefficients.abs() > 0.2].abs(), mean[coefficients == 0].abs()
    auroc = (relevant[:, None] > rest[None, :]).float().mean()
    assert auroc > 0.97


@pytest.mark.parametrize("seed", SEEDS)
def test_adaptive_prior_on_dense_coefficients(seed: int) -> None:
    """Within 4% of the Gaussian prior where every input matters."""
    adaptive, gaussian = (linear_error("dense", seed, prior, SVGI())[0] for prior in (R2D2.adaptive(), Gaussian()))
    assert adaptive < 1.04 * gaussian
