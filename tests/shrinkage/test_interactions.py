"""Friedman's H: a product by arithmetic, planted and additive truths under fitted networks, classes and targets."""

import pytest
import torch

import r2d2net as rn
from r2d2net.errors import DataError, ParameterError
from r2d2net.likelihoods import Categorical, Ordinal
from r2d2net.prediction import Classification, Regression
from r2d2net.shrinkage import interactions


def rows(count: int = 60, columns: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(seed))


class Known:
    """A posterior of known functions, one for each draw."""

    def __init__(self, *functions, likelihood=None) -> None:
        self.functions = functions
        net = torch.nn.Linear(4, 1 if likelihood is None or isinstance(likelihood, Ordinal) else 3)
        self.model = rn.BayesianModel(net, likelihood=likelihood)

    def predict(self, x, draws, seed):
        samples = torch.stack([function(x) for function in self.functions])
        if isinstance(self.model.likelihood, Categorical):
            return Classification(torch.softmax(samples, -1))
        if isinstance(self.model.likelihood, Ordinal):
            return self.model.likelihood.predict(samples, {"thresholds": torch.tensor([-1.0, 1.0])}, None)
        return Regression(samples, torch.tensor(1.0))


def test_a_product_is_what_both_inputs_have_beyond_their_sums():
    """f = a b + c at rows: the interaction of a, b is (a - mean a)(b - mean b), of any other pair 0."""
    x = rows()
    found = interactions(Known(lambda t: t[:, 0] * t[:, 1] + t[:, 2]), x, rows=60)
    a, b, f = x[:, 0].double(), x[:, 1].double(), (x[:, 0] * x[:, 1] + x[:, 2]).double()
    beyond = (a - a.mean()) * (b - b.mean())
    share = beyond.var(correction=0) / f.var(correction=0)
    h = (beyond.var(correction=0) / (a * b).var(correction=0)).sqrt()
    assert found.pairs.tolist()[0] == [0, 1]
    assert float(found.share[0]) == pytest.approx(float(share), rel=1e-4)
    assert float(found.h[0]) == pytest.approx(float(h), rel=1e-4)
    assert float(found.share[1:].max()) < 1e-9


def test_intervals_hold_what_other_rows_would_give():
    """f = 2 a + a b of uniform inputs: s = 1/5. Of 200 tables 89% hold it; fewer than 80% is a chance of 1e-4."""
    function, held = Known(lambda t: 2 * t[:, 0] + t[:, 0] * t[:, 1]), 0
    for seed in range(200):
        table = torch.rand(40, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 0.5
        found = interactions(function, 12**0.5 * table, groups=[[0], [1]], seed=seed)
        held += int(found.share_low[0] <= 0.2 <= found.share_high[0])
    assert 160 <= held < 200


def test_an_additive_truth_has_no_interaction_whatever_the_rows():
    found = interactions(Known(lambda t: t[:, 0].exp() + t[:, 1].square() - t[:, 2]), rows(200).double())
    for part in (found.share_low, found.share_high, found.h_low):
        assert float(part.max()) < 1e-12


def test_draws_have_an_interval_and_targets_are_apart():
    functions = [lambda t, w=w: torch.stack([w * t[:, 0] * t[:, 1] + t[:, 2], t.sum(1)], 1) for w in (0.5, 1.0, 2.0)]
    found = interactions(Known(*functions), rows(), level=0.5)
    assert found.share.shape == (6, 2)
    assert float(found.share_low[0, 0]) < float(found.share[0, 0]) < float(found.share_high[0, 0])
    assert float(found.share[:, 1].max()) < 1e-9


@pytest.mark.parametrize("likelihood", [Categorical(), Ordinal(3)], ids=repr)
def test_additive_logits_of_classes_do_not_act_together(likelihood):
    def logits(t):
        slope = t[:, 0] + 2 * t[:, 1].sin()
        return slope[:, None] if isinstance(likelihood, Ordinal) else torch.stack([slope, 0 * slope, -slope], 1)

    def product(t):
        return logits(t) * t[:, 2:3]

    assert float(interactions(Known(logits, likelihood=likelihood), rows()).share.max()) < 1e-6
    found = interactions(Known(product, likelihood=likelihood), rows())
    assert float(found.share[1]) > 0.05
    assert float(found.share[[0, 2]].max()) < 1e-2  # 0, 1 and 0, 3


def test_groups_are_inputs():
    found = interactions(Known(lambda t: t[:, 0] * t[:, 3]), rows(), groups=[[0, 1], [2], [3]])
    assert found.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert int(found.share.argmax()) == 1


def fitted(truth):
    x = rows(400, 4, seed=1)
    y = truth(x) + 0.1 * torch.randn(400, generator=torch.Generator().manual_seed(2))
    net = rn.nets.mlp(4, (12,), 1)
    return rn.fit(rn.BayesianModel(net), (x, y), epochs=300, seed=0, verbose=False), x


def test_a_network_finds_the_planted_pair():
    found = interactions(*fitted(lambda x: x[:, 0] * x[:, 1] + x[:, 2]))
    assert int(found.share.argmax()) == 0
    assert float(found.share_low[0]) > 0.2
    assert float(found.share[1:].max()) < 0.5 * float(found.share[0])


def test_a_network_of_an_additive_truth_has_no_pair():
    found = interactions(*fitted(lambda x: x[:, 0] + x[:, 1].square() + x[:, 2]))
    assert float(found.share_low.max()) < 0.01  # the level of the page


def test_refusals():
    posterior = Known(lambda t: t[:, 0])
    with pytest.raises(DataError, match="x is no table of three rows or more"):
        interactions(posterior, rows(2))
    with pytest.raises(ParameterError, match="groups are of 21 inputs: give the columns of 2 to 20 inputs"):
        interactions(posterior, rows(5, 21))
    with pytest.raises(ParameterError, match="groups"):
        interactions(posterior, rows(), groups=[[0], [7]])
