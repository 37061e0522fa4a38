"""The map of the chains' coordinates against matrices written out; the Gauss-Newton matrix where it is the Hessian."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.errors import ParameterError
from r2d2net.inference import MCLMC
from r2d2net.inference.chain_metric import REST, GaussNewton, metric_of

DOUBLE = torch.float64


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def as_matrix(function, chains, d):
    """The matrix of a linear map of each chain, (chains, d, d)."""
    columns = [function(column.expand(chains, d)) for column in torch.eye(d, dtype=DOUBLE)]
    return torch.stack(columns, -1)


@pytest.mark.parametrize("directions", [3, 8], ids=["fewer directions than weights", "more"])
def test_the_map_is_a_root_of_the_inverse(directions):
    prior, data, rows = drawn(2, 5).exp(), drawn(5, seed=1).exp(), 3 * drawn(2, directions, 5, seed=2)
    metric = metric_of(prior, data, rows)
    matrix = as_matrix(metric.to_weights, 2, 5)
    precision = torch.diag_embed(prior + REST * data) + rows.mT @ rows
    torch.testing.assert_close(matrix @ matrix.mT, torch.linalg.inv(precision))
    torch.testing.assert_close(as_matrix(metric.to_gradient, 2, 5), matrix.mT)


def test_without_directions_the_map_is_diagonal():
    prior, data = drawn(2, 5).exp(), drawn(5, seed=1).exp()
    metric = metric_of(prior, data, prior.new_zeros(2, 0, 5))
    matrix = as_matrix(metric.to_weights, 2, 5)
    torch.testing.assert_close(matrix, torch.diag_embed((prior + data).rsqrt()))


def curvature_of(net, likelihood, x, y, noise, directions, temperature=1.0):
    """R'R of one chain at random weights, and those weights."""
    model = rn.BayesianModel(net.to(DOUBLE), rn.priors.Gaussian(), likelihood)
    weights = 0.5 * drawn(1, model.size, seed=5)
    newton = GaussNewton(model, directions, temperature)
    none = torch.zeros(0, dtype=DOUBLE)
    found = newton.at(weights, torch.ones_like(weights), none, model.buffers(), noise, (x, y))
    assert found.shape == (1, min(directions, model.size), model.size)
    return (found.mT @ found)[0], weights[0], model


def test_of_a_linear_model_it_is_the_hessian():
    """-log p(y | w) of a Gaussian is x'x / s^2 to second order, at a temperature of 2 half of it."""
    x = drawn(20, 4)
    noise = {"variance": torch.full((1, 1), 0.3, dtype=DOUBLE)}
    net = nn.Linear(4, 1, bias=False)
    found, _, _ = curvature_of(net, rn.likelihoods.Gaussian(), x, drawn(20, 1, seed=1), noise, 4, temperature=2.0)
    torch.testing.assert_close(found, x.mT @ x / 0.3 / 2)


def test_of_classes_it_is_the_hessian():
    x, y = drawn(20, 3), torch.arange(20) % 3
    found, weights, _ = curvature_of(nn.Linear(3, 3, bias=False), rn.likelihoods.Categorical(), x, y, {}, 9)

    def loss(w):
        return nn.functional.cross_entropy(x @ w.view(3, 3).T, y, reduction="sum")

    torch.testing.assert_close(found, torch.autograd.functional.hessian(loss, weights))


def test_directions_are_the_leading_ones():
    """Of a network of 31 weights with five directions: R'R is the best approximation of rank five of J'J / s^2."""
    x, noise = drawn(40, 4), {"variance": torch.full((1, 1), 0.5, dtype=DOUBLE)}
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    found, weights, model = curvature_of(net, rn.likelihoods.Gaussian(), x, drawn(40, 1, seed=1), noise, 5)

    def outputs(w):
        parts = w.split([slot.shape.numel() for slot in model.bayesian])
        named = {slot.name: part.view(slot.shape) for slot, part in zip(model.bayesian, parts, strict=True)}
        return torch.func.functional_call(net, named, (x,))[:, 0]

    jacobian = torch.autograd.functional.jacobian(outputs, weights)
    _, s, v = torch.linalg.svd(jacobian / 0.5**0.5)
    torch.testing.assert_close(found, v[:5].mT @ torch.diag(s[:5].square()) @ v[:5])


def test_a_network_that_cannot_pass_rows_alone_is_refused():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.last = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 1)

        def forward(self, x):
            return self.last(self.cell(x)[0][:, -1])

    model = rn.BayesianModel(Recurrent())
    with pytest.raises(ParameterError, match=r"directions=8 needs a network.*use directions=0"):
        rn.fit(model, (torch.randn(20, 5, 3), torch.randn(20)), MCLMC(directions=8), epochs=5, verbose=False)
