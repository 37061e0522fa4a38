"""Pruned posteriors: scores in nats at any temperature, masks that survive saving, cuts chosen by validation rows."""

from typing import Any

import matplotlib as mpl
import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.errors import CheckpointError, DataError, ParameterError, PruningWarning
from r2d2net.inference import CAVI, MAP, SVI
from r2d2net.likelihoods import Gaussian as GaussianLikelihood
from r2d2net.shrinkage import Pruned, prune, pruning_curve
from r2d2net.shrinkage.pruned import PrunedDraws
from r2d2net.shrinkage.weight_scores import weight_scores

mpl.use("Agg")


def rows(n: int, inputs: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, inputs, generator=generator)
    return x, x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(n, generator=generator)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))


@pytest.fixture(scope="module")
def fitted() -> Any:
    return rn.fit(rn.BayesianModel(network()), rows(300), "cavi", epochs=40, verbose=False)


@pytest.mark.parametrize(("temperature", "method"), [(0.1, CAVI), (1.0, CAVI), (4.0, SVI)])
def test_saliency_is_the_curvature_of_the_loss_at_any_temperature(temperature: float, method: Any) -> None:
    """Of a linear model with known noise the curvature of L in w_j is sum_i x_ij^2 / noise^2, whatever was fitted."""
    x, y = rows(200)
    model = rn.BayesianModel(nn.Linear(6, 1, bias=False), rn.priors.Gaussian(0.3), GaussianLikelihood(noise=0.5))
    settings = method(
        temperature=temperature, estimator="local", lr=0.02, lr_rho=0.1, initial_scale=0.06 * temperature**0.5
    )
    posterior = rn.fit(model, (x, y), settings, epochs=1500, standardize=False, verbose=False)
    curvature = (x.square().sum(0) / 0.25).double()
    mean = posterior.mean().double()
    saliency = weight_scores(posterior, "saliency")
    torch.testing.assert_close(saliency, curvature * mean.square() / 2, rtol=0.15, atol=1e-6)
    # the loss itself: L and the prior's term rise by the snr in nats as a weight is set to zero
    noise, prior = 0.25, temperature / 0.3**2

    def loss(w: torch.Tensor) -> torch.Tensor:
        return (y.double() - x.double() @ w).square().sum() / noise / 2 + prior * w.square().sum() / 2

    without = mean.clone()
    without[1] = 0
    rise = loss(without) - loss(mean)
    assert float(weight_scores(posterior, "snr", nats=True)[1]) == pytest.approx(float(rise), rel=0.15)


def test_saliency_of_a_run_that_stopped_in_its_warm_up_has_the_temperature_of_its_epoch() -> None:
    x, y = rows(200)
    model = rn.BayesianModel(nn.Linear(6, 1, bias=False), rn.priors.Gaussian(0.3), GaussianLikelihood(noise=0.5))
    posterior = rn.fit(
        model, (x, y), CAVI(warm_up=1.0, schedule="constant"), epochs=200, standardize=False, verbose=False
    )
    half = CAVI(warm_up=1.0).build(model, n=200, steps=400)
    state = posterior.state._replace(step=torch.tensor(200))
    posterior.settings = {**posterior.settings, "epochs": 400, "batches": 1}
    posterior.source = half.source(state)
    mean = posterior.mean().double()
    ratio = weight_scores(posterior, "snr", nats=True) / (mean / posterior.source.deviation().double()).square()
    torch.testing.assert_close(ratio, torch.full_like(ratio, 0.25))


def test_a_ratio_is_kept_exactly_and_biases_stay(fitted: Any) -> None:
    pruned = prune(fitted, ratio=7)
    weights = pruned.sample(3, seed=0)
    named = pruned.named(weights)
    assert sum(int((named[name] != 0).sum()) for name in ("0.weight", "2.weight")) == 3 * 12
    assert bool((named["0.bias"] != 0).all())
    own = fitted.sample(3, seed=0)
    assert torch.equal(weights[weights != 0], own[weights != 0])  # what is left is as it was
    assert pruned.settings["pruned"]["kept"] == 12
    assert prune(fitted, weights=84).settings["pruned"]["kept"] == 84


def test_pruned_posteriors_are_saved_and_loaded(fitted: Any, tmp_path: Any) -> None:
    x, _ = rows(20, seed=5)
    pruned = prune(prune(fitted, ratio=2), ratio=6, by="layer")
    pruned.save(tmp_path)
    again = rn.load(tmp_path, network())
    assert torch.equal(again.predict(x).samples, pruned.predict(x).samples)
    assert again.settings["pruned"]["of"] == 84
    assert repr(again).startswith("Posterior(Pruned, Gaussian likelihood")
    with pytest.raises(CheckpointError, match="does not fit the saved run"):
        rn.load(tmp_path, nn.Linear(6, 1))


def test_auto_stays_within_one_standard_error(fitted: Any) -> None:
    held = rows(150, seed=9)
    pruned = prune(fitted, "auto", validation=held)
    whole, cut = (each.predict(held[0], draws=20).log_prob(held[1]).double() for each in (fitted, pruned))
    assert float(cut.mean()) >= float(whole.mean() - whole.std() / 150**0.5)
    assert pruned.settings["pruned"]["kept"] < 40  # of 84: the function is a plane of two inputs


def test_curve_and_its_figure(fitted: Any) -> None:
    held = rows(100, seed=9)
    curve = pruning_curve(fitted, held, [1, 2, 4, 84, 500])
    assert curve.weights == (84, 42, 21, 2)  # each layer keeps its best
    assert curve.standings[0].log_density > curve.standings[-1].log_density
    ax = curve.plot()
    assert ax.get_xscale() == "log"
    assert list(curve.table().index) == [84, 42, 21, 2]
    assert "rmse" in str(curve)
    assert "<table>" in curve._repr_html_()


def test_a_layer_keeps_its_best_weight_and_says_so(fitted: Any) -> None:
    with pytest.warns(PruningWarning, match=r"0.weight would have lost all 72 weights and keeps its best"):
        pruned = prune(fitted, weights=1)
    assert pruned.settings["pruned"]["kept"] == 2


def test_convolutions_and_normalisation() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 1, 6, 6, generator=generator), torch.randint(0, 3, (60,), generator=generator)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    model = rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical(), norm=rn.priors.Gaussian())
    posterior = rn.fit(model, (x, y), epochs=2, verbose=False)
    pruned = prune(posterior, ratio=6, score="magnitude")
    named = pruned.named(pruned.sample(1))
    assert int((named["0.weight"] != 0).sum() + (named["4.weight"] != 0).sum()) == 38
    assert bool((named["1.weight"] != 0).all())


def test_stored_draws_have_an_snr_and_no_nats() -> None:
    x, y = rows(60)
    model = rn.BayesianModel(nn.Linear(6, 1), rn.priors.Gaussian())
    posterior = rn.fit(model, (x, y), "lineargibbs", epochs=400, verbose=False)
    pruned = prune(posterior, weights=2)
    assert set(torch.nonzero(pruned.mean()[:6]).reshape(-1).tolist()) == {0, 1}
    assert pruned.source.available == posterior.source.available
    with pytest.raises(ParameterError, match="needs a mean-field posterior"):
        prune(posterior, threshold=0.5)
    with pytest.raises(ParameterError, match="posterior holds draws, from which no training goes on: fit the model by"):
        rn.shrinkage.compress(posterior, (x, y), 3, cut="weights")
    point = rn.fit(rn.BayesianModel(nn.Linear(6, 1), rn.priors.Gaussian()), (x, y), "map", epochs=5, verbose=False)
    assert int((prune(point, weights=2, score="magnitude").mean()[:6] != 0).sum()) == 2
    with pytest.raises(ParameterError, match="use score='magnitude'"):
        prune(point, weights=2)


@pytest.mark.parametrize("method", [CAVI(start="net", lr=0.02), MAP(start="net", lr=0.02)])
def test_training_holds_zeros_and_resumes(fitted: Any, method: Any, tmp_path: Any) -> None:
    net = network()
    net.load_state_dict(prune(fitted, ratio=6).state_dict())
    model = rn.BayesianModel(net, rn.priors.GeneralizedDoublePareto() if isinstance(method, MAP) else None)
    found = rn.fit(model, rows(100), Pruned(algorithm=method), epochs=5, verbose=False, checkpoint_to=tmp_path)
    zeros = prune(fitted, ratio=6).mean() == 0
    drawn = found.sample(4)
    assert isinstance(found.source, PrunedDraws)
    assert bool((drawn[:, zeros] == 0).all())
    assert bool((drawn[:, ~zeros] != 0).all())
    again = rn.load(tmp_path, network())  # any network of the architecture: the mask is in the file
    assert torch.equal(again.sample(2, seed=1), found.sample(2, seed=1))
    same = rn.fit(model, rows(100), Pruned(algorithm=method), epochs=5, verbose=False, resume=tmp_path)
    assert torch.equal(same.mean(), found.mean())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, "needs one of 'auto', ratio, weights and threshold, and has none: give ratio=10, say"),
        ({"ratio": 0.5}, "ratio=0.5 is out of range: use a number from 1 to 84"),
        ({"ratio": 85}, "ratio=85 is out of range: use a number from 1 to 84"),
        ({"weights": 0}, "weights=0 is out of range: use a whole number from 1"),
        ({"threshold": -1.0}, "threshold=-1.0 is out of range: use a number of nats from 0, say 0.5"),
        ({"how": "auto"}, "how='auto' needs validation rows: give validation=(x, y)"),
        ({"how": "auto", "validation": 0.1}, "validation is a float: give a pair (x, y)"),
        ({"ratio": 2, "by": "unit"}, "by='unit' is out of range: use 'network' or 'layer'"),
        ({"ratio": 2, "score": "size"}, "score='size' is out of range: use one of snr, saliency, magnitude"),
    ],
)
def test_bad_input_is_one_line(fitted: Any, arguments: dict[str, Any], line: str) -> None:
    with pytest.raises((ParameterError, DataError)) as caught:
        prune(fitted, **arguments)
    assert str(caught.value) == line


def test_algorithms_that_cannot_hold_zeros_are_refused() -> None:
    model = rn.BayesianModel(network())
    with pytest.raises(ParameterError, match="cannot hold weights at zero"):
        rn.fit(model, rows(20), Pruned(algorithm=rn.inference.SGHMC()), epochs=1000, verbose=False)
