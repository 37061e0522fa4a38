"""Weights that start at exactly zero: their scales must not follow them there."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference.scale_updates import off_zero


class Adapter(nn.Module):
    """x (base + a b), a low-rank adapter of a frozen layer, whose b is zero before training."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.randn(8, 1, generator=generator), requires_grad=False)
        self.a = nn.Parameter(torch.randn(8, 2, generator=generator) / 8**0.5)
        self.b = nn.Parameter(torch.zeros(2, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.base + x @ self.a @ self.b


@pytest.mark.parametrize(
    ("method", "settings", "epochs"),
    [
        ("SVGI", {}, 50),
        ("CAVI", {}, 50),
        ("SGLD", {}, 50),
        ("SGHMC", {}, 50),
        ("HMC", {"chains": 1, "max_tree_depth": 6}, 30),
    ],
)
def test_an_adapter_that_starts_at_zero_is_learnt(method, settings, epochs):
    """Noise 0.1, and an error of 1.8 if b stays at zero, where R2D2 held it at a precision of 1e34 (all but CAVI)."""
    g = torch.Generator().manual_seed(0)
    net = Adapter(g)
    x = torch.randn(400, 8, generator=g)
    shift, noise = torch.randn(8, 1, generator=g), torch.randn(400, 1, generator=g)
    y = x @ (net.base + 0.6 * shift) + 0.1 * noise
    algorithm = getattr(rn.inference, method)(start="net", **settings)
    posterior = rn.fit(
        rn.BayesianModel(net, rn.priors.R2D2()), (x, y), algorithm, epochs=epochs, standardize=False, verbose=False
    )
    assert rn.metrics.rmse(y, posterior.predict(x).mean) < 0.2


def test_only_zeros_under_priors_with_scales_are_replaced():
    net = nn.Linear(3, 2)
    nn.init.zeros_(net.bias)
    with torch.no_grad():
        net.weight[0, 1] = 0.0
    model = rn.BayesianModel(net, rn.priors.R2D2())  # the biases have a Gaussian prior
    weights, _ = model.own_weights()
    deviation = torch.full_like(weights, 0.1)
    moved = off_zero(model, weights, deviation, torch.Generator().manual_seed(0))
    assert torch.nonzero(moved != weights).tolist() == [[1]]
    assert 0 < abs(float(moved[1])) < 0.5  # five deviations
    weights[1] = 1.0
    generator = torch.Generator().manual_seed(0)
    assert off_zero(model, weights, deviation, generator) is weights
    assert torch.equal(generator.get_state(), torch.Generator().manual_seed(0).get_state())
