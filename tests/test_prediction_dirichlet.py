"""Every summary of a Dirichlet prediction against draws of the Dirichlet law, or a case that can be solved by hand."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Dirichlet

from r2d2net import metrics
from r2d2net.errors import DataError
from r2d2net.prediction import Classification, DirichletClassification

DRAWS = 50_000
CASES = {
    "one network": [[[0.3, 0.3, 0.3, 0.3], [1, 1, 1, 1], [40, 1, 1, 1], [900, 30, 30, 40], [0.5, 7, 2, 2e3]]],
    "a mixture": [[[5, 1, 1, 1], [0.2, 0.1, 3, 2]], [[1, 50, 2, 1], [1, 1, 1, 1]], [[1, 1, 9, 3], [20, 30, 1, 500]]],
}


def prediction(case: str, dtype: torch.dtype = torch.float64) -> DirichletClassification:
    return DirichletClassification(torch.tensor(CASES[case], dtype=dtype))


def probabilities(predicted: DirichletClassification) -> torch.Tensor:
    """Draws of the class probabilities, (DRAWS, draws of the weights, rows, classes)."""
    a = predicted.concentration.numpy()
    gamma = np.random.default_rng(0).standard_gamma(a, (DRAWS, *a.shape))
    return torch.from_numpy(gamma / gamma.sum(-1, keepdims=True))


@pytest.mark.parametrize("case", CASES)
def test_uncertainties_are_those_of_the_law_of_the_probabilities(case):
    """Means over draws lie within 5 standard errors: false alarms below 1e-5 for all 40 comparisons together."""
    predicted = prediction(case)
    p = probabilities(predicted)
    networks = p.shape[1]

    entropy = torch.special.entr(p).sum(-1)  # (DRAWS, networks, rows)
    error = entropy.std(0).square().mean(0).div(networks * DRAWS).sqrt()
    assert ((predicted.aleatoric - entropy.mean((0, 1))).abs() < 5 * error).all()
    information = torch.special.entr(predicted.probs).sum(-1) - entropy.mean((0, 1))
    assert ((predicted.mutual_information - information).abs() < 5 * error).all()
    torch.testing.assert_close(predicted.epistemic, predicted.mutual_information)

    flat = p.flatten(0, 1)
    mean_error = flat.std(0) / math.sqrt(len(flat))
    assert ((predicted.probs - flat.mean(0)).abs() < 5 * mean_error).all()
    square = (flat - flat.mean(0)).square()
    assert ((predicted.std.square() - square.mean(0)).abs() < 5 * square.std(0) / math.sqrt(len(flat))).all()


@pytest.mark.parametrize("case", CASES)
def test_differential_entropy_is_that_of_torch(case):
    predicted = prediction(case)
    expected = Dirichlet(predicted.concentration).entropy().mean(0)
    torch.testing.assert_close(predicted.differential_entropy, expected)


def test_strength_and_vacuity_of_a_mixture():
    predicted = prediction("a mixture")
    torch.testing.assert_close(predicted.strength, torch.tensor([8 + 54 + 14, 5.3 + 4 + 551]).double() / 3)
    expected = torch.tensor([4 / 8 + 4 / 54 + 4 / 14, 4 / 5.3 + 4 / 4 + 4 / 551]).double() / 3
    torch.testing.assert_close(predicted.vacuity, expected)


def test_limits():
    uniform = DirichletClassification(torch.ones(1, 1, 5, dtype=torch.float64))
    assert float(uniform.vacuity) == 1
    assert float(uniform.differential_entropy) == pytest.approx(-math.log(math.factorial(4)))
    # certain probabilities: what `Classification` says of the means
    mean = torch.tensor([[[0.7, 0.2, 0.1]], [[0.1, 0.3, 0.6]]], dtype=torch.float64)
    certain, plain = DirichletClassification(1e12 * mean), Classification(mean)
    for name in ("probs", "entropy", "aleatoric", "mutual_information", "std", "max_prob"):
        torch.testing.assert_close(getattr(certain, name), getattr(plain, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", [1e-30, 1e-4, 1.0, 2e4, 1e9, 1e30])
def test_single_precision_keeps_its_digits(value):
    row = [[[value, 1.0, 3.0], [value, value, value], [value, 2 * value, 1.0]]]
    single, double = (
        DirichletClassification(torch.tensor(row, dtype=dtype)) for dtype in (torch.float32, torch.float64)
    )
    for name in ("probs", "entropy", "aleatoric", "mutual_information", "std", "strength", "vacuity"):
        found = getattr(single, name)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), getattr(double, name), rtol=1e-5, atol=1e-6)
    assert single.differential_entropy.isfinite().all()


def test_it_is_a_classification():
    """What reads probabilities alone reads their means."""
    predicted, y = prediction("a mixture", torch.float32), torch.tensor([0, 2])
    assert isinstance(predicted, Classification)
    plain = Classification(predicted.samples)
    torch.testing.assert_close(predicted.log_prob(y), predicted.probs[[0, 1], y].log())
    assert metrics.nll(y, predicted) == metrics.nll(y, plain)
    assert metrics.accuracy(y, predicted.probs) == metrics.accuracy(y, plain.probs)
    assert predicted.label.tolist() == plain.label.tolist()
    with pytest.raises(DataError, match=r"^y holds a class outside 0, ..., 3$"):
        predicted.log_prob(torch.tensor([0, 4]))
