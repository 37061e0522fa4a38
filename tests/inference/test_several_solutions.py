"""Ensembles, chains and cycles as their users meet them: what several solutions can and cannot do together."""

import numpy as np
import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import DPN, EDL, HMC, MAP, SGHMC, SGLD, DeepEnsemble


def truth(x):
    return torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def problem():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=g)
    y = truth(x) + 0.3 * torch.randn(200, generator=g)
    return x, y, torch.randn(500, 3, generator=g)


def model(prior=None):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 1))
    return rn.BayesianModel(net, rn.priors.Gaussian() if prior is None else prior)


def fitted(method, **options):
    x, y, _ = problem()
    return rn.fit(model(), (x, y), method, **{"epochs": 40, "verbose": False, "jobs": 1, **options})


@pytest.mark.parametrize("prior", [rn.priors.Gaussian(), rn.priors.R2D2()], ids=["gauss", "r2d2"])
@pytest.mark.parametrize("method", [SGLD, SGHMC])
def test_short_cycles_do_not_blow_up(method, prior) -> None:
    """Cycles of 100 steps; with coefficients refreshed every 8 steps errors were 1 to 40, sd(f) is 1.25."""
    x, y, x_test = problem()
    errors = []
    for seed in range(3):
        posterior = rn.fit(model(prior), (x, y), method(cycles=4), epochs=400, seed=seed, verbose=False)
        errors.append(float((posterior.predict(x_test).mean - truth(x_test)).square().mean().sqrt()))
    assert max(errors) < 0.9, errors


def test_members_may_stop_at_different_epochs() -> None:
    posterior = fitted(DeepEnsemble(members=3), epochs=60, batch_size=20, validation=0.2, patience=3)
    assert posterior.state.weights.shape[0] == 3
    assert {"nll", "validation"} <= posterior.history[-1].keys()


def test_input_relevance_takes_what_draws_there_are() -> None:
    x, _, _ = problem()
    found = rn.shrinkage.input_relevance(fitted(DeepEnsemble(members=3)), x)
    assert found.mean.shape == (3,)


@pytest.mark.parametrize("method", [DeepEnsemble(members=2), SGHMC(chains=2), SGHMC(cycles=2)])
def test_the_mean_of_several_solutions_is_no_network(method) -> None:
    posterior = fitted(method)
    for call in (posterior.mean, posterior.state_dict, lambda: posterior.predict(problem()[2], "mean")):
        with pytest.raises(rn.ParameterError, match=r"^the mean weights of several solutions .* are no network"):
            call()
    drawn = posterior.sample(1, seed=0)[0]
    assert torch.equal(posterior.state_dict(drawn)["0.weight"].flatten(), drawn[:30])
    assert fitted(SGHMC()).mean().shape == drawn.shape
    x, y, _ = problem()
    line = rn.BayesianModel(nn.Linear(3, 1), rn.priors.Gaussian())
    chains = rn.fit(line, (x, y), SGHMC(chains=2), epochs=20, verbose=False, jobs=1)
    assert chains.mean().shape == (4,)  # of a linear model the mean is one


def test_members_that_would_be_equal_are_refused() -> None:
    with pytest.raises(rn.ParameterError, match=r"^start='net' with all rows in one batch trains equal members"):
        fitted(DeepEnsemble(members=2, start="net"), batch_size=200)
    members = fitted(DeepEnsemble(members=2, start="net"), batch_size=50).state.weights[:, 0]
    assert float((members[0] - members[1]).abs().max()) > 1e-3


def test_numpy_numbers_are_numbers(tmp_path) -> None:
    posterior = fitted(MAP(lr=np.float32(0.1), sweep_every=np.int64(4)), epochs=np.int64(2))
    posterior.save(tmp_path)
    assert posterior.settings["algorithm"]["arguments"]["lr"] == float(np.float32(0.1))
    assert posterior.predict(problem()[2], np.int64(5)).mean.shape == (500,)
    assert HMC(chains=np.int64(2)).chains == 2
    with pytest.raises(rn.ParameterError, match=r"^draws=True is out of range"):
        posterior.predict(problem()[2], True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SGLD(temperature="x"), "temperature='x' is out of range: use 0 or a positive number"),
        (lambda: EDL(penalty="x"), "penalty='x' is out of range: use 0 or a positive number"),
        (lambda: EDL(rise=2), "rise=2 is out of range: use a share of the steps"),
        (lambda: DPN(smoothing=None), "smoothing=None is out of range: use a share between 0 and 1"),
        (
            lambda: fitted(SGLD(cycles=20), epochs=10),
            "cycles=20 of 10 steps: a cycle needs two or more",
        ),
        (lambda: fitted(HMC(burn_in=0.01), epochs=10), "burn_in=0.01 of 10 transitions leaves none to learn"),
    ],
)
def test_bad_settings_are_one_line(call, words) -> None:
    with pytest.raises(rn.ParameterError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
