"""Validation scores of epochs: one batched pass against the posterior's own predictions."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.run import validation_rows
from r2d2net.run.prepare import prepare
from r2d2net.run.validation_rows import ValidationRows


@pytest.mark.parametrize(
    ("method", "likelihood", "bias"),
    [
        (rn.inference.SVGI(), rn.likelihoods.Gaussian(), rn.priors.Gaussian()),
        (rn.inference.SVGI(), rn.likelihoods.Gaussian(), None),
        (rn.inference.MAP(), rn.likelihoods.Categorical(), rn.priors.Gaussian()),
        (rn.inference.MCDropout(), rn.likelihoods.Categorical(), rn.priors.Gaussian()),
    ],
    ids=["svgi", "fixed-biases", "map", "dropout"],
)
def test_predictions_are_the_posteriors(method, likelihood, bias, monkeypatch):
    """With the same draws, up to rounding; and the same by the posterior itself where rows are too many."""
    g = torch.Generator().manual_seed(0)
    x = 3 + 2 * torch.randn(60, 4, generator=g)
    y = x[:, 0] if likelihood.standardizes else (x[:, 0] > 3).long()
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1 if likelihood.standardizes else 2))
    model = rn.BayesianModel(net, rn.priors.Gaussian(), likelihood, bias=bias)
    prepared = prepare(model, (x, y), 20, 0, 0.2, None, True)
    trainer = method.build(model, n=48, steps=10)
    source = trainer.source(trainer.init(prepared.y, g))
    rows = ValidationRows(trainer.model, prepared)
    expected = rn.posterior.Posterior(source, prepared.units, flat_target=False).predict(prepared.validation[0], 20)
    predicted = rows.predict(source, 20)
    assert rows.layers is not None
    assert type(predicted) is type(expected)
    torch.testing.assert_close(predicted.samples, expected.samples, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(predicted.log_prob(rows.target), expected.log_prob(rows.target), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(validation_rows, "LARGEST", 0)
    assert torch.equal(rows.predict(source, 20).samples, expected.samples)
