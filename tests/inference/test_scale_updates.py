"""Weights that start at exactly zero: their scales must not follow them there."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference.scale_updates import GibbsUpdate, Known, off_zero


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


@pytest.mark.parametrize("averaging", [0.1, 0.5])
def test_averaged_precisions_belong_to_the_prior_without_its_scales(averaging):
    """E[c] E w^2 = E_q[-w d/dw log p(w)], for the double Pareto prior E 2 |w| / (1 + |w|), which is 0.80 here.

    5 standard errors, a false alarm in 2 million; the mean of 1 / v, which single draws have, misses it by hundreds.
    """
    prior, g = rn.priors.GeneralizedDoublePareto(), torch.Generator().manual_seed(0)
    mean, deviation = 0.5, 1.0
    w = mean + deviation * torch.randn(40_000, generator=g, dtype=torch.float64)
    second = torch.full_like(w, mean**2 + deviation**2)
    scales, precision = prior.init_scales(w.shape, g, dtype=w.dtype), torch.ones_like(w)
    update = GibbsUpdate(averaging=averaging)
    for _ in range(100):  # 0.9^100 of the start is left
        scales = update(prior, scales, precision, Known(w, second), g)
    score = 2 * w.abs() / (1 + w.abs())
    off = precision * second - score
    assert abs(float(off.mean() / (off.std() / len(w) ** 0.5))) < 5
    GibbsUpdate()(prior, scales, precision, Known(w), g)
    assert float((precision * second).mean()) > 2 * float(score.mean())


def test_the_mean_of_sweeps_has_their_weight():
    prior, g = rn.priors.R2D2(), torch.Generator().manual_seed(0)
    w, second = torch.randn(50, generator=g), torch.full((50,), 2.0)
    found = []
    for averaging in (1.0, 0.25):
        scales, precision = prior.init_scales(w.shape, torch.Generator().manual_seed(1)), torch.full((50,), 3.0)
        known = Known(w, None if averaging == 1 else second)
        GibbsUpdate(averaging=averaging)(prior, scales, precision, known, torch.Generator().manual_seed(2))
        found.append(precision)
    torch.testing.assert_close(found[1], 0.75 * 3.0 + 0.25 * found[0] * w.square() / second)
