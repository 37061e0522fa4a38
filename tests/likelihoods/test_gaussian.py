"""Gaussian likelihoods: densities, learnt and known noise, the user's units."""

import math

import pytest
import torch
from torch.distributions import Normal

import r2d2net as rn
from r2d2net.likelihoods import Gaussian, Heteroscedastic
from r2d2net.likelihoods.base import Unit


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


UNIT = Unit(torch.tensor([10.0, -1.0], dtype=torch.float64), torch.tensor([2.0, 0.5], dtype=torch.float64))


def test_gaussian_density():
    output, y, variance = normal(6, 2), normal(6, 2, seed=1), torch.tensor([0.3, 4.0], dtype=torch.float64)
    expected = Normal(output, variance.sqrt()).log_prob(y).sum(-1)
    torch.testing.assert_close(Gaussian().log_prob(output, y, {"variance": variance}), expected)


def test_heteroscedastic_density():
    output, y = normal(6, 4), normal(6, 2, seed=1)
    expected = Normal(output[:, :2], torch.exp(output[:, 2:] / 2)).log_prob(y).sum(-1)
    torch.testing.assert_close(Heteroscedastic().log_prob(output, y, {}), expected)


def test_one_bad_log_variance_cannot_overflow():
    output = torch.tensor([[0.0, 1e4], [0.0, -1e4]])
    assert bool(torch.isfinite(Heteroscedastic().log_prob(output, torch.zeros(2, 1), {})).all())


def test_predictions_are_in_the_users_units():
    outputs, variance = normal(3, 5, 2), torch.tensor([0.3, 4.0], dtype=torch.float64)
    prediction = Gaussian().predict(outputs, {"variance": variance}, UNIT)
    torch.testing.assert_close(prediction.samples, UNIT.center + UNIT.scale * outputs)
    torch.testing.assert_close(prediction.aleatoric, (UNIT.scale * variance.sqrt()).expand(5, 2))
    wide = Heteroscedastic().predict(torch.cat([outputs, 0.1 * outputs], -1), {}, UNIT)
    torch.testing.assert_close(wide.samples, prediction.samples)
    torch.testing.assert_close(wide.noise_variance, torch.exp(0.1 * outputs) * UNIT.scale.square())


def test_the_running_mean_of_squared_residuals_finds_the_noise():
    likelihood, noise = Gaussian(), Gaussian().init(torch.zeros(1, 2))
    draw = torch.Generator().manual_seed(0)
    for t in range(1, 2001):
        residual = torch.tensor([0.5, 3.0]) * torch.randn(64, 2, generator=draw)
        noise = likelihood.observe(residual, torch.zeros(64, 2), noise, max(0.01, 1 / t))
    # a mean of about 200 batches of 64: standard error .0125 of the variance, five of them, false alarm 1e-6
    torch.testing.assert_close(noise["variance"], torch.tensor([0.25, 9.0]), rtol=0.0625, atol=0)


def test_known_noise_is_in_the_users_units_and_stays():
    x = normal(40, 1)
    y = 100 * x[:, 0]
    model = rn.BayesianModel(torch.nn.Linear(1, 1).double(), rn.priors.Gaussian(), Gaussian(noise=7.0))
    for standardize in (True, False):
        posterior = rn.fit(model, (x, y), epochs=2, standardize=standardize, verbose=False)
        torch.testing.assert_close(posterior.predict(x, draws=2).aleatoric, torch.full_like(y, 7.0))
        assert posterior.history[-1]["noise"] == pytest.approx(7.0)


def test_heteroscedastic_noise_is_found():
    x = torch.linspace(-1, 1, 2000, dtype=torch.float64)[:, None]
    y = 5 + 10 * torch.exp(x[:, 0]) * normal(2000)
    net = torch.nn.Linear(1, 2).double()
    model = rn.BayesianModel(net, rn.priors.Gaussian(), Heteroscedastic())
    posterior = rn.fit(model, (x, y), rn.inference.CAVI(lr=0.05), epochs=40, verbose=False)
    ends = posterior.predict(x[[0, -1]], draws=20).aleatoric
    # log deviation at an end has standard error about 2 sqrt(1/4000) = .03: five of them, false alarm 1e-6
    expected = torch.tensor([10 / math.e, 10 * math.e], dtype=torch.float64)
    torch.testing.assert_close(ends.log(), expected.log(), atol=0.16, rtol=0)


@pytest.mark.parametrize("likelihood", [Gaussian(), Heteroscedastic()])
def test_targets(likelihood):
    assert likelihood.target(torch.arange(3)).dtype == torch.float32
    assert likelihood.target(torch.zeros(3)).shape == (3, 1)
    for bad in (torch.zeros(2, 2, 2), torch.zeros(()), torch.zeros(3, dtype=torch.complex64)):
        with pytest.raises(rn.DataError, match=r"^y has (shape|dtype)"):
            likelihood.target(bad)


def test_outputs_must_fit_the_targets():
    with pytest.raises(rn.DataError, match="net gives 3 outputs, the likelihood Gaussian needs 2"):
        Gaussian().require_width(3, torch.zeros(4, 2))
    with pytest.raises(rn.DataError, match="net gives 2 outputs, the likelihood Heteroscedastic needs 4"):
        Heteroscedastic().require_width(2, torch.zeros(4, 2))
    classes, several = (
        r"if they are classes, give likelihood=rn\.likelihoods\.Categorical\(\)",
        "let net end in 1, or give",
    )
    for y, fix in (([0.0, 2.0, 1.0], classes), ([0.0, 3.0], several), ([0.5, 1.0], several), ([-1.0, 1.0], several)):
        with pytest.raises(
            rn.DataError, match=f"^net gives 3 outputs, the likelihood Gaussian needs 1 [^:]*: {fix}[^\n]*$"
        ):
            Gaussian().require_width(3, torch.tensor(y)[:, None])
    with pytest.raises(rn.DataError, match="means then log variances"):
        Heteroscedastic().log_prob(torch.zeros(4, 2), torch.zeros(4, 2), {})
    with pytest.raises(rn.DataError, match="they must agree"):
        Gaussian().log_prob(torch.zeros(4, 3), torch.zeros(4, 2), {"variance": torch.ones(2)})


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_known_noise_must_be_positive(noise):
    with pytest.raises(rn.ParameterError, match=r"^noise="):
        Gaussian(noise=noise)
