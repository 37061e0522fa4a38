"""By which epoch a run is judged: log density or the ranking of classes."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import metrics
from r2d2net.inference import MAP


def problem(classes, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(120, 3, generator=g)
    logits = torch.cat([x[:, :2], 0 * x[:, :1]], -1)[:, :classes] + torch.randn(120, classes, generator=g)
    return x, logits.argmax(-1)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_epoch_that_is_kept_has_the_largest_auroc(classes):
    x, y = problem(classes)
    likelihood = rn.likelihoods.Categorical() if classes == 3 else rn.likelihoods.Bernoulli()
    model = rn.BayesianModel(nn.Linear(3, 3 if classes == 3 else 1), rn.priors.Gaussian(), likelihood)
    held = (x[:60], y[:60])
    posterior = rn.fit(
        model, (x[60:], y[60:]), MAP(lr=1.0), epochs=12, validation=held, patience=12, score="auroc", verbose=False
    )
    scores = [entry["validation"] for entry in posterior.history]
    predicted = posterior.predict(held[0])
    assert len(set(scores)) > 3
    assert 1 - metrics.macro_auroc(held[1], predicted.probs) == pytest.approx(min(scores), abs=1e-12)


def test_bad_scores_are_refused():
    x, y = problem(3)
    with pytest.raises(rn.ParameterError, match=r"^score='accuracy' is out of range: use 'nll' or 'auroc'"):
        rn.fit(rn.BayesianModel(nn.Linear(3, 3)), (x, y), score="accuracy")
    with pytest.raises(
        rn.ParameterError, match=r"^score='auroc' ranks classes, and the likelihood is Gaussian: use 'nll'$"
    ):
        rn.fit(rn.BayesianModel(nn.Linear(3, 1)), (x, x[:, 0]), score="auroc")


def test_steps_of_one_size_in_every_layer():
    """Adam's first step moves every weight by lr, or by lr times He's deviation."""
    x, y = problem(3)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
    model = rn.BayesianModel(net, rn.priors.Gaussian(), rn.likelihoods.Categorical())
    for unit, expected in (("one", torch.ones(model.size)), ("he", model.he_scale())):
        method = MAP(lr=1e-3, step_unit=unit, schedule="constant", temperature=0.0)
        running = method.build(model, n=120, steps=1)
        state = running.init(y, torch.Generator().manual_seed(0))
        before = state.mean.clone()
        after, _ = running.step(state, (x, y), torch.Generator())
        torch.testing.assert_close((after.mean - before).abs(), 1e-3 * expected, rtol=1e-3, atol=1e-7)
    with pytest.raises(rn.ParameterError, match=r"^lr=None is out of range: step_unit='one' needs one"):
        MAP(step_unit="one")
