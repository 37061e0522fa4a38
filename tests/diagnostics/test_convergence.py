"""R-hat and effective sample sizes of chains whose truth is known, and of stored draws."""

import math
import sys

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.diagnostics import diagnose, of_predictions, of_weights
from r2d2net.inference.collection import Collection, CollectionState
from r2d2net.network_inputs import no_units
from r2d2net.posterior import Posterior


def autoregressive(chains, draws, quantities, memory, seed=0):
    """x_t = memory x_{t-1} + noise, stationary with variance 1."""
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(chains, draws, quantities, generator=g, dtype=torch.float64)
    x = noise.clone()
    for t in range(1, draws):
        x[:, t] = memory * x[:, t - 1] + math.sqrt(1 - memory**2) * noise[:, t]
    return x


def test_independent_draws_count_fully():
    found = diagnose(autoregressive(4, 1000, 20, 0.0))
    assert found.rhat.shape == (20,)
    assert found.worst_rhat < 1.01
    assert found.ess_bulk.mean().item() == pytest.approx(4000, rel=0.05)


def test_correlated_draws_count_by_their_integrated_time():
    """An autoregression of memory r is worth (1 - r) / (1 + r) of its draws: a third at r = 1/2.

    The estimate's own deviation over 20 quantities is 2%; five of them.
    """
    found = diagnose(autoregressive(4, 2000, 20, 0.5))
    assert found.ess_bulk.mean().item() == pytest.approx(8000 / 3, rel=0.1)
    assert found.mcse.mean().item() == pytest.approx(math.sqrt(3 / 8000), rel=0.1)


def test_chains_that_disagree_are_seen():
    draws = autoregressive(4, 500, 3, 0.0)
    draws[0, :, 1] += 2.0
    found = diagnose(draws)
    assert float(found.rhat[1]) > 1.2
    assert max(float(found.rhat[0]), float(found.rhat[2])) < 1.02
    assert found.worst_rhat == float(found.rhat[1])
    assert found.least_ess == float(torch.minimum(found.ess_bulk, found.ess_tail)[1])


def test_what_does_not_vary_is_no_alarm():
    draws = autoregressive(2, 50, 2, 0.0)
    draws[..., 0] = 1.0
    found = diagnose(draws)
    assert math.isnan(float(found.rhat[0]))
    assert found.worst_rhat == float(found.rhat[1])


def linear(seed, size=2000, shift=0.0, divergences=0):
    """A linear network whose stored draws are independent normals."""
    model = rn.BayesianModel(nn.Linear(2, 1, bias=False), likelihood=rn.likelihoods.Gaussian(noise=1.0))
    weights = torch.randn(1, size, 2, generator=torch.Generator().manual_seed(seed)) + shift
    noise, diverged = {"variance": torch.ones(1, size, 1)}, torch.tensor([divergences])
    state = CollectionState(torch.tensor(size), weights, torch.zeros(1, size, 0), {}, noise, diverged)
    return Posterior(Collection(model, state), no_units(torch.zeros(())), flat_target=True)


def test_stored_draws_chain_by_chain():
    x = torch.eye(2)
    alike, apart = [linear(0), linear(1)], [linear(0), linear(1, shift=3.0)]
    assert of_weights(alike).worst_rhat < 1.01
    assert of_weights(apart).worst_rhat > 1.5
    # at unit inputs the predictions are the weights
    torch.testing.assert_close(of_predictions(apart, x).rhat, of_weights(apart).rhat)
    assert of_weights(alike, most=1).rhat.shape == (1,)
    assert of_predictions(alike[0], x).least_ess > 1000


def test_a_single_chain_that_drifts_is_told():
    """Its halves are compared; independent draws are within 1.01 (at this seed, of 2,000 draws)."""
    steady = autoregressive(1, 2000, 2, 0.0)
    drifting = steady + torch.linspace(0, 4, 2000)[None, :, None]
    assert diagnose(steady).worst_rhat < 1.01
    assert diagnose(drifting).worst_rhat > 1.5


def test_chains_predict_in_their_own_units():
    x = torch.eye(2)
    far = linear(1)
    far.units = far.units._replace(y=far.units.y._replace(center=far.units.y.center + 100.0))
    assert of_predictions([linear(0), far], x).worst_rhat > 1.5


def test_divergences_of_all_chains_are_counted():
    chains = [linear(0, divergences=2), linear(1, divergences=3)]
    assert (of_weights(chains).divergences, of_predictions(chains, torch.eye(2)).divergences) == (5, 5)


def test_long_steps_in_a_funnel_diverge():
    """Weights and scales of a horseshoe together: its neck is narrow. 33 at this seed; none with target_accept=.99."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(30, 3, generator=g, dtype=torch.float64)
    y = x[:, 0] + torch.randn(30, generator=g, dtype=torch.float64)
    model = rn.BayesianModel(nn.Linear(3, 1, dtype=torch.float64), rn.priors.Horseshoe())
    method = rn.inference.HMC(chains=2, scales="joint", target_accept=0.3, max_tree_depth=6)
    posterior = rn.fit(model, (x, y), method, epochs=60, seed=0, verbose=False, jobs=1)
    assert len(posterior.state.divergences) == 2
    assert of_weights(posterior).divergences > 5


def test_what_has_no_chain_is_refused():
    x = torch.randn(20, 2)
    variational = rn.fit(rn.BayesianModel(nn.Linear(2, 1)), (x, x[:, 0]), epochs=1, verbose=False)
    with pytest.raises(rn.ParameterError, match=r"^SVGI has no chain of draws: R-hat and ESS are for the chains of"):
        of_weights(variational)
    model = rn.BayesianModel(nn.Linear(2, 1), rn.priors.Gaussian())
    ensemble = rn.fit(model, (x, x[:, 0]), rn.inference.DeepEnsemble(members=2), epochs=1, jobs=1, verbose=False)
    with pytest.raises(rn.ParameterError, match=r"^DeepEnsemble has no chain of draws"):
        of_weights(ensemble)
    with pytest.raises(rn.ParameterError, match=r"^draws has shape \(1, 3, 2\): .* 4 draws or more"):
        of_weights(linear(0, size=3))
    with pytest.raises(rn.ParameterError, match=r"^posterior=\[\] is out of range"):
        of_weights([])


def test_without_arviz_there_is_a_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    with pytest.raises(rn.ParameterError, match=r"^R-hat and ESS need arviz-stats: pip install 'r2d2net\[mcmc\]'$"):
        of_weights(linear(0))
