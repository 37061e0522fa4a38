"""The potential of chains: its gradient, blocks of rows, every likelihood, and the control variate for many rows."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import MCLMC
from r2d2net.inference.chain_potential import ChainPotential

DOUBLE = torch.float64


class Own(rn.likelihoods.Heteroscedastic):
    """A likelihood that learns something of its own, in a form that only single chains have."""

    def log_prob(self, output, y, noise):
        assert noise["shift"].shape == (1,)
        return -(output[:, 0] - y[:, 0] - noise["shift"]).square()


LIKELIHOODS = {
    "gaussian": (rn.likelihoods.Gaussian(), 2, lambda g: torch.randn(9, 2, generator=g, dtype=DOUBLE)),
    "classes": (rn.likelihoods.Categorical(), 3, lambda g: torch.randint(3, (9,), generator=g)),
    "counts": (rn.likelihoods.Poisson(), 1, lambda g: torch.randint(4, (9, 1), generator=g).to(DOUBLE)),
    "own": (Own(), 2, lambda g: torch.randn(9, 1, generator=g, dtype=DOUBLE)),
}


class Squared(nn.Module):
    """A network whose pass is not written out."""

    def __init__(self, outputs):
        super().__init__()
        self.layer = nn.Linear(4, outputs)

    def forward(self, x):
        return self.layer(x) ** 2


NETWORKS = {
    "perceptron": lambda outputs: rn.nets.mlp(4, [5], outputs),
    "tanh, path": lambda outputs: rn.nets.mlp(4, [5, 3], outputs, activation="tanh", linear=True),
    "linear": lambda outputs: nn.Linear(4, outputs, bias=False),
    "own pass": Squared,
}


def problem(name, chains=3, network="perceptron"):
    likelihood, outputs, targets = LIKELIHOODS[name]
    g = torch.Generator().manual_seed(0)
    model = rn.BayesianModel(NETWORKS[network](outputs).to(DOUBLE), rn.priors.Gaussian(), likelihood)
    batch = torch.randn(9, 4, generator=g, dtype=DOUBLE), targets(g)
    noise = {"own": {"shift": torch.rand(chains, 1, generator=g, dtype=DOUBLE)}}.get(name)
    if noise is None:
        names = likelihood.init(batch[1])
        noise = {key: torch.rand(chains, *value.shape, generator=g, dtype=DOUBLE) + 0.5 for key, value in names.items()}
    weights = torch.randn(chains, model.size, generator=g, dtype=DOUBLE)
    precision = torch.rand(chains, model.size, generator=g, dtype=DOUBLE)
    return model, batch, noise, weights, precision


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_potential_is_that_of_each_chain_by_itself(name, network):
    model, batch, noise, weights, precision = problem(name, network=network)
    potential = ChainPotential(model, 3, temperature=2.0)
    assert (potential.layered is None) == (network == "own pass")
    found = potential.at(precision, noise, weights[0, :0], {}, batch)(weights)
    for i in range(3):
        leaf = weights[i].clone().requires_grad_()
        output = model.forward(leaf, leaf[:0], {}, batch[0])
        own = {key: value[i] for key, value in noise.items()}
        energy = -model.likelihood.log_prob(output, batch[1], own).sum() / 2 + (precision[i] * leaf * leaf).sum() / 2
        torch.testing.assert_close(found.energy[i], energy.detach())
        torch.testing.assert_close(found.gradient[i], torch.autograd.grad(energy, leaf)[0])
        torch.testing.assert_close(found.output[i], output.detach())
    potential.rows = 2
    blocks = potential.at(precision, noise, weights[0, :0], {}, batch)(weights)
    for whole, part in zip(found, blocks, strict=True):
        torch.testing.assert_close(whole, part)


@pytest.mark.parametrize("name", ["gaussian", "classes"])
def test_the_control_variate_has_value_and_gradient_of_all_rows_where_it_starts(name):
    model, batch, noise, weights, precision = problem(name)
    potential, fixed = ChainPotential(model, 3, temperature=2.0), weights[0, :0]
    given = (precision, noise, fixed, {}, batch)
    near = potential.near(weights, torch.tensor([1, 4, 6]), *given)
    whole, part = potential.at(*given)(weights), near(weights)
    torch.testing.assert_close(part.energy, whole.energy)
    torch.testing.assert_close(part.gradient, whole.gradient)
    step = 1e-5 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    elsewhere = weights + 0.3
    change = near(elsewhere + step).energy - near(elsewhere - step).energy
    torch.testing.assert_close(change, 2 * (near(elsewhere).gradient * step).sum(-1), rtol=1e-6, atol=1e-12)


def test_chains_on_drawn_rows_have_nearly_the_closed_form():
    """Ridge regression of 600 rows by 100 at a time, 12 chains that are independent of each other.

    The means of chains have the right mean (|t| < 5.5 with 11 degrees of freedom, 1e-3 for five weights) and draws the
    right variance but for 15% (standard error 4%, bias 2%).
    """
    g = torch.Generator().manual_seed(0)
    x = torch.randn(600, 5, generator=g, dtype=DOUBLE) @ torch.randn(5, 5, generator=g, dtype=DOUBLE)
    y = x @ torch.randn(5, generator=g, dtype=DOUBLE) + torch.randn(600, generator=g, dtype=DOUBLE)
    covariance = torch.linalg.inv(x.T @ x + torch.eye(5, dtype=DOUBLE))
    net = nn.Linear(5, 1, bias=False).to(DOUBLE)
    model = rn.BayesianModel(net, rn.priors.Gaussian(1.0), rn.likelihoods.Gaussian(noise=1.0))
    method = MCLMC(chains=12, rows=100, sweep_steps=20)
    posterior = rn.fit(model, (x, y), method, epochs=100, standardize=False, verbose=False)
    root = torch.linalg.cholesky(covariance)
    error = posterior.state.weights - covariance @ x.T @ y
    whitened = torch.linalg.solve_triangular(root, error.mT, upper=False)  # (chains, weights, draws)
    means = whitened.mean(-1)
    assert (means.mean(0) / (means.std(0) / len(means) ** 0.5)).abs().max() < 5.5
    assert abs(whitened.square().mean() - 1) < 0.15
