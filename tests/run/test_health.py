"""What a fit says of itself: worse than a constant, collapsed, wild, or in order; without changing anything."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import r2d2net as rn
from r2d2net.errors import FitWarning
from r2d2net.inference import MAP, SVGI
from r2d2net.run import health, train

pytestmark = pytest.mark.filterwarnings("error::r2d2net.errors.FitWarning")


def table(n=60, p=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, p, generator=g)
    return x, 100 + 50 * x[:, 0] + 5 * torch.randn(n, generator=g)


def fit(data, algorithm=None, net=None, likelihood=None, **options):
    net = nn.Linear(data[0].shape[1], 1) if net is None else net
    model = rn.BayesianModel(net, rn.priors.R2D2(), likelihood or rn.likelihoods.Gaussian())
    return rn.fit(model, data, algorithm, verbose=False, **{"epochs": 100, **options})


def test_a_good_fit_says_so_and_keeps_it(tmp_path):
    posterior = fit(table(), checkpoint_to=tmp_path)
    found = posterior.health
    assert found["verdict"] == "fits"
    assert found["rows"] == 60
    assert 0.05 < found["error_ratio"] < 0.15  # noise 5, deviation of y 50
    assert 0.9 < found["spread"] < 1.1
    assert rn.load(tmp_path, nn.Linear(3, 1)).health == found
    assert fit(table(), resume=tmp_path).health == found


def test_a_fit_that_is_worse_than_a_constant_is_told_in_one_line():
    """One epoch from weights a hundred times too large."""
    net = nn.Linear(3, 1)
    nn.init.constant_(net.weight, 100.0)
    match = r"^the fit by MAP is worse than a constant: its error on training rows is \d+ times that of the best "
    with pytest.warns(FitWarning, match=match + r"constant; use more epochs, or algorithm='svgi'$"):
        posterior = rn.fit(
            rn.BayesianModel(net, rn.priors.Gaussian(1.0)), table(), MAP(start="net"), epochs=1, verbose=False
        )
    assert posterior.health["verdict"] == "worse than a constant"
    assert posterior.health["error_ratio"] > 100


def test_classes_are_compared_with_their_frequencies():
    x, y = table(90)
    labels = (y > 100).long()
    assert fit((x, labels), net=nn.Linear(3, 2), likelihood=rn.likelihoods.Categorical()).health["verdict"] == "fits"
    net = nn.Linear(3, 2)
    nn.init.constant_(net.weight, 0.0)
    with torch.no_grad():
        net.weight[1, 1] = 30.0  # sure, by a column that says nothing
    model = rn.BayesianModel(net, rn.priors.Gaussian(1.0), rn.likelihoods.Categorical())
    with pytest.warns(FitWarning, match="worse than a constant"):
        rn.fit(model, (x, labels), MAP(start="net"), epochs=1, verbose=False)
    # nearly all rows of one class: 10% more than an entropy of nearly nothing is nothing
    rare = torch.zeros(90, dtype=torch.long)
    rare[0] = 1
    posterior = fit((x, rare), net=nn.Linear(3, 2), likelihood=rn.likelihoods.Categorical())
    assert posterior.health["verdict"] == "no better than a constant"


def test_a_collapsed_fit_is_told_where_a_line_would_do():
    """A prior of deviation 1e-6 holds the slope at zero; noise alone is nothing to warn of."""
    x, y = table()
    model = rn.BayesianModel(nn.Linear(3, 1), rn.priors.Gaussian(1e-6))
    with pytest.warns(
        FitWarning, match=r"^the fit by SVGI is collapsed to a constant: .* explains 9\d% .*; use more epochs$"
    ):
        rn.fit(model, (x, y), epochs=50, verbose=False)
    noise = torch.randn(60, generator=torch.Generator().manual_seed(1))
    assert rn.fit(model, (x, noise), epochs=50, verbose=False).health["verdict"] == "no better than a constant"


def test_a_chain_that_knows_only_its_training_rows_is_told():
    """With 400 columns and 20 rows the prior's draws remain in the directions that the rows do not see."""
    x, y = table(20, 400)
    model = rn.BayesianModel(nn.Linear(400, 1), rn.priors.Gaussian(0.3))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        posterior = rn.fit(model, (x, y), "sghmc", epochs=300, verbose=False)
    wild, mixed = (str(warning.message) for warning in told if warning.category is FitWarning)
    assert "chains have not mixed" in mixed
    assert "is wild at new rows: its predictions away from the training rows vary" in wild
    new_x, new_y = table(500, 400, seed=1)
    assert rn.metrics.rmse(new_y, posterior.predict(new_x).mean) > 2 * float(new_y.std())
    assert posterior.health["error_ratio"] < 0.5


def test_the_look_changes_nothing(monkeypatch):
    net = nn.Linear(3, 1)
    before = torch.random.get_rng_state()
    with_look = fit(table(), "sghmc", net, epochs=200)
    assert torch.equal(torch.random.get_rng_state(), before)
    monkeypatch.setattr(train, "look_at", lambda source, prepared, history: {})
    without = fit(table(), "sghmc", net, epochs=200)
    assert torch.equal(with_look.state.weights, without.state.weights)


def test_streams_are_judged_by_validation_rows_or_not_at_all():
    x, y = table()
    y = (y - 100) / 50
    data = TensorDataset(x, y)
    model = rn.BayesianModel(nn.Linear(3, 1), rn.priors.R2D2())
    for stream in (data, DataLoader(data, 20)):
        unseen = rn.fit(model, stream, epochs=20, verbose=False).health
        assert unseen == {"verdict": "not checked", "flags": [], "line": "health: not checked"}
        held = rn.fit(model, stream, epochs=20, validation=(x[:30], y[:30]), verbose=False).health
        assert (held["verdict"], held["rows"]) == ("fits", 30)


@pytest.mark.parametrize(
    ("y", "n"), [(torch.ones(8), 8), (torch.arange(2.0), 2), (torch.ones(1), 1)], ids=["constant", "two", "one"]
)
def test_degenerate_targets_are_no_reason_to_fail(y, n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        assert fit((torch.randn(n, 2, generator=torch.Generator().manual_seed(0)), y), epochs=2).health["verdict"]


@pytest.mark.parametrize("n", [5, 60])
@pytest.mark.parametrize("algorithm", ["lineargibbs", "mclmc"])
def test_noise_that_is_next_to_nothing_is_not_too_large(n, algorithm):
    """Noise ends at the floor of its prior, or chains within a millionth of each other: neither is a fault."""
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    for y in (torch.full((n,), 7.0), x[:, 0]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # MCLMC's own, of R-hat, which has no unit
            found = fit((x, y), algorithm, epochs=None).health
        assert not found["flags"], found["line"]


def test_members_of_an_ensemble_are_judged_together():
    model = rn.BayesianModel(nn.Linear(3, 1), rn.priors.Gaussian())
    posterior = rn.fit(model, table(), rn.inference.DeepEnsemble(members=2), epochs=30, jobs=1, verbose=False)
    assert posterior.health["verdict"] == "fits"


def test_images_are_looked_at_in_small_numbers():
    x = torch.randn(100, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))
    model = rn.BayesianModel(net, rn.priors.Gaussian(), rn.likelihoods.Categorical())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        posterior = rn.fit(model, (x, torch.arange(100) % 3), SVGI(), epochs=1, verbose=False)
    assert posterior.health["rows"] == 64


@pytest.mark.parametrize("shape", [(30, 4), (12, 40)])
def test_the_leave_one_out_error_of_ridge_is_that_of_refits(shape, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    y = x[:, :2].sum(1) + rng.normal(size=shape[0])
    penalty = 0.3
    monkeypatch.setattr(health, "PENALTIES", (penalty,))
    centred = x - x.mean(0)
    alpha = penalty * np.linalg.eigvalsh(centred @ centred.T).mean()
    refits, constants = (cross_val_predict(Ridge(a), x, y, cv=LeaveOneOut()) for a in (alpha, 1e12))
    exact = 1 - ((y - refits) ** 2).sum() / ((y - constants) ** 2).sum()
    found = health.linear_r2(torch.from_numpy(x), torch.from_numpy(y)[:, None])
    assert found == pytest.approx(max(0.0, exact), abs=1e-8)
