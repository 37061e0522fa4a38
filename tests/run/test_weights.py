"""Weights of rows: those that are whole numbers are rows that are there so often."""

from typing import Any

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import BayesianModel
from r2d2net.errors import DataError, ParameterError
from r2d2net.inference import DPN, EDL, MAP, MCLMC, SVGI, LinearFirst, LinearGibbs
from r2d2net.inference.linear_problem import linear_problem
from r2d2net.likelihoods import Categorical, Gaussian, Heteroscedastic, LogNormal, Poisson, StudentT
from r2d2net.likelihoods.weighted import Weighted
from r2d2net.priors import Gaussian as GaussianPrior

PRIOR_DEVIATION = 1.0


def table(rows: int = 120, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=g)
    y = 1.0 + x @ torch.tensor([1.0, -0.5, 0.0]) + torch.randn(rows, generator=g)
    weights = torch.randint(1, 5, (rows,), generator=g).double()
    y = y + 1.5 * (weights > 2) * x[:, 2]  # so that weights matter
    return x, y, weights


def linear(likelihood: Any = None, outputs: int = 1) -> Any:
    return BayesianModel(nn.Linear(3, outputs), GaussianPrior(PRIOR_DEVIATION), likelihood)


def closed_form(x: torch.Tensor, y: torch.Tensor, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and covariance of weights and bias under unit normal priors and a known noise, float64."""
    design = torch.cat([x.double(), torch.ones(len(x), 1, dtype=torch.float64)], 1)
    covariance = torch.linalg.inv(design.T @ design / noise**2 + torch.eye(4, dtype=torch.float64))
    return covariance @ design.T @ y.double() / noise**2, covariance


@pytest.mark.parametrize(
    ("algorithm", "epochs", "ratios"),
    [(MCLMC(chains=8), 120, (0.8, 1.25)), ("hmc", 300, (0.8, 1.25)), (SVGI(), 2000, (0.6, 1.3))],
)
def test_whole_weights_are_the_closed_form_of_repeated_rows(algorithm: Any, epochs: int, ratios: Any) -> None:
    x, y, weights = table()
    rows = torch.arange(len(y)).repeat_interleave(weights.long())
    mean, covariance = closed_form(x[rows], y[rows], 1.0)
    fitted = rn.fit(
        linear(Gaussian(noise=1.0)), (x, y), algorithm, epochs=epochs, weights=weights, standardize=False, verbose=False
    )
    drawn = fitted.sample(4000, seed=1).double()
    deviation = covariance.diagonal().sqrt()
    assert float(((drawn.mean(0) - mean) / deviation).abs().max()) < 0.4
    found = drawn.std(0) / deviation
    assert ratios[0] < float(found.min()) <= float(found.max()) < ratios[1]


def test_linear_gibbs_is_that_of_repeated_rows() -> None:
    """The problems are the same but for the order of sums, and so are the posteriors but for Monte Carlo error."""
    x, y, weights = table()
    rows = torch.arange(len(y)).repeat_interleave(weights.long())
    for intercept in (True, False):
        one = linear_problem(x, y[:, None], intercept=intercept, weights=weights)
        other = linear_problem(x[rows], y[rows, None], intercept=intercept)
        assert one.degrees == other.degrees
        for name in ("x_mean", "y_mean", "mean_square", "gram"):
            assert torch.allclose(getattr(one, name), getattr(other, name), rtol=1e-12), name
        assert torch.allclose(one.x.T @ one.y, other.x.T @ other.y, rtol=1e-12)
        assert torch.allclose(one.y.square().sum(), other.y.square().sum(), rtol=1e-12)
    weighted = rn.fit(linear(), (x, y), LinearGibbs(), weights=weights, verbose=False)
    repeated = rn.fit(linear(), (x[rows], y[rows]), LinearGibbs(), verbose=False)
    at = torch.cat([torch.zeros(1, 3), torch.eye(3)])
    ours, theirs = weighted.predict(at, 2000), repeated.predict(at, 2000)
    error = theirs.samples.std(0)
    assert float(((ours.mean - theirs.mean) / error).abs().max()) < 0.15
    assert torch.allclose(ours.samples.std(0), error, rtol=0.15)
    assert torch.allclose(ours.aleatoric, theirs.aleatoric, rtol=0.03)
    assert torch.allclose(weighted.units.x_scale, repeated.units.x_scale, rtol=1e-5)
    assert weighted.health["verdict"] == "fits"


def test_learnt_noise_and_classes_by_svgi() -> None:
    x, y, weights = table()
    rows = torch.arange(len(y)).repeat_interleave(weights.long())
    at = torch.cat([torch.zeros(1, 3), torch.eye(3)])
    ours = rn.fit(linear(), (x, y), epochs=1500, weights=weights, verbose=False)
    theirs = rn.fit(linear(), (x[rows], y[rows]), epochs=500, verbose=False)
    for a, b in ((ours.predict(at, 2000), theirs.predict(at, 2000)),):
        assert torch.allclose(a.aleatoric, b.aleatoric, rtol=0.06)
        assert torch.allclose(a.mean, b.mean, atol=0.06)
        assert torch.allclose(a.samples.std(0), b.samples.std(0), rtol=0.35)
    assert type(ours.model.likelihood) is Gaussian
    labels = (y > 1).long()
    ours = rn.fit(linear(Categorical(), 2), (x, labels), MAP(), epochs=1000, weights=weights, verbose=False)
    theirs = rn.fit(linear(Categorical(), 2), (x[rows], labels[rows]), MAP(), epochs=1000, verbose=False)
    assert torch.allclose(ours.predict(at).probs, theirs.predict(at).probs, atol=0.01)
    assert type(ours.model.likelihood) is Categorical


def test_equal_weights_change_nothing_but_the_number_of_rows() -> None:
    x, y, _ = table()
    ones = rn.fit(linear(), (x, y), LinearGibbs(), epochs=100, weights=torch.ones(len(y)), verbose=False)
    none = rn.fit(linear(), (x, y), LinearGibbs(loo_draws=0), epochs=100, verbose=False)
    assert torch.allclose(ones.predict(x).mean, none.predict(x).mean, atol=0.05)
    twice = rn.fit(linear(), (x, y), LinearGibbs(), epochs=400, weights=torch.full((len(y),), 2.0), verbose=False)
    ratio = twice.predict(x, 1000).samples.std(0) / none.predict(x, 1000).samples.std(0)
    assert float(ratio.mean()) == pytest.approx(0.5**0.5, abs=0.08)


@pytest.mark.parametrize("likelihood", [Heteroscedastic(), LogNormal(), Poisson(centered=True), Gaussian()])
@pytest.mark.parametrize("algorithm", ["svgi", "mclmc", "sgld", "mcdropout"])
def test_kinds_of_numbers(likelihood: Any, algorithm: str) -> None:
    x, y, weights = table(40)
    y = torch.round(y.abs()) + 1
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2 if isinstance(likelihood, Heteroscedastic) else 1))
    model = BayesianModel(net, GaussianPrior(), likelihood)
    epochs = 30 if algorithm == "mclmc" else 3
    fitted = rn.fit(model, (x, y), algorithm, epochs=epochs, weights=weights, validation=0.2, verbose=False)
    assert fitted.predict(x).mean.shape == y.shape
    assert type(fitted.model.likelihood) is type(likelihood)


def test_saved_resumed_and_digested(tmp_path: Any) -> None:
    x, y, weights = table(40)
    first = rn.fit(linear(), (x, y), epochs=5, weights=weights, checkpoint_to=tmp_path, verbose=False)
    again = rn.fit(linear(), (x, y), epochs=5, weights=weights, resume=tmp_path, verbose=False)
    loaded = rn.load(tmp_path, nn.Linear(3, 1))
    for other in (again, loaded):
        assert torch.equal(first.predict(x).mean, other.predict(x).mean)
        assert type(other.model.likelihood) is Gaussian
    with pytest.raises(rn.CheckpointError, match="other data"):
        rn.fit(linear(), (x, y), epochs=5, weights=weights + 1, resume=tmp_path, verbose=False)


def test_auto_and_several_runs() -> None:
    x, y, weights = table(60)
    numbers = rn.fit(linear(), (x, y), "auto", epochs=80, weights=weights, verbose=False)
    assert "LinearGibbs" in numbers.settings["chosen"]
    labels = (y > 1).long()
    classes = rn.fit(linear(Categorical(), 2), (x, labels), "auto", epochs=30, weights=weights, verbose=False)
    assert "MCLMC" in classes.settings["chosen"]
    for algorithm in ("deepensemble", "svgi"):
        restarts = 2 if algorithm == "svgi" else 1
        rn.fit(linear(), (x, y), algorithm, epochs=3, weights=weights, restarts=restarts, jobs=1, verbose=False)


def test_refusals_are_one_line() -> None:
    x, y, weights = table(20)
    labels = (y > 1).long()
    two = linear(Categorical(), 2)
    path = BayesianModel(rn.nets.mlp(3, [4], 1, linear=True))
    for model, algorithm, target, given, message in [
        (two, EDL(), labels, weights, "EDL takes no weights of rows: use SVGI, CAVI"),
        (two, DPN(), labels, weights, "DPN takes no weights"),
        (path, LinearFirst(), y, weights, "LinearFirst takes no weights"),
        (two, LinearGibbs(), labels, weights, "LinearGibbs takes weights of rows for normal noise alone"),
        (linear(StudentT()), "svgi", y, weights, "StudentT takes no weights of rows: use Gaussian"),
        (linear(), "svgi", y, weights[:5], "weights has shape .5,., and there are 20 rows"),
        (linear(), "svgi", y, -weights, "weights holds -"),
        (linear(), "svgi", y, "heavy", "weights of type .*str.* no numbers"),
    ]:
        with pytest.raises((DataError, ParameterError), match=message) as caught:
            rn.fit(model, (x, target), algorithm, epochs=5, weights=given, verbose=False)
        assert "\n" not in str(caught.value)
    with pytest.raises(ParameterError, match="weights is for tensors and arrays"):
        rn.fit(linear(), torch.utils.data.TensorDataset(x, y), weights=weights, verbose=False)


def test_targets_with_weights_and_back() -> None:
    weights = torch.tensor([1.0, 3.0], dtype=torch.float64)
    for likelihood, y in [
        (Gaussian(), torch.tensor([[0.5, 1.0], [2.0, 3.0]])),
        (Categorical(), torch.tensor([0, 2])),
    ]:
        weighted = Weighted.of(likelihood, weights)
        assert isinstance(weighted, Weighted)
        own, shares = weighted.parts(weighted.joined(y, weights))
        assert torch.equal(own, y)
        assert shares.tolist() == [0.5, 1.5]
        assert weighted.mean == 2.0
