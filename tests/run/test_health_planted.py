"""Planted faults: the health of a posterior flags all of twenty, and at most one of twenty sound posteriors."""

import warnings
from functools import cache

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import CAVI
from r2d2net.run.health import look_at
from r2d2net.run.prepare import prepare

ROWS, COLUMNS = 200, 5
PRIORS = {
    "r2d2": rn.priors.R2D2(),
    "gaussian": rn.priors.Gaussian(),
    "horseshoe": rn.priors.Horseshoe(),
    "adaptive": rn.priors.R2D2.adaptive(),
}


def table(kind, seed=7):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, COLUMNS, generator=g)
    truth = x[:, 0] - 0.5 * x[:, 1] if kind == "linear" else torch.sin(1.5 * x[:, 0]) + x[:, 1]
    return x, 10 + 3 * truth + torch.randn(ROWS, generator=g)


def model_of(kind, prior):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Linear(COLUMNS, 1)
        if kind == "network":
            net = nn.Sequential(nn.Linear(COLUMNS, 10), nn.Tanh(), nn.Linear(10, 1))
    return rn.BayesianModel(net, PRIORS[prior])


@cache
def fitted(kind, prior, algorithm, epochs=100, seed=7):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rn.fit(model_of(kind, prior), table(kind, seed), algorithm, epochs=epochs, jobs=1, verbose=False)


def looked_at(kind, source, history=()):
    return look_at(source, prepare(source.model, table(kind), None, 0, None, None, True), history)


# --- faults, by the posterior they are planted in


def spread_by(factor):
    def plant(kind):
        source = fitted(kind, "r2d2", "cavi").source
        state, log = source.state, 2 * torch.tensor(factor).log()
        return source.with_state(state._replace(rho=state.rho - log, precision=state.precision / factor**2))

    return plant


def shifted(kind):
    source = fitted(kind, "r2d2", "cavi").source
    signs = torch.randint(2, source.state.mean.shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return source.with_state(source.state._replace(mean=source.state.mean + 2 * signs * source.deviation()))


def collapsed(kind):
    source = fitted(kind, "r2d2", "cavi").source
    state = source.state
    return source.with_state(state._replace(mean=0 * state.mean, rho=0 * state.rho + 20))


def noise_by(factor):
    def plant(kind):
        return fitted(kind, "r2d2", "cavi").source.with_noise_factor(factor)

    return plant


def stopped(kind):
    return fitted(kind, "r2d2", "cavi", epochs=2).source


def tempered(temperature):
    def plant(kind):
        return fitted(kind, "r2d2", CAVI(temperature=temperature)).source

    return plant


def not_mixed(kind):
    if kind == "network":
        return fitted(kind, "r2d2", "sgld").source
    source = fitted(kind, "gaussian", "lineargibbs", epochs=100).source
    weights = source.state.weights
    chain = torch.linspace(-1.5, 1.5, len(weights))[:, None, None] * weights.std((0, 1))
    return source.with_state(source.state._replace(weights=weights + chain))


FAULTS = {
    "sd halved": spread_by(0.5),
    "sd doubled": spread_by(2.0),
    "mean shifted": shifted,
    "collapsed": collapsed,
    "noise times 4": noise_by(4.0),
    "noise by 4": noise_by(0.25),
    "early stopped": stopped,
    "temperature 0.1": tempered(0.1),
    "temperature 10": tempered(10.0),
    "chains not mixed": not_mixed,
}


def test_chains_of_a_network_that_disagree_are_flagged_and_honest_ones_are_not():
    """Four chains in modes of their own are a sound mixture, but not once they are three deviations of y apart."""
    posterior = fitted("network", "r2d2", "mclmc", None)
    assert not posterior.health["flags"], posterior.health["line"]
    source = posterior.source
    weights = source.state.weights.clone()
    bias = next(slot for slot in source.model.bayesian if slot.name == "2.bias")
    bias.of(weights).add_(torch.linspace(-1.5, 1.5, len(weights))[:, None, None])
    found = looked_at("network", source.with_state(source.state._replace(weights=weights)))
    assert found["chain_share"] > 0.5
    assert any("chains have not mixed" in flag for flag in found["flags"])


def test_chains_of_small_networks_are_seldom_flagged():
    """Six ordinary tables by what "auto" chooses; at most one."""
    flagged = []
    for seed in range(6):
        g = torch.Generator().manual_seed(100 + seed)
        x = torch.randn(80 + 30 * seed, 3 + seed % 3, generator=g)
        y = (
            torch.sin((1 + seed % 3) * x[:, 0])
            + x[:, 1] * x[:, 2]
            + (0.2 + 0.2 * seed) * torch.randn(len(x), generator=g)
        )
        model = rn.BayesianModel(rn.nets.mlp(x.shape[1], [10], 1), PRIORS["r2d2"])
        found = rn.fit(model, (x, y), "auto", seed=seed, jobs=1, verbose=False).health
        flagged += [found["line"]] if found["flags"] else []
    assert len(flagged) <= 1, flagged


@pytest.mark.parametrize("kind", ["linear", "network"])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_flagged(kind, fault):
    health = looked_at(kind, FAULTS[fault](kind))
    assert health["flags"], health["line"]
    assert health["line"].startswith("health: WARNING, ")


def test_the_flags_name_the_fault():
    expected = {
        "sd halved": "too narrow",
        "sd doubled": "too wide",
        "mean shifted": "means are",
        "collapsed": "collapsed to a constant",
        "noise times 4": "noise is too large",
        "noise by 4": "noise is too small",
        "chains not mixed": "chains have not mixed",
    }
    for fault, words in expected.items():
        assert any(words in flag for flag in looked_at("linear", FAULTS[fault]("linear"))["flags"]), fault


def sound(kind, prior, algorithm, seed=7):
    return fitted(kind, prior, algorithm, 100 if algorithm in ("svgi", "cavi") else None, seed).health


def test_sound_posteriors_are_not_flagged():
    """The first of the twenty below, which take no sampler."""
    for kind in ("linear", "network"):
        for prior in ("r2d2", "gaussian"):
            health = sound(kind, prior, "cavi")
            assert not health["flags"], health["line"]


SOUND = [(k, p, a) for k in ("linear", "network") for p in PRIORS for a in ("svgi", "cavi")] + [
    ("linear", p, a) for p in ("r2d2", "gaussian") for a in ("lineargibbs", "mclmc")
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8, 9])
def test_at_most_one_of_twenty_sound_posteriors_is_flagged(seed):
    flagged = [(case, health["line"]) for case in SOUND if (health := sound(*case, seed))["flags"]]
    assert len(SOUND) == 20
    assert len(flagged) <= 1, flagged
