"""Calibration by simulation: an exact posterior passes, planted faults are named with their direction, refusals."""

import copy
import json

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net.diagnostics import simulated_calibration, vsbc
from r2d2net.diagnostics.calibration_ranks import Ranks, calibration_of

TABLES = 80


def one_weight(prior=None, hidden=None, likelihood=None):
    """A model whose posterior is one normal law, so that SVGI is exact once it has converged."""
    net = torch.nn.Linear(1, 1, bias=False) if hidden is None else rn.nets.mlp(2, hidden, 1)
    own = rn.likelihoods.Gaussian(noise=1.0) if likelihood is None else likelihood
    return rn.BayesianModel(net, prior or rn.priors.Gaussian(1.0), own)


FITTED = []  # of the exact posteriors, which faults are planted into


@pytest.fixture(scope="module")
def exact():
    patch, fit = pytest.MonkeyPatch(), simulated_calibration.run_all
    patch.setattr(simulated_calibration, "run_all", lambda *parts: FITTED.append(fit(*parts)) or FITTED[-1])
    found = vsbc(one_weight(), "svgi", rows=20, tables=TABLES, epochs=250, seed=3)
    patch.undo()
    return found


def faulty(monkeypatch, change):
    """Let posteriors draw weights that a fault has changed, given draws and the center."""
    ranks = simulated_calibration._Simulator._ranks

    class Wrong:
        def __init__(self, source):
            self.source, self.available = source, source.available

        def joined(self, count, generator):
            drawn = self.source.joined(count, generator)
            return drawn._replace(weights=change(drawn.weights, self.source.center().weights))

    def wrong(self, posterior, weights, y, number):
        posterior.source = Wrong(posterior.source)
        return ranks(self, posterior, weights, y, number)

    parts = iter([[copy.copy(posterior) for posterior in part] for part in FITTED])
    monkeypatch.setattr(simulated_calibration, "run_all", lambda *arguments: next(parts))
    monkeypatch.setattr(simulated_calibration._Simulator, "_ranks", wrong)
    return vsbc(one_weight(), "svgi", rows=20, tables=TABLES, epochs=250, seed=3)


def test_an_exact_posterior_can_be_trusted(exact):
    """Four verdicts of about eight tests at three standard errors: a false alarm in 5% of seeds."""
    assert exact.verdict == "weights, sizes of weights, predictions and log likelihood can be trusted"
    assert exact.tables == TABLES
    assert exact.failed == 0


@pytest.mark.parametrize(
    ("change", "quantity", "words"),
    [
        (lambda w, c: c + 0.4 * (w - c), "weights", "intervals are too narrow"),
        (lambda w, c: c + 2.5 * (w - c), "weights", "intervals are too wide"),
        (lambda w, c: w + 0.25, "weights", "draws are too large"),
        (lambda w, c: w - 0.25, "predictions", None),
        (lambda w, c: 0.6 * w, "sizes of weights", "draws are too small"),
        (lambda w, c: torch.randn(w.shape, generator=torch.Generator().manual_seed(0)), "log likelihood", "too small"),
    ],
    ids=["sd of 0.4", "sd of 2.5", "shifted up", "shifted down", "shrunk", "prior in place of posterior"],
)
def test_planted_faults_are_named(exact, monkeypatch, change, quantity, words):
    found = faulty(monkeypatch, change)
    assert not found[quantity].is_trusted
    assert words is None or words in found[quantity].verdict
    assert quantity in found.verdict


def test_uniform_ranks_are_trusted():
    """Of 100 sets of uniform ranks more than 12 are off with a chance below 1%, if each is with 5%."""
    rng = np.random.default_rng(0)
    assert sum(not Ranks("any", rng.uniform(size=(60, 4))).is_trusted for _ in range(100)) <= 12


def test_symmetric_but_narrow_is_told_from_biased():
    rng = np.random.default_rng(1)
    narrow = Ranks("any", rng.beta(0.4, 0.4, size=(200, 1)))
    biased = Ranks("any", rng.beta(1, 2, size=(200, 1)))
    assert narrow.uniform < 0.01 < narrow.symmetric
    assert biased.symmetric < 0.01
    assert biased.verdict.startswith("draws are too large")


def test_few_tables_prove_nothing():
    rng = np.random.default_rng(2)
    ranks = {"weights": torch.from_numpy(rng.uniform(size=(12, 2)))}
    found = calibration_of(ranks, "SVGI", "Gaussian")
    assert found["weights"].verdict == "nothing wrong seen, of few tables"


def test_a_network_of_classes_and_what_is_shown(exact):
    model = rn.BayesianModel(torch.nn.Linear(2, 2), rn.priors.Horseshoe(), rn.likelihoods.Categorical())
    found = vsbc(model, "cavi", torch.randn(15, 2), tables=6, epochs=5)
    assert found["predictions"].ranks.shape == (6, 10)
    assert found["weights"].ranks.shape == (6, 6)
    rows = json.loads(json.dumps(exact.plain()))
    assert [row["quantity"] for row in rows] == ["weights", "sizes of weights", "predictions", "log likelihood"]
    assert sum(rows[0]["histogram"]) == TABLES
    assert "90% holds" in str(exact)
    assert "SVGI, Gaussian, 80 tables" in exact._repr_html_()
    pytest.importorskip("matplotlib").use("Agg")
    assert len(exact.plot().axes) == 4


def test_the_same_seed_gives_the_same_ranks():
    once, again = (vsbc(one_weight(), rows=8, tables=5, epochs=4, seed=7) for _ in range(2))
    assert np.array_equal(once["weights"].ranks, again["weights"].ranks)


def test_what_cannot_be_simulated_is_refused():
    for learnt in (rn.likelihoods.Gaussian(), rn.likelihoods.LogNormal(), rn.likelihoods.Gamma()):
        with pytest.raises(rn.ParameterError, match=r"^noise=None is learnt, and has no prior to draw it from: "):
            vsbc(one_weight(likelihood=learnt))
    with pytest.raises(rn.ParameterError, match="has one network"):
        vsbc(one_weight(), "map", rows=8, tables=5, epochs=4)
    with pytest.raises(rn.DataError, match="above nearly all targets"):
        vsbc(one_weight(rn.priors.Gaussian(1e6)), tables=5, epochs=4)
    with pytest.raises(rn.ParameterError, match="tables"):
        vsbc(one_weight(), tables=2)
    with pytest.raises(rn.ParameterError, match="BayesianModel"):
        vsbc(torch.nn.Linear(1, 1))
    with pytest.raises(rn.DataError, match="fewer than 2 rows"):
        vsbc(one_weight(), x=torch.ones(1, 1))
