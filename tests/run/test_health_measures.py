"""The measures of a fit's health where they are known: a linear model with orthogonal columns and known noise."""

import math
import warnings

import pytest
import torch
from scipy.stats import chi2, norm
from torch import nn

import r2d2net as rn
from inference_figure import wide_table
from r2d2net.likelihoods import Categorical, Gaussian, Poisson
from r2d2net.run import health_line
from r2d2net.run.constant_check import constant_scores
from r2d2net.run.health import warn_of
from r2d2net.run.importance_check import k_hat
from r2d2net.run.predictive_check import leave_one_out, p_value
from r2d2net.run.prepare import prepare
from r2d2net.run.stationarity import stationarity

N, P, NOISE = 40, 4, 0.5


@pytest.fixture(scope="module")
def problem():
    """Data, and the exact posterior: independent normal weights of precision 1 + n / noise^2."""
    g = torch.Generator().manual_seed(0)
    x = torch.linalg.qr(torch.randn(N, P, generator=g))[0] * math.sqrt(N)
    y = x[:, :1] + NOISE * torch.randn(N, 1, generator=g)
    model = rn.BayesianModel(nn.Linear(P, 1, bias=False), rn.priors.Gaussian(1.0), Gaussian(NOISE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = rn.fit(model, (x, y), "mfvi", epochs=1, standardize=False, verbose=False)
    state, data = posterior.state, N / NOISE**2
    mean = (x.T @ y).squeeze(1) / NOISE**2 / (1 + data)
    exact = state._replace(mean=mean, rho=torch.full((P,), math.log(data)), precision=torch.ones(P))
    return posterior.source.with_state(exact), x, y


def changed(source, factor=1.0, shift=0.0):
    """The posterior with deviations multiplied by a factor, and means moved by a number of deviations."""
    state = source.state
    rho = state.rho.exp().add(state.precision).div(factor**2).sub(state.precision).log()
    return source.with_state(state._replace(mean=state.mean + shift * source.deviation(), rho=rho))


def test_slope_and_spread_are_those_of_the_exact_posterior(problem):
    source, x, y = problem
    found = stationarity(source, x, y)
    assert found.slope == pytest.approx(0, abs=1e-3)
    assert found.spread == pytest.approx(1, abs=1e-4)
    assert stationarity(changed(source, 0.5), x, y).spread == pytest.approx(0.25, abs=1e-4)
    assert stationarity(changed(source, 2.0), x, y).spread == pytest.approx(4.0, abs=1e-3)
    assert stationarity(changed(source, shift=1.5), x, y).slope == pytest.approx(1.5, abs=1e-3)


def test_the_spread_of_chains_is_their_temperature():
    """Draws of a linear chain, stretched; the standard error of 40 draws of 5 weights is about 0.1: four of them."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(60, 4, generator=g)
    y = x[:, 0] + torch.randn(60, generator=g)
    model = rn.BayesianModel(nn.Linear(4, 1), rn.priors.Gaussian(1.0))
    source = rn.fit(model, (x, y), "lineargibbs", epochs=200, verbose=False).source
    data = prepare(model, (x, y), None, 0, None, None, True).batches
    weights = source.state.weights
    for factor in (0.5, 1.0, 2.0):
        center = weights.mean((0, 1))
        stretched = source.with_state(source.state._replace(weights=center + factor * (weights - center)))
        assert stationarity(stretched, data.x, data.y).spread == pytest.approx(factor**2, rel=0.4)


def test_k_hat_knows_the_exact_posterior_and_a_narrow_one(problem):
    """Ratios of the exact posterior are equal but for rounding; sds r times too small have a tail of shape 1 - r^2."""
    source, x, y = problem
    exact, narrow, wide = (k_hat(changed(source, factor), x, y) for factor in (1.0, 0.4, 2.0))
    assert exact is None or exact < 0.7
    assert narrow > 0.84 - 0.15  # k-hat of 200 draws has a standard deviation of about 0.15
    assert wide < 0.3  # a wide proposal covers everything


def test_leave_one_out_is_that_of_refits(problem):
    """Normal posteriors without a row, in closed form; 2,000 draws: the mean's error is a few thousandths of a nat."""
    source, x, y = problem
    data = prepare(source.model, (x, y), None, 0, None, None, False)
    drawn = source.joined(2000, torch.Generator().manual_seed(0))
    outputs = torch.stack([x @ w[:, None] for w in drawn.weights])
    found = leave_one_out(source, data, outputs, drawn, y)
    scores = []
    for i in range(N):
        keep = torch.arange(N) != i
        a = x[keep].double()
        precision = torch.eye(P).double() + a.T @ a / NOISE**2
        mean = torch.linalg.solve(precision, a.T @ y[keep].double() / NOISE**2)
        row = x[i].double()
        variance = NOISE**2 + row @ torch.linalg.solve(precision, row)
        scores.append(norm.logpdf(float(y[i]), float(row @ mean), math.sqrt(variance)))
    assert found["elpd"] == pytest.approx(sum(scores) / N, abs=0.01)
    assert found["loo_bad"] == 0
    assert not found["loo_exact"]
    one = leave_one_out(source, data, outputs[:1].expand(50, -1, -1), drawn, y)
    assert one == {}  # a single network leaves nothing out


def test_linear_chains_leave_rows_out_exactly():
    g = torch.Generator().manual_seed(2)
    x = torch.randn(30, 2, generator=g)
    y = 7 * x[:, 0] + torch.randn(30, generator=g)
    model = rn.BayesianModel(nn.Linear(2, 1))
    posterior = rn.fit(model, (x, y), "lineargibbs", epochs=100, verbose=False)
    exact = rn.diagnostics.loo(posterior, x, y)
    assert posterior.health["loo_exact"]
    assert posterior.health["elpd"] == pytest.approx(exact.elpd / 30, abs=1e-6)
    assert posterior.health["elpd_error"] == pytest.approx(exact.standard_error / 30, abs=1e-6)


def test_the_p_value_of_numbers_is_that_of_chi_square():
    g = torch.Generator().manual_seed(3)
    y = torch.randn(50, 1, generator=g)
    outputs, variance = torch.zeros(1, 50, 1), torch.tensor([[2.0]])
    exact = chi2.sf(float(y.square().sum()) / 2, 50)
    for jointly in (True, False):
        found = p_value(Gaussian(), outputs, {"variance": variance}, y, jointly=jointly)
        assert found == pytest.approx(exact, rel=1e-4)


def test_p_values_of_a_true_model_are_uniform():
    """Of 200 tables of counts and of classes; Kolmogorov's statistic is above 0.115 once in a hundred times."""
    g = torch.Generator().manual_seed(4)
    rate, logits = torch.full((1, 60, 1), 1.2), torch.randn(1, 60, 3, generator=g)
    counts = [p_value(Poisson(), rate.log(), {}, torch.poisson(rate[0], generator=g), jointly=True) for _ in range(200)]
    drawn = [torch.multinomial(torch.softmax(logits[0], -1), 1, generator=g).squeeze(1) for _ in range(200)]
    classes = [p_value(Categorical(), logits, {}, y, jointly=True) for y in drawn]
    for values in (counts, classes):
        ordered = torch.tensor(values).sort().values
        assert (ordered - (torch.arange(200) + 0.5) / 200).abs().max() < 0.115


def test_the_line_names_what_is_wrong():
    chains = {"verdict": "fits", "r_hat": 2.4, "effective_draws": 1.3}
    flags = health_line.flags(chains)
    assert flags == ["chains have not mixed (R-hat 2.40, effective draws 1.3)"]
    assert health_line.line({**chains, "flags": flags}).startswith("health: WARNING, chains have not mixed")
    nan = {**chains, "r_hat": math.nan, "effective_draws": 50.0}
    assert health_line.flags(nan)
    assert health_line.are_far_from_mixed(nan)


def test_networks_may_have_several_modes():
    """R-hat of 1.2 to 3 is told, and no fault; three draws or fewer, or chains that share no prediction, are one."""
    chains = {"verdict": "fits", "r_hat": 1.6, "effective_draws": 8.0, "chain_share": 0.1, "linear": False}
    assert health_line.flags(chains) == []
    assert not health_line.are_far_from_mixed(chains)
    words = "R-hat 1.60 of predictions (a mixture of chains that have not agreed: judge by left-out density)"
    assert words in health_line.line({**chains, "flags": []})
    for fault in ({"r_hat": 3.1}, {"effective_draws": 2.9}, {"chain_share": 0.6}, {"linear": True}):
        assert health_line.flags({**chains, **fault})
        assert health_line.are_far_from_mixed({**chains, **fault})


def test_the_score_of_a_constant_is_that_of_refits():
    y = torch.randn(25, 2, generator=torch.Generator().manual_seed(6)).double() * torch.tensor([1.0, 9.0])
    expected = []
    for i in range(25):
        others = y[torch.arange(25) != i]
        scale = others.std(0) * math.sqrt(1 + 1 / 24)
        expected.append(norm.logpdf(y[i].numpy(), others.mean(0).numpy(), scale.numpy()).sum())
    assert constant_scores(y).tolist() == pytest.approx(expected)
    labels = torch.arange(30) % 3
    assert constant_scores(labels, 3).tolist() == pytest.approx([math.log(9.5 / 30.5)] * 30)
    assert constant_scores(y[:19]) is None
    assert constant_scores(torch.ones(30, 1)) is None


def test_a_chain_that_only_remembers_its_rows_is_told():
    """80 rows of 1,500 columns: R-hat is 1.08 and training rows fit, and rows left out are worse than by a constant."""
    x, y, new_x, new_y = wide_table()
    model = rn.BayesianModel(nn.Linear(1500, 1))
    with pytest.warns(rn.errors.FitWarning, match=r"^the fit by MCLMC knows its training rows alone: .*lineargibbs"):
        posterior = rn.fit(model, (x, y), "mclmc", verbose=False)
    assert (posterior.predict(new_x).mean - new_y).square().mean() > new_y.var()
    assert posterior.health["elpd_gain"] < -0.5
    assert any("worse than by a constant" in flag for flag in posterior.health["flags"])


@pytest.mark.parametrize(
    ("algorithm", "linear", "fix"),
    [
        ("MCLMC", True, "use more epochs, or algorithm='lineargibbs', which is exact for normal noise and for classes"),
        ("LinearGibbs", True, "use more epochs"),
        ("MCLMC", False, "use more epochs"),
        ("SGHMC", False, "use more epochs, or algorithm='mclmc'"),
    ],
)
def test_what_helps_chains_depends_on_the_fit(algorithm, linear, fix):
    chains = {"verdict": "fits", "r_hat": 4.0, "effective_draws": 1.5, "linear": linear}
    with pytest.warns(rn.errors.FitWarning, match=rf"; {fix}$"):
        warn_of(chains, algorithm)


def test_chains_far_from_mixed_are_warned_of():
    g = torch.Generator().manual_seed(5)
    x = torch.randn(40, 3, generator=g)
    model = rn.BayesianModel(nn.Linear(3, 1))
    with pytest.warns(
        rn.errors.FitWarning, match=r"^the fit by SGLD: chains have not mixed \(R-hat .*; use more epochs"
    ):
        rn.fit(model, (x, x[:, 0] + 0.5 * torch.randn(40, generator=g)), "sgld", verbose=False)
