"""Student's t likelihood: density and quantiles by scipy, the Gibbs draw by its prior, planted parameters found."""

import math

import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net.distributions.primitives import standard_gamma
from r2d2net.likelihoods import StudentT
from r2d2net.likelihoods.base import Unit
from r2d2net.likelihoods.grid_draws import draw_from_grid
from r2d2net.likelihoods.student_t import GRID, LEAST_DF, MOST_DF, HeavyTailed


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def prediction():
    scale = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64).reshape(3, 1)
    df = torch.tensor([2.5, 4.0, 30.0], dtype=torch.float64).reshape(3, 1)
    return HeavyTailed(3 * normal(3, 7), scale, df)


def test_density_and_distribution_function_by_scipy(prediction):
    y = normal(7, seed=1)
    laws = [
        stats.t(float(prediction.df[i]), prediction.samples[i].numpy(), float(prediction.scale[i])) for i in range(3)
    ]
    density = sum(law.pdf(y.numpy()) for law in laws) / 3
    below = sum(law.cdf(y.numpy()) for law in laws) / 3
    torch.testing.assert_close(prediction.log_prob(y).exp(), torch.from_numpy(density))
    torch.testing.assert_close(prediction.cdf(y), torch.from_numpy(below))
    variance = sum(law.var() for law in laws) / 3
    torch.testing.assert_close(prediction.aleatoric, torch.full((7,), math.sqrt(variance[0]), dtype=torch.float64))


@pytest.mark.parametrize("probability", [1e-4, 0.05, 0.5, 0.9, 0.9999])
def test_quantiles_invert_the_distribution_function(prediction, probability):
    found = prediction.cdf(prediction.quantile(probability))
    torch.testing.assert_close(found, torch.full_like(found, probability), rtol=1e-6, atol=0)


def test_the_unit_is_the_users():
    noise = {"variance": torch.tensor([4.0]), "df": torch.tensor([5.0])}
    found = StudentT().predict(torch.zeros(1, 1, 1), noise, Unit(torch.tensor(10.0), torch.tensor(3.0)))
    assert float(found.mean) == 10
    assert float(found.scale) == 6


def test_gibbs_keeps_the_prior_of_scale_and_degrees_of_freedom():
    """Of (parameters, data) from the joint law, one update leaves the parameters' prior; 20,000 columns at once."""
    draw, columns = torch.Generator().manual_seed(0), 20_000
    uniform = torch.rand(columns, generator=draw, dtype=torch.float64)
    variance = torch.tan(math.pi / 2 * uniform).square()
    grid = torch.logspace(math.log10(LEAST_DF), math.log10(MOST_DF), GRID, dtype=torch.float64)
    df = draw_from_grid(grid, (2 * grid.log() - grid / 10).unsqueeze(1).expand(-1, columns), draw)
    gamma = standard_gamma((df / 2).expand(3, -1).contiguous(), draw) / (df / 2)
    y = variance.sqrt() * torch.randn(3, columns, generator=draw, dtype=torch.float64) / gamma.sqrt()
    new = StudentT().gibbs(torch.zeros_like(y), y, {"variance": variance, "df": df}, draw)
    # false alarms of each: 1e-4
    assert stats.ks_2samp(new["variance"], variance).pvalue > 1e-4
    assert stats.ks_2samp(new["df"], df).pvalue > 1e-4
    for name, old in (("variance", variance), ("df", df)):
        assert stats.ttest_1samp(new[name].log() - old.log(), 0).pvalue > 1e-4, name
    assert float(torch.corrcoef(torch.stack([new["variance"].log(), variance.log()]))[0, 1]) < 0.95  # it moves


def test_chains_find_planted_scale_and_degrees_of_freedom():
    x = normal(2000, 1)
    y = 3 * x[:, 0] + torch.from_numpy(stats.t(4).rvs(2000, random_state=0))
    likelihood, noise, draw = StudentT(), StudentT().init(y[:, None]), torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(300):
        noise = likelihood.gibbs(3 * x, y[:, None], noise, draw)
        drawn.append([float(noise["variance"]), float(noise["df"])])
    variance, df = torch.tensor(drawn[50:]).mean(0)
    # standard errors by the Fisher information: .05 of the log variance, .11 of log nu; five of them
    assert abs(math.log(variance)) < 0.25
    assert abs(math.log(df / 4)) < 0.55


def test_variational_steps_find_them_too():
    likelihood, noise = StudentT(), StudentT().init(torch.zeros(1, 1))
    rows = torch.from_numpy(stats.t(4).rvs((1500, 64, 1), random_state=1)).float()
    for t, y in enumerate(rows, 1):
        noise = likelihood.observe(torch.zeros(64, 1), y, noise, max(0.01, 1 / t))
    assert float(noise["variance"]) == pytest.approx(1, rel=0.1)
    assert float(noise["df"]) == pytest.approx(4, rel=0.2)


def test_one_wild_target_does_not_move_the_line():
    x = normal(200, 1)
    y = x[:, 0] + 0.1 * normal(200, seed=1)
    y[0] = 1000.0
    model = rn.BayesianModel(torch.nn.Linear(1, 1).double(), rn.priors.Gaussian(), StudentT())
    posterior = rn.fit(model, (x, y), rn.inference.MCLMC(), seed=0, verbose=False)
    line = posterior.predict(torch.tensor([[0.0], [1.0]], dtype=torch.float64)).mean
    assert abs(float(line[0])) < 0.1
    assert abs(float(line[1]) - 1) < 0.1
