"""Exact Gibbs sampling of linear oracles: closed forms, and agreement with another exact sampler."""

import pytest
import torch

from r2d2net import metrics, nets
from r2d2net.diagnostics import of_predictions
from r2d2net.inference import HMC
from r2d2net.model import BayesianModel
from r2d2net.paper.experiments.linear_oracle import sample_linear
from r2d2net.priors import R2D2, Gaussian
from r2d2net.run.fit import fit


def rows(n: int = 60, p: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    x = 3 + 2 * torch.randn(n, p, generator=g)
    return x, 5 + x @ torch.tensor([1.0, -1.0, 0.0, 0.2]) + torch.randn(n, generator=g)


def test_under_a_normal_prior_the_mean_is_the_ridge() -> None:
    x, y = rows()
    posterior = sample_linear(BayesianModel(nets.paper_mlp(4, 0), Gaussian()), (x, y), chains=4, sweeps=2000, seed=1)
    noise = posterior.state.noise["variance"].mean().double()
    design = torch.cat([posterior.units.inputs(x), torch.ones(len(x), 1)], 1).double()
    target = posterior.units.targets(y[:, None]).double()
    precision = design.mT @ design / noise + torch.eye(5)
    ridge = torch.linalg.solve(precision, design.mT @ target / noise)[:, 0]
    deviation = precision.inverse().diagonal().sqrt()
    error = (posterior.mean().double() - ridge) / deviation
    assert error.abs().max() < 0.07  # 6,000 draws: five standard errors of independent ones, below 1e-5
    spread = posterior.state.weights.flatten(0, 1).std(0).double() / deviation
    assert spread == pytest.approx(torch.ones(5).double(), abs=0.06)  # the noise is not fixed, as in the closed form
    assert of_predictions(posterior, x).worst_rhat < 1.01


@pytest.mark.slow
def test_under_r2d2_it_is_the_posterior_of_hmc() -> None:
    x, y = rows()
    model = BayesianModel(nets.paper_mlp(4, 0), R2D2())
    exact = [sample_linear(model, (x, y), chains=2, sweeps=1000, seed=seed) for seed in (1, 2)]
    other = fit(model, (x, y), HMC(chains=2), epochs=1000, seed=3, verbose=False, jobs=1)
    draws = [posterior.predict(x, 400, seed=0).samples for posterior in (*exact, other)]
    own = metrics.function_distance(draws[0], draws[1])
    assert metrics.function_distance(draws[0], draws[2]) < 2 * own
