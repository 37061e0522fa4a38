"""Ordinal likelihood: scipy, a Gibbs draw that keeps the joint law, planted thresholds, and Categorical on few rows."""

import math

import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net.errors import DataError, ParameterError
from r2d2net.inference import MCLMC, SVGI
from r2d2net.likelihoods import Categorical, Ordinal
from r2d2net.likelihoods.base import Unit
from r2d2net.likelihoods.ordinal import MEAN_GAP

UNIT = Unit(torch.zeros(()), torch.ones(()))
PLANTED = torch.tensor([-2.0, -0.5, 1.0, 3.0], dtype=torch.float64)


def simulated(rows, thresholds, slope, seed, inputs=1):
    """Rows of a cumulative logit model whose first input has a slope."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inputs, generator=draw, dtype=torch.float64)
    latent = slope * x[:, 0] + torch.logit(torch.rand(rows, generator=draw, dtype=torch.float64))
    return x.float(), (latent.unsqueeze(1) > thresholds).sum(1)


@pytest.mark.parametrize("shift", [0.0, 30.0, -30.0])
def test_log_probabilities_by_scipy(shift):
    f = torch.linspace(-4, 4, 9, dtype=torch.float64).unsqueeze(1) + shift
    for label in range(5):
        found = Ordinal(5).log_prob(f, torch.full((9,), label), {"thresholds": PLANTED})
        ends = [-math.inf, *PLANTED.tolist(), math.inf]
        expected = []
        for at in f.flatten().tolist():
            law, ahead = stats.logistic(at), label > 0 and ends[label] > at  # in the upper tail sf has the digits
            first, last = (law.sf(end) for end in ends[label : label + 2])
            low, high = (law.cdf(end) for end in ends[label : label + 2])
            expected.append(first - last if ahead else high - low)
        torch.testing.assert_close(found.exp(), torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


def test_probabilities_add_up_and_follow_the_draws_of_thresholds():
    outputs = torch.tensor([[[0.0], [2.0]], [[-1.0], [50.0]]], dtype=torch.float64)
    own = {"thresholds": torch.stack([PLANTED, PLANTED + 1])}
    probs = Ordinal(5).predict(outputs, own, UNIT).samples
    assert probs.shape == (2, 2, 5)
    torch.testing.assert_close(probs.sum(-1), torch.ones(2, 2, dtype=torch.float64))
    alone = Ordinal(5).predict(outputs[1:], {"thresholds": PLANTED + 1}, UNIT).samples
    torch.testing.assert_close(probs[1:], alone)


def test_thresholds_begin_at_the_best_constant():
    y = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)
    noise = Ordinal(3).init(y)
    found = Ordinal(3).predict(torch.zeros(1, 1, 1), noise, UNIT).probs[0]
    torch.testing.assert_close(found, torch.tensor([0.5, 0.3, 0.2]), atol=5e-3, rtol=0)


def test_gibbs_keeps_the_joint_law():
    """Thresholds from their prior, classes given them, then updates: thresholds have their prior still."""
    draw, likelihood = torch.Generator().manual_seed(0), Ordinal(5)
    before, after = [], []
    for _ in range(400):
        gaps = -MEAN_GAP * torch.log1p(-torch.rand(3, generator=draw, dtype=torch.float64))
        steps = torch.cat([torch.zeros(1, dtype=torch.float64), gaps]).cumsum(0)
        thresholds = steps - steps[likelihood.anchor]
        f = 3 * torch.randn(12, 1, generator=draw, dtype=torch.float64)
        latent = f + torch.logit(torch.rand(12, 1, generator=draw, dtype=torch.float64))
        noise = {"thresholds": thresholds}
        for _ in range(3):
            noise = likelihood.gibbs(f, (latent > thresholds).sum(1), noise, draw)
        before.append(thresholds.diff())
        after.append(noise["thresholds"].diff())
        assert float(noise["thresholds"][likelihood.anchor]) == 0.0
    before, after = torch.stack(before), torch.stack(after)
    for k in range(3):
        assert stats.kstest(after[:, k], stats.expon(scale=MEAN_GAP).cdf).pvalue > 1e-4  # false alarm 3e-4 of all
    assert float((after != before).double().mean()) > 0.99


def test_a_weight_is_a_power_of_the_likelihood():
    """Half the weight of each row twice is the law of the rows."""
    f, y = torch.randn(40, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.arange(40) % 4
    noise = {name: value.double() for name, value in Ordinal(4).init(y).items()}
    means = []
    for rows, weight in ((1, 1.0), (2, 0.5)):
        draw, now, drawn = torch.Generator().manual_seed(2), noise, []
        for _ in range(1500):
            now = Ordinal(4).gibbs(f.repeat(rows, 1), y.repeat(rows), now, draw, weight)
            drawn.append(now["thresholds"])
        means.append(torch.stack(drawn).mean(0))
    torch.testing.assert_close(means[0], means[1], atol=0.1, rtol=0)  # deviations about .35, of means .02


def test_variational_steps_find_the_thresholds():
    likelihood = Ordinal(5)
    x, y = simulated(6000, PLANTED, 2.0, seed=3)
    noise = likelihood.init(y[:64])
    shift = float(noise["thresholds"][likelihood.anchor]) - float(PLANTED[likelihood.anchor])  # what a bias would learn
    for t in range(1, 1200):
        rows = torch.arange(64 * t, 64 * t + 64) % 6000
        noise = likelihood.observe(2 * x[rows] + shift, y[rows], noise, max(0.02, 1 / t))
    torch.testing.assert_close(noise["thresholds"].double() - shift, PLANTED, atol=0.2, rtol=0)


@pytest.mark.parametrize("method", [MCLMC(), SVGI()], ids=repr)
def test_thresholds_and_slope_are_recovered(method):
    x, y = simulated(2000, PLANTED, 1.5, seed=0)
    model = rn.BayesianModel(torch.nn.Linear(1, 1), rn.priors.Gaussian(), Ordinal(5))
    posterior = rn.fit(model, (x, y), method, epochs=None if isinstance(method, MCLMC) else 60, seed=0, verbose=False)
    at = torch.linspace(-2, 2, 9).unsqueeze(1)
    ends = Ordinal(5).predict(1.5 * at.double()[None], {"thresholds": PLANTED}, UNIT).probs
    torch.testing.assert_close(posterior.predict(at, 100).probs.double(), ends, atol=0.06, rtol=0)
    drawn = torch.stack([draw.noise["thresholds"][0] for draw in posterior.source.draws(50, at_once=1)]).double()
    torch.testing.assert_close(drawn.mean(0).diff(), PLANTED.diff(), atol=0.35, rtol=0)


@pytest.mark.slow
def test_few_ordinal_rows_are_predicted_better_than_by_categorical():
    gains = []
    for seed in range(3):
        x, y = simulated(60, PLANTED, 2.0, seed=seed, inputs=3)
        new, truth = simulated(2000, PLANTED, 2.0, seed=100 + seed, inputs=3)
        losses = []
        for likelihood, width in ((Ordinal(5), 1), (Categorical(), 5)):
            model = rn.BayesianModel(torch.nn.Linear(3, width), rn.priors.R2D2(), likelihood)
            posterior = rn.fit(model, (x, y), MCLMC(), epochs=60, seed=seed, verbose=False)
            losses.append(-float(posterior.predict(new, 100).log_prob(truth).mean()))
        gains.append(losses[1] - losses[0])
    assert min(gains) > 0.0
    assert sum(gains) / 3 > 0.03


def test_refusals():
    for classes in (1, True, 2.5, ("low",), ("low", "low"), "low"):
        with pytest.raises(ParameterError, match="classes"):
            Ordinal(classes)
    with pytest.raises(DataError, match="holds class 3: the classes are 0"):
        Ordinal(3).target(torch.tensor([0, 3]))
    with pytest.raises(DataError, match="gives 3 outputs, the likelihood Ordinal needs one"):
        rn.fit(
            rn.BayesianModel(torch.nn.Linear(2, 3), likelihood=Ordinal(3)),
            (torch.zeros(6, 2), torch.arange(6) % 3),
            verbose=False,
        )
