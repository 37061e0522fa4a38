"""MCLMC where the answer is known: closed form, quadrature, calibration by simulation, and what it refuses.

Independent problems run side by side as chains: `OwnTargets` is a Gaussian likelihood whose targets are those of each
chain. So a thousand replications of a simulation are one run.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import r2d2net as rn
from langevin_targets import normal_means
from r2d2net.inference import MCLMC, chain_metric
from r2d2net.inference import mclmc as module
from r2d2net.priors import R2D2, Gaussian

DOUBLE = torch.float64


@dataclass(frozen=True)
class OwnTargets(rn.likelihoods.Gaussian):
    """y ~ N(f(x), 1) with targets that differ between chains: they stand where the learnt noise of others stands."""

    noise: float | None = 1.0
    takes_noise_by_row = True

    def init(self, y, unit=None):
        return {"targets": y[:, 0]}

    def log_prob(self, output, y, noise):
        targets = noise["targets"]
        if targets.dim() > 1:  # those of its chain for each row of all chains
            row = torch.arange(len(targets))
            targets = targets[row, row % targets.shape[1]]
        return -0.5 * (output[:, 0] - targets).square()


def side_by_side(net, prior, x, targets, seed=0, epochs=60, start_steps=100, **settings):
    """The last weights of one chain for each row of targets, as many as there are."""
    model = rn.BayesianModel(net.to(DOUBLE), prior, OwnTargets(), bias=Gaussian(1.0))
    method = MCLMC(chains=len(targets), start_steps=start_steps, **settings)
    trainer = method.build(model, n=len(x), steps=epochs)
    g = torch.Generator().manual_seed(seed)
    state = trainer.init(targets[0, :, None], g)
    for _ in range(epochs):
        state, _ = trainer.step(state, (x, targets[0, :, None]), g)
        state = state._replace(noise={"targets": targets})
    return state


def linear_problem(rows=30, inputs=5, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inputs, generator=g, dtype=DOUBLE) @ torch.randn(inputs, inputs, generator=g, dtype=DOUBLE)
    return x, x @ torch.randn(inputs, generator=g, dtype=DOUBLE) + torch.randn(rows, generator=g, dtype=DOUBLE)


def moments_of_chains(chains, **settings):
    """The last weights of so many chains, in coordinates in which the closed form is N(0, I)."""
    x, y = linear_problem()
    covariance = torch.linalg.inv(x.T @ x + torch.eye(5, dtype=DOUBLE))
    mean = covariance @ x.T @ y
    state = side_by_side(nn.Linear(5, 1, bias=False), Gaussian(1.0), x, y.expand(chains, -1), **settings)
    root = torch.linalg.cholesky(covariance)
    return torch.linalg.solve_triangular(root, (state.weights - mean).T, upper=False).T


EXACT = {"adjusted": True, "sweep_steps": 15, "epochs": 80}


@pytest.mark.parametrize("directions", [0, 2])
def test_adjusted_chains_have_the_closed_form(directions):
    """300 chains: 5 means and 15 covariances at |z| < 4.5, 1.4e-4 in all."""
    w = moments_of_chains(300, directions=directions, **EXACT)
    rows, columns = torch.tril_indices(5, 5)
    products, expected = w[:, rows] * w[:, columns], (rows == columns).to(DOUBLE)
    spread = (1 + expected).sqrt()  # deviation of a product of standard normals
    assert float((w.mean(0) * math.sqrt(300)).abs().max()) < 4.5
    assert float(((products.mean(0) - expected) / spread * math.sqrt(300)).abs().max()) < 4.5


@pytest.mark.parametrize("factor", [5 / 4, 0])
def test_a_wrong_kinetic_term_is_seen(factor, monkeypatch):
    """The test above rejects a Metropolis rule with d in place of d - 1, or without the Jacobian."""
    step = module.leapfrog

    def wrong(potential, point, direction, deviation, length):
        moved, turned, error = step(potential, point, direction, deviation, length)
        change = moved.energy - point.energy
        return moved, turned, change + factor * (error - change)

    monkeypatch.setattr(module, "leapfrog", wrong)
    w = moments_of_chains(300, **EXACT)
    assert float(((w.square().mean(0) - 1) * math.sqrt(150)).abs().max()) > 4.5


def test_a_gradient_that_does_not_fit_the_coordinates_is_seen(monkeypatch):
    """The test above rejects gradients in the coordinates of each weight alone, with motions in those of all."""
    monkeypatch.setattr(chain_metric.Metric, "to_gradient", lambda self, gradient: self.deviation * gradient)
    w = moments_of_chains(300, directions=2, **EXACT)
    assert float(((w.square().mean(0) - 1) * math.sqrt(150)).abs().max()) > 4.5


@pytest.mark.parametrize("adjusted", [True, False])
def test_normal_means_agree_with_quadrature(adjusted):
    """y_j ~ N(w_j, 1), w with the R2D2 prior: means of w and w^2 over 200 chains at |z| < 5 (5e-6)."""
    a_pi, b, y = 0.3, 1.0, torch.tensor([0.3, 4.0], dtype=DOUBLE)
    exact = normal_means(a_pi, b, y.numpy())
    net, x = nn.Linear(2, 1, bias=False), torch.eye(2, dtype=DOUBLE)
    state = side_by_side(net, R2D2(a_pi, b), x, y.expand(200, -1), adjusted=adjusted, sweep_steps=5, epochs=200)
    for values, expected in ((state.weights, exact["w"]), (state.weights.square(), exact["w2"])):
        error = values.std(0) / math.sqrt(200)
        assert float(((values.mean(0) - torch.as_tensor(expected)) / error).abs().max()) < 5


# --- calibration by simulation (Talts et al., 2018): w ~ R2D2, y | w ~ N(x w, 1), draws given y; ranks are uniform

RANKS = 15  # draws of each replication


def ranks(replications, **settings):
    """Ranks of the true weights and of their log likelihood among the draws, (replications, 3)."""
    g = torch.Generator().manual_seed(1)
    prior, shape = R2D2(0.6, 1.0), (replications, 2)
    x = torch.tensor([[1.0, 0.6], [-0.4, 0.2], [0.3, -1.1], [1.2, 0.9], [-0.9, -0.5], [0.1, 0.4]], dtype=DOUBLE)
    w = prior.sample(shape, g, groups=(replications, 1), dtype=DOUBLE)
    y = w @ x.T + torch.randn(replications, 6, generator=g, dtype=DOUBLE)
    state = side_by_side(nn.Linear(2, 1, bias=False), prior, x, y, epochs=200, sweep_steps=5, thin=7, **settings)
    drawn = state.kept.draws.weights[:RANKS]
    assert len(drawn) == RANKS == int(state.kept.number)

    def quantities(weights):
        return torch.cat([weights, -(y - weights @ x.T).square().sum(-1, keepdim=True)], -1)

    return (quantities(drawn) < quantities(w)).sum(0).numpy()


def least_p_value(counted):
    """Of uniformity, over quantities, by chi-square of ranks in four cells and by Kolmogorov-Smirnov."""
    spread = np.random.default_rng(0).uniform(size=counted.shape)
    p_values = []
    for k in range(counted.shape[1]):
        p_values.append(stats.chisquare(np.bincount(counted[:, k] // 4, minlength=4)).pvalue)
        p_values.append(stats.kstest((counted[:, k] + spread[:, k]) / (RANKS + 1), "uniform").pvalue)
    return min(p_values)


@pytest.mark.parametrize("adjusted", [True, False])
@pytest.mark.parametrize("replications", [200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("directions", [0, 2])
def test_ranks_are_uniform(adjusted, replications, directions):
    """Six p-values above 1e-3: a false alarm in 6e-3 of seeds, of which this one is pinned."""
    assert least_p_value(ranks(replications, adjusted=adjusted, directions=directions)) > 1e-3


def test_stale_scales_are_seen(monkeypatch):
    """Chains whose prior precision is not renewed after the start have another law."""
    monkeypatch.setattr(module.MicrocanonicalChains, "_draw_given_weights", lambda self, state, *rest, **how: state)
    assert least_p_value(ranks(200)) < 1e-4


# --- the posterior of a network, in function space


@pytest.mark.slow
def test_a_network_has_the_functions_that_nuts_finds():
    """Mean Wasserstein distance of outputs to two runs of NUTS together: no more than between the two runs.

    A network of 13 weights under R2D2 on 25 rows; the seeds are pinned. The rate of false alarms is not known: it takes
    minutes of NUTS to measure.
    """
    g = torch.Generator().manual_seed(0)
    x = torch.linspace(-2, 2, 25, dtype=DOUBLE)[:, None]
    y = torch.sin(2 * x[:, 0]) + 0.2 * torch.randn(25, generator=g, dtype=DOUBLE)
    at = torch.linspace(-3, 3, 13, dtype=DOUBLE)[:, None]

    def functions(method, epochs, seed):
        net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)).to(DOUBLE)
        posterior = rn.fit(rn.BayesianModel(net, R2D2()), (x, y), method, epochs=epochs, seed=seed, verbose=False)
        return posterior.outputs(at, draws=4000)[..., 0].numpy()

    def distance(a, b):
        return np.mean([stats.wasserstein_distance(a[:, j], b[:, j]) for j in range(a.shape[1])])

    first, second = (functions(rn.inference.HMC(chains=4), 600, seed) for seed in (1, 2))
    chains = functions(MCLMC(chains=16), 300, 3)
    assert distance(chains, np.concatenate([first, second])) <= distance(first, second)
