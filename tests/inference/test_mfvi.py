"""MFVI, and what it shares with SVI and Radial: the optimum, which linear regression has in closed form."""

import math

import pytest
import torch
from torch import nn

import r2d2net as rn

COPIES, STEPS, SCALE = 100, 1000, 0.1


@pytest.mark.parametrize(("method", "tolerance"), [("MFVI", 0.03), ("SVI", 0.03), ("Radial", 0.15)])
def test_all_three_reach_the_closed_form_optimum(method: str, tolerance: float) -> None:
    """Mean: the posterior's. Deviations: 1 / sqrt(diagonal of its precision), of which the prior has a sixth.

    A regression with 100 equal targets is 100 problems side by side, and their average shows Adam's noise no more: over
    four seeds means were within 8e-4, deviations within 0.5% (MFVI), 1.4% (SVI), and 5.6% (Radial, whose noise the
    problems share). With a KL of twice the weight deviations would be 30% more and means off by a quarter.
    """
    g = torch.Generator().manual_seed(0)
    x = torch.randn(50, 3, generator=g).double() @ (torch.eye(3) + 0.5).double()
    y = x @ torch.randn(3, 1, generator=g).double() + 0.5 * torch.randn(50, 1, generator=g).double()
    precision = x.T @ x / 0.25 + torch.eye(3).double() / SCALE**2
    mean, deviation = torch.linalg.solve(precision, x.T @ y / 0.25).squeeze(), precision.diagonal().rsqrt()
    net = nn.Linear(3, COPIES, bias=False, dtype=torch.float64)
    model = rn.BayesianModel(net, rn.priors.Gaussian(SCALE), rn.likelihoods.Gaussian(noise=0.5))
    settings = getattr(rn.inference, method)(lr=0.1, lr_rho=0.1, warm_up=0.0)
    running = settings.build(model, n=len(x), steps=STEPS)
    state, batch = running.init(y, g), (x, y.repeat(1, COPIES))
    for _ in range(STEPS):
        state, _ = running.step(state, batch, g)
    slot = model.bayesian[0]
    assert float((slot.of(state.mean).mean(0) - mean).norm() / mean.norm()) < 2e-3
    found = slot.of(running.source(state).deviation()).log().mean(0)
    assert float((found - deviation.log()).abs().max()) < math.log1p(tolerance)


def test_mfvi_is_coordinate_ascent_of_a_gaussian_prior() -> None:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 3, generator=g), torch.randn(40, generator=g)
    model = rn.BayesianModel(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), rn.priors.Gaussian(0.5))
    pair = [rn.fit(model, (x, y), method, epochs=3, batch_size=10) for method in ("mfvi", "cavi")]
    assert torch.equal(pair[0].state.mean, pair[1].state.mean)
    assert torch.equal(pair[0].state.rho, pair[1].state.rho)


def test_other_priors_are_refused_with_what_takes_them() -> None:
    model = rn.BayesianModel(nn.Linear(3, 1), rn.priors.Horseshoe())
    with pytest.raises(
        rn.errors.ParameterError, match=r"^algorithm=MFVI does not suit the prior Horseshoe .*CAVI, SVI"
    ):
        rn.fit(model, (torch.zeros(4, 3), torch.zeros(4)), "mfvi")
    with pytest.raises(rn.errors.ParameterError, match=r"^variance='scaled' is out of range"):
        rn.inference.MFVI(variance="scaled")
