"""Two to four rows: the prior of the noise adds what predictions need to have moments, and no more."""

import pytest
import torch
from scipy import stats
from torch import nn

import r2d2net as rn
from r2d2net.inference import LinearGibbs
from r2d2net.inference.linear_few_rows import noise_prior

pytestmark = pytest.mark.filterwarnings("error::r2d2net.errors.FitWarning")


def fit(x, y, seed=0, **options):
    model = rn.BayesianModel(nn.Linear(x.shape[1], 1), rn.priors.R2D2())
    return rn.fit(model, (x, y), **{"algorithm": "auto", "seed": seed, "verbose": False, **options})


def ratio(y, mean):
    """The training error as a multiple of the best constant's."""
    return float((mean - y).square().mean().sqrt() / y.std(correction=0))


def test_the_posterior_has_four_degrees_of_freedom_or_more():
    for degrees in (1, 2, 3):
        shape, rate = noise_prior(1e-3, 1e-3, degrees)
        assert 2 * shape + degrees == pytest.approx(4)
        assert (rate - 1e-3) / (shape - 1e-3) == pytest.approx(0.5)
    for degrees in (4, 5, 100):
        assert noise_prior(1e-3, 1e-3, degrees) == (1e-3, 1e-3)
    assert noise_prior(2.0, 3.0, 1) == (2.0, 3.0)  # one that the user has made informative


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("p", [1, 3, 20])
def test_training_errors_of_few_rows_are_at_most_those_of_a_constant(n, p):
    """Two tables each; without the prior some of them were three times a constant's error."""
    for seed in range(2):
        generator = torch.Generator().manual_seed(1000 * n + 50 * p + seed)
        x, y = torch.randn(n, p, generator=generator), 3 + 10 * torch.randn(n, generator=generator)
        posterior = fit(x, y, seed)
        assert ratio(y, posterior.predict(x).mean) < 1.1
        assert posterior.settings["algorithm"]["type"] == "LinearGibbs"


def test_two_rows_are_predicted_between_their_targets():
    x, y = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0]]), torch.tensor([1.0, 2.0])
    for seed in range(3):
        mean = fit(x, y, seed).predict(x).mean
        assert 1 < mean.min() < mean.max() < 2.2


def test_estimators_predict_few_rows():
    generator = torch.Generator().manual_seed(3)
    for n in (2, 3, 4):
        x, y = torch.randn(n, 2, generator=generator), torch.randn(n, generator=generator)
        mean = torch.as_tensor(rn.R2D2Regressor(random_state=0).fit(x.numpy(), y.numpy()).predict(x.numpy()))
        assert ratio(y, mean) < 1.1


def test_the_noise_has_the_law_that_the_prior_says():
    """No input varies: sigma^2 | y ~ IG(a + d/2, b + y'y/2). Kolmogorov's p-value of 1,500 draws above 1e-3."""
    x, y = torch.zeros(3, 1), torch.tensor([-1.0, 0.0, 1.0])
    method = LinearGibbs(chains=1, burn_in=0.01, thin=2)
    posterior = fit(x, y, algorithm=method, epochs=3030, standardize=False)
    shape, rate = noise_prior(method.noise_shape, method.noise_rate, 2)
    law = stats.invgamma(shape + 1, scale=rate + 1)
    assert stats.kstest(posterior.state.noise["variance"].flatten().numpy(), law.cdf).pvalue > 1e-3
