"""Likelihoods of classes and counts against torch.distributions, and what they say to targets of another kind."""

import pytest
import torch
from torch import distributions

from r2d2net.errors import DataError
from r2d2net.likelihoods import Bernoulli, Categorical, Poisson
from r2d2net.likelihoods.base import Unit

UNIT = Unit(torch.zeros(()), torch.ones(()))


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_categorical():
    logits, y = 3 * normal(6, 4), torch.tensor([0, 1, 2, 3, 3, 0])
    expected = distributions.Categorical(logits=logits).log_prob(y)
    torch.testing.assert_close(Categorical().log_prob(logits, Categorical().target(y), {}), expected)
    samples = Categorical().predict(normal(2, 6, 4), {}, UNIT).samples
    torch.testing.assert_close(samples, distributions.Categorical(logits=normal(2, 6, 4)).probs)


@pytest.mark.parametrize("shape", [(6, 1), (6,)])
def test_bernoulli(shape):
    logit, y = 3 * normal(6, 1), torch.tensor([0, 1, 1, 0, 1, 0])
    expected = distributions.Bernoulli(logits=logit[:, 0]).log_prob(y.double())
    found = Bernoulli().log_prob(logit.reshape(shape), Bernoulli().target(y.bool()), {})
    torch.testing.assert_close(found, expected)
    probs = Bernoulli().predict(torch.tensor([[[-200.0], [0.0]]]), {}, UNIT).samples
    torch.testing.assert_close(probs, torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]))


def test_poisson():
    log_rate, y = normal(6, 2), torch.tensor([[0, 1], [2, 3], [0, 0], [10, 1], [1, 1], [0, 5]])
    expected = distributions.Poisson(log_rate.exp()).log_prob(y.double()).sum(-1)
    torch.testing.assert_close(Poisson().log_prob(log_rate, Poisson().target(y), {}), expected)
    torch.testing.assert_close(Poisson().predict(log_rate[None], {}, UNIT).mean, log_rate.exp())


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (Categorical(), [0.0, 1.5], "y holds 1.5: a categorical likelihood needs whole class numbers"),
        (Categorical(), [0, -1], "y holds -1: a categorical likelihood needs class numbers from 0"),
        (Categorical(), [[0, 1], [1, 0]], r"y has shape \(2, 2\): a categorical likelihood needs \(rows,\)"),
        (Bernoulli(), [0, 2], "y holds 2: a Bernoulli likelihood needs 0 and 1; for classes use Categorical"),
        (Bernoulli(), [0.2, 1.0], "y holds 0.2"),
        (Poisson(), [0, -3], "y holds -3.0: a Poisson likelihood needs counts"),
        (Poisson(), [0.5, 1], "y holds 0.5: a Poisson likelihood needs counts"),
        (Poisson(), [[[1.0]]], "y has shape"),
    ],
)
def test_targets_of_another_kind(likelihood, y, message):
    with pytest.raises(DataError, match=f"^{message}"):
        likelihood.target(torch.tensor(y))


def test_labels_may_be_whole_floats_in_a_column():
    assert Categorical().target(torch.tensor([[2.0], [0.0]])).tolist() == [2, 0]


def test_classes_beyond_the_outputs():
    with pytest.raises(DataError, match=r"^y holds class 3, net gives 3 outputs: classes are 0, ..., 2$"):
        Categorical().require_width(3, torch.tensor([0, 3]))
    Categorical().require_width(4, torch.tensor([0, 3]))
    with pytest.raises(DataError, match="net gives 2 outputs, the likelihood Bernoulli needs 1"):
        Bernoulli().require_width(2, torch.zeros(4, 1))
