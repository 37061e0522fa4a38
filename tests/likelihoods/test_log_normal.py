"""Log-normal likelihood: density, moments and quantiles by scipy, and the same posterior as of the logarithms."""

import numpy as np
import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net.errors import DataError, ParameterError
from r2d2net.likelihoods import Gaussian, LogNormal
from r2d2net.likelihoods.base import Unit
from r2d2net.likelihoods.log_normal import LogRegression
from r2d2net.prediction import Regression
from r2d2net.run.carrying_on import carry_on


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def prediction():
    variance = torch.tensor([0.3, 1.2], dtype=torch.float64).reshape(2, 1)
    return LogRegression(Regression(normal(2, 6), variance))


def test_by_scipy(prediction):
    y = normal(6, seed=1).exp()
    pairs = zip(prediction.log.samples, prediction.log.noise_variance, strict=True)
    laws = [stats.lognorm(float(v) ** 0.5, scale=np.exp(mu.numpy())) for mu, v in pairs]
    for found, name in ((prediction.log_prob(y).exp(), "pdf"), (prediction.cdf(y), "cdf")):
        torch.testing.assert_close(found, torch.from_numpy(sum(getattr(law, name)(y.numpy()) for law in laws) / 2))
    means = torch.from_numpy(np.stack([law.mean() for law in laws]))
    torch.testing.assert_close(prediction.mean, means.mean(0))  # the median of two draws is their average
    assert torch.equal(prediction[2:4].samples, prediction.samples[:, 2:4])
    inside = torch.from_numpy(sum(law.var() for law in laws) / 2)
    torch.testing.assert_close(prediction.std, (inside + means.var(0, correction=0)).sqrt())


def test_wild_draws_move_neither_the_mean_nor_the_deviation():
    tame = 0.2 * normal(200, 3)
    wild = tame.clone()
    wild[::25] += 300.0  # 4% of the draws
    variance = torch.tensor(0.25, dtype=torch.float64)
    mean, std = (
        torch.stack([getattr(LogRegression(Regression(f, variance)), name) for f in (tame, wild)])
        for name in ("mean", "std")
    )
    torch.testing.assert_close(mean[1], mean[0], rtol=0.05, atol=0)
    torch.testing.assert_close(std[1], std[0], rtol=0.2, atol=0)
    exact = (tame.exp() * torch.exp(variance / 2)).var(0) + (torch.expm1(variance) * (2 * tame + variance).exp()).mean(
        0
    )
    torch.testing.assert_close(std[0], exact.sqrt(), rtol=0.05, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_beyond_the_dtype_are_its_largest(dtype):
    log = Regression(torch.full((30, 2), 1e4, dtype=dtype), torch.tensor(1.0, dtype=dtype))
    predicted = LogRegression(log)
    for part in (predicted.samples, predicted.mean, predicted.std, *predicted.interval(0.9)):
        assert torch.isfinite(part).all()


@pytest.mark.parametrize("degrees", [1.0, 3.0])
@pytest.mark.parametrize("noise", [0.1, 1.0, 3.0])
def test_mean_and_deviation_belong_to_the_interval(degrees, noise):
    draws = stats.t(degrees).rvs((200, 50), random_state=0)  # E exp(f) is infinite
    predicted = LogRegression(Regression(torch.from_numpy(draws), torch.tensor(noise**2, dtype=torch.float64)))
    low, high = predicted.interval(0.999)
    assert bool(((low < predicted.mean) & (predicted.mean < high)).all())
    low, high = predicted.interval(0.9)
    factor = 2 * np.exp(noise**2)  # the noise's own deviation in units of its interval
    assert bool((predicted.std < factor * (high - low)).all())


def test_few_rows_far_out():
    x = normal(6, 2).float()
    y = torch.exp(1 + x[:, 0] + 0.2 * normal(6, seed=1).float())
    model = rn.BayesianModel(torch.nn.Linear(2, 1), None, LogNormal())
    posterior = rn.fit(model, (x, y), "lineargibbs", epochs=200, seed=0, verbose=False)
    predicted = posterior.predict(3 * x, 200)
    low, high = predicted.interval(0.999)
    assert bool(((low <= predicted.mean) & (predicted.mean <= high)).all())
    low, high = predicted.interval(0.9)
    assert bool(torch.isfinite(predicted.std).all())
    assert bool((predicted.std < high - low).all())


def test_a_mean_may_be_larger_than_those_of_the_training_rows():
    x = torch.linspace(-1, 1, 101)[:, None]
    y = torch.exp(torch.where(x[:, 0] > 0.97, 8.0, 0.0) + 0.01 * normal(101).float())  # two rows far above the others
    x = torch.cat([x, (x > 0.97).float()], 1)
    model = rn.BayesianModel(torch.nn.Linear(2, 1), None, LogNormal())
    posterior = rn.fit(model, (x, y), "lineargibbs", epochs=200, seed=0, verbose=False)
    assert y.max() > torch.exp(y.log().mean() + 4 * y.log().std(correction=0))
    torch.testing.assert_close(posterior.predict(x, 100).mean[-2:], y[-2:], rtol=0.1, atol=0)


def test_intervals_are_positive_and_quantiles_invert(prediction):
    low, high = prediction.interval(0.999)
    assert bool((low > 0).all())
    assert bool((high > low).all())
    torch.testing.assert_close(prediction.cdf(low), torch.full_like(low, 0.0005), rtol=1e-5, atol=0)
    assert prediction.cdf(torch.full((6,), -1.0)).tolist() == [0.0] * 6
    assert prediction.log_prob(torch.full((6,), 0.0)).tolist() == [-torch.inf] * 6


def test_targets_that_are_not_positive():
    with pytest.raises(DataError, match=r"^y holds 0.0: a log-normal likelihood needs numbers above 0$"):
        LogNormal().target(torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize("algorithm", ["lineargibbs", "svgi", "linearfirst"])
def test_the_posterior_is_that_of_the_logarithms(algorithm):
    x = normal(80, 2).float()
    y = torch.exp(2 + x[:, 0] + 0.3 * normal(80, seed=1).float())
    hidden = [4] if algorithm == "linearfirst" else []
    torch.manual_seed(0)
    net = rn.nets.mlp(2, hidden, 1, linear=algorithm == "linearfirst")
    fits = [
        rn.fit(rn.BayesianModel(net, None, likelihood), (x, target), algorithm, epochs=60, seed=0, verbose=False)
        for likelihood, target in ((LogNormal(), y), (Gaussian(), y.log()))
    ]
    predicted, log = (posterior.predict(x, 20) for posterior in fits)
    torch.testing.assert_close(predicted.log.samples, log.samples)
    torch.testing.assert_close(predicted.log_prob(y), log.log_prob(y.log()) - y.log())
    assert fits[0].health["verdict"] == fits[1].health["verdict"] == "fits"


def test_validation_rows_correct_the_noise_of_the_logarithms():
    x = normal(60, 2).float()
    y = torch.exp(x[:, 0] + 0.5 * normal(60, seed=1).float())
    held = {"epochs": 5, "seed": 0, "verbose": False}
    one, two = (
        rn.fit(rn.BayesianModel(torch.nn.Linear(2, 1), None, likelihood), (x, t), validation=(x, t), **held)
        for likelihood, t in ((LogNormal(noise=None), y), (Gaussian(), y.log()))
    )
    torch.testing.assert_close(
        one.predict(x, 5).log.noise_variance[0, 0], two.predict(x, 5).noise_variance[0, 0], rtol=1e-3, atol=0
    )


def test_leave_one_out_needs_normal_noise():
    x = normal(30, 2).float()
    y = x[:, 0].exp()
    model = rn.BayesianModel(torch.nn.Linear(2, 1), None, LogNormal())
    posterior = rn.fit(model, (x, y), "lineargibbs", epochs=60, verbose=False)
    with pytest.raises(ParameterError, match="fit the logarithms of y with a Gaussian likelihood"):
        rn.diagnostics.loo(posterior, x, y)


def test_rows_that_are_selected_keep_the_law_of_their_logarithm(prediction):
    y = torch.tensor([2.0, 0.5, 1.0, 3.0, 0.1, 7.0], dtype=torch.float64)
    torch.testing.assert_close(prediction[2:4].log_prob(y[2:4]), prediction.log_prob(y)[2:4])
    torch.testing.assert_close(prediction[[5, 0]].quantile(0.8), prediction.quantile(0.8)[[5, 0]])


def far_fit(dtype=torch.float32, **how):
    """A line of the logarithm fitted to y = (3 + x)^2, and rows of which the last two lie far outside."""
    x = torch.linspace(-2, 2, 200, dtype=dtype)[:, None]
    y = (3 + x[:, 0]).square() * torch.exp(0.1 * normal(200).to(dtype))
    model = rn.BayesianModel(torch.nn.Linear(1, 1, dtype=dtype), None, LogNormal())
    posterior = rn.fit(model, (x, y), "lineargibbs", epochs=200, seed=0, verbose=False, **how)
    return posterior, y, torch.cat([x, torch.tensor([[8.0], [12.0]], dtype=dtype)])


def test_means_far_outside_are_bounded_and_all_others_are_as_they_were():
    posterior, y, at = far_fit()
    assert float(posterior.units.y.most) == float(y.max().log())
    predicted = posterior.predict(at, 100)
    free = LogRegression(predicted.log)
    assert torch.equal(predicted.mean[:-2], free.mean[:-2])
    assert bool((free.mean[-2:] > 20 * y.max()).all())
    torch.testing.assert_close(predicted.mean[-2:], 3 * y.max().expand(2))  # of a line that is sure of more
    truth = (3 + at[:, 0]).square()
    rmse, before = ((each.mean - truth).square().mean().sqrt() for each in (predicted, free))
    assert float(rmse) < 0.01 * float(before)
    for found, was in (
        (predicted.std, free.std),
        (predicted.quantile(0.9), free.quantile(0.9)),
        (predicted.log_prob(truth), free.log_prob(truth)),
    ):
        assert torch.equal(found, was)
    noise = predicted.log.noise_variance.squeeze().double()
    largest = float((posterior.units.y.most + noise.sqrt() + noise / 2).exp().max())
    assert float(predicted.samples.max()) <= largest * (1 + 1e-6)


def test_a_bounded_mean_lies_in_its_interval():
    """Of a posterior that is sure of large values the mean is the lower end, of one that is not the bound."""
    most = torch.tensor(2.0, dtype=torch.float64)
    center = torch.tensor([1.0, 3.0, 6.0], dtype=torch.float64)
    f = center + torch.tensor([0.1, 0.1, 4.0], dtype=torch.float64) * normal(200, 3)
    predicted = LogRegression(Regression(f, torch.tensor(0.04, dtype=torch.float64)), most)
    low, high = predicted.interval(0.9)
    bound = np.exp(2 + 0.2 + 0.02)
    assert float(predicted.mean[0]) == float(LogRegression(predicted.log).mean[0])
    torch.testing.assert_close(predicted.mean[1], low[1])
    assert float(predicted.mean[2]) == pytest.approx(bound)
    assert bool(((low <= predicted.mean) & (predicted.mean < high)).all())
    assert torch.equal(predicted[[1, 2]].mean, predicted.mean[1:])
    several = LogRegression(Regression(f.reshape(200, 1, 3), torch.tensor(0.04, dtype=torch.float64)), most.expand(3))
    assert torch.equal(several.mean[0], predicted.mean)
    assert float(several.of_output(1).mean) == float(predicted.mean[1])


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 50, 1), (1, 50, 2)])
def test_the_mean_of_one_draw_is_that_of_two_that_are_alike(shape):
    """The one is in closed form, the other by a search; some rows have their mean lifted."""
    f, most = 4 * normal(1, 50, 2), torch.tensor([1.0, 2.0], dtype=torch.float64)
    variance = 0.01 + 0.05 * normal(*shape, seed=1).square()
    one = LogRegression(Regression(f, variance), most)
    two = LogRegression(Regression(f.repeat(2, 1, 1), variance), most)
    torch.testing.assert_close(one.mean, two.mean)
    assert bool((one.mean > one.samples[0]).any())
    assert bool((one.mean == one.samples[0]).any())


def test_the_bound_is_saved_and_runs_without_one_load(tmp_path):
    posterior, _, at = far_fit()
    posterior.save(tmp_path)
    again = rn.load(tmp_path, torch.nn.Linear(1, 1), classes=[])
    assert torch.equal(again.predict(at).mean, posterior.predict(at).mean)
    old = posterior.with_units(posterior.units._replace(y=posterior.units.y._replace(most=None)))
    old.save(tmp_path / "old")  # as versions without a bound wrote it
    again = rn.load(tmp_path / "old", torch.nn.Linear(1, 1))
    assert again.units.y.most is None
    assert torch.equal(again.predict(at).mean, LogRegression(posterior.predict(at).log).mean)


def test_more_rows_move_the_bound():
    x = normal(60, 2).float()
    y = torch.exp(x[:, 0])
    model = rn.BayesianModel(torch.nn.Linear(2, 1), None, LogNormal())
    posterior = rn.fit(model, (x, y), epochs=5, seed=0, verbose=False)
    more = carry_on(posterior, (x, 100 * y), epochs=5, verbose=False)
    torch.testing.assert_close(more.units.y.most, (100 * y).max().log()[None])
    assert torch.equal(carry_on(posterior, (x, y / 9), epochs=5, verbose=False).units.y.most, posterior.units.y.most)


def test_the_spread_of_means_beyond_float32_is_not_zero():
    f = normal(100, 4) * 0.3 + torch.tensor([10.0, 60.0, 80.0, 200.0], dtype=torch.float64)
    variance = torch.tensor(0.09)
    single, double = (LogRegression(Regression(f.to(kind), variance.to(kind))) for kind in (torch.float32, f.dtype))
    for name in ("epistemic", "aleatoric", "std"):
        found, exact = getattr(single, name), getattr(double, name)
        torch.testing.assert_close(found[:3].double(), exact[:3], rtol=1e-3, atol=0)
        assert float(found[3]) == torch.finfo(torch.float32).max, name


@pytest.mark.parametrize("sign", [-1, 1])
def test_rows_out_of_all_reach_are_finite_and_wide_and_others_as_they_were(sign):
    unit = Unit(torch.tensor([2.0]), torch.tensor([0.5]), torch.tensor([3.5]))
    slopes = torch.linspace(0.4, 0.6, 40).reshape(-1, 1, 1)
    outputs = sign * slopes * torch.tensor([1.0, 3e6]).reshape(1, 2, 1)  # a row as others, and one far out
    noise = {"variance": torch.tensor([0.1])}
    found = LogNormal().predict(outputs, noise, unit)
    near = LogNormal().predict(outputs[:, :1], noise, unit)
    torch.testing.assert_close(found.mean[:1], near.mean, rtol=0, atol=0)
    low, high = found.interval(0.9)
    assert 0 < low[1] < 1e-3 * high[1] < torch.inf
    assert low[1] < found.mean[1] < high[1]
    assert found.mean[1] < found.std[1] < torch.inf
    assert found.log_prob(torch.tensor([[7.0], [7.0]])).isfinite().all()
    inside = LogNormal().predict(torch.full((4, 1, 1), 19.9 * sign), noise, unit)
    torch.testing.assert_close(inside.log.samples, torch.full((4, 1, 1), 2 + 0.5 * 19.9 * sign))
