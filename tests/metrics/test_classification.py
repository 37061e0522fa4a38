"""Measures of predicted classes against counts by hand."""

import math

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net import metrics
from r2d2net.prediction import Classification

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(4), 60)
Y = np.array([RNG.choice(4, p=p) for p in PROBS])
SAMPLES = RNG.dirichlet(np.ones(3), (5, 8))


def brute_f1(y, guess):
    values = []
    for k in sorted({*y, *guess}):
        hits = sum(a == b == k for a, b in zip(y, guess, strict=True))
        precision = hits / max(1, list(guess).count(k))
        recall = hits / max(1, list(y).count(k))
        values.append(2 * precision * recall / (precision + recall) if hits else 0.0)
    return sum(values) / len(values)


def brute_ece(y, probs, bins):
    total = 0.0
    for b in range(bins):
        rows = [i for i, p in enumerate(probs) if b / bins < max(p) <= (b + 1) / bins]
        if rows:
            right = np.mean([np.argmax(probs[i]) == y[i] for i in rows])
            total += len(rows) / len(y) * abs(right - np.mean([max(probs[i]) for i in rows]))
    return total


def test_accuracy():
    assert metrics.accuracy(Y, PROBS) == np.mean([np.argmax(p) == y for p, y in zip(PROBS, Y, strict=True)])
    assert metrics.accuracy(torch.as_tensor(Y), torch.as_tensor(PROBS.argmax(1))) == metrics.accuracy(Y, PROBS)
    assert metrics.accuracy([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5  # the first of equals


def test_macro_f1():
    guess = PROBS.argmax(1)
    np.testing.assert_allclose(metrics.macro_f1(Y, PROBS), brute_f1(Y, guess))
    np.testing.assert_allclose(metrics.macro_f1([0, 0, 1, 2], [0, 1, 1, 3]), (2 / 3 + 2 / 3 + 0 + 0) / 4)
    assert metrics.macro_f1([1, 1], [1, 1]) == 1  # one class is no trouble here


def test_brier():
    brute = np.mean([sum((p[k] - (k == y)) ** 2 for k in range(4)) for p, y in zip(PROBS, Y, strict=True)])
    np.testing.assert_allclose(metrics.brier(Y, PROBS), brute)
    assert metrics.brier([0], [[0.0, 1.0]]) == 2


def test_nll_of_probabilities():
    np.testing.assert_allclose(metrics.nll(Y, PROBS), -np.mean([math.log(p[y]) for p, y in zip(PROBS, Y, strict=True)]))


def test_nll_of_a_prediction_is_that_of_its_probabilities():
    prediction = Classification(torch.as_tensor(SAMPLES))
    y = np.arange(8) % 3
    np.testing.assert_allclose(metrics.nll(y, prediction), metrics.nll(y, SAMPLES.mean(0)))


def test_a_probability_of_zero_is_the_least_of_its_precision():
    probs = torch.tensor([[1.0, 0.0]])
    np.testing.assert_allclose(metrics.nll([1], probs), -math.log(torch.finfo(torch.float32).tiny))
    np.testing.assert_allclose(metrics.nll([1], probs), metrics.nll([1], Classification(probs[None])), rtol=1e-6)


@pytest.mark.parametrize("bins", [1, 5, 15])
def test_ece_of_equal_width(bins):
    np.testing.assert_allclose(metrics.ece(Y, PROBS, bins=bins), brute_ece(Y, PROBS, bins))


def test_ece_by_hand():
    probs = [[0.8, 0.2], [0.8, 0.2], [0.6, 0.4], [0.0, 1.0]]
    # bins of .2: (.4, .6] holds one row, wrong; (.6, .8] two, both right; (.8, 1] one, wrong
    np.testing.assert_allclose(metrics.ece([0, 0, 1, 0], probs, bins=5), 0.25 * 0.6 + 0.5 * 0.2 + 0.25 * 1)


def test_ece_of_equal_mass():
    probs = np.array([[p, 1 - p] for p in (0.55, 0.6, 0.7, 0.75, 0.9, 0.95)])
    y = np.array([1, 0, 0, 1, 0, 0])
    groups = [[0, 1], [2, 3], [4, 5]]
    brute = sum(abs(np.mean(y[g] == 0) - probs[g, 0].mean()) for g in groups) / 3
    np.testing.assert_allclose(metrics.ece(y, probs, bins=3, binning="equal_mass"), brute)
    order = np.random.default_rng(1).permutation(6)
    assert metrics.ece(y[order], probs[order], bins=3, binning="equal_mass") == pytest.approx(brute)


def test_equal_confidences_stay_in_one_bin():
    probs = np.tile([0.8, 0.2], (10, 1))
    y = np.array([0] * 8 + [1] * 2)
    assert metrics.ece(y, probs, binning="equal_mass") == pytest.approx(0, abs=1e-12)


# --- uncertainty


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


def test_uncertainty_by_hand():
    mean = SAMPLES.mean(0)
    total = [entropy(p) for p in mean]
    expected = [np.mean([entropy(SAMPLES[i, r]) for i in range(5)]) for r in range(8)]
    np.testing.assert_allclose(metrics.predictive_entropy(SAMPLES), total)
    np.testing.assert_allclose(metrics.predictive_entropy(mean), total)
    np.testing.assert_allclose(metrics.expected_entropy(SAMPLES), expected)
    np.testing.assert_allclose(metrics.mutual_information(SAMPLES), np.subtract(total, expected))
    np.testing.assert_allclose(metrics.max_prob(SAMPLES), mean.max(1))
    np.testing.assert_allclose(metrics.max_prob(torch.as_tensor(mean)), mean.max(1))


def test_uncertainty_is_that_of_the_prediction():
    prediction = Classification(torch.as_tensor(SAMPLES))
    np.testing.assert_allclose(metrics.predictive_entropy(prediction.samples), prediction.entropy)
    np.testing.assert_allclose(metrics.expected_entropy(prediction.samples), prediction.aleatoric)
    np.testing.assert_allclose(metrics.mutual_information(prediction.samples), prediction.mutual_information)
    np.testing.assert_allclose(metrics.max_prob(prediction.samples), prediction.max_prob)


def test_certainty_has_no_entropy():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert metrics.predictive_entropy(sure).tolist() == [0, 0]
    assert not np.signbit(metrics.predictive_entropy(sure)).any()
    assert metrics.mutual_information(np.stack([sure, sure])).tolist() == [0, 0]
    np.testing.assert_allclose(metrics.predictive_entropy(np.full((1, 7), 1 / 7)), math.log(7))


# --- errors

TWO = [[0.5, 0.5], [0.5, 0.5]]


def test_a_probability_of_one_may_be_rounded_up():
    rounded = np.array([[np.nextafter(np.float32(1), np.float32(2)), 0.0]], np.float32)
    assert metrics.brier([0], rounded) == metrics.ece([0], rounded) == metrics.predictive_entropy(rounded) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.accuracy([0, 1, 1], TWO), "y has 3 rows and probs has 2"),
        (lambda: metrics.accuracy([0, 1, 1], [0, 1]), "y has 3 rows and predicted has 2"),
        (lambda: metrics.accuracy([0, 0.5], [0, 1]), "y holds 0.5: give class numbers"),
        (lambda: metrics.accuracy([0, -1], [0, 1]), "y holds -1: give class numbers"),
        (lambda: metrics.accuracy([0, 1e30], [0, 1]), r"y holds 1e\+30: give class numbers"),
        (lambda: metrics.accuracy(np.zeros((2, 2)), TWO), r"y has shape \(2, 2\): give class numbers"),
        (lambda: metrics.brier([0, 2], TWO), "y holds class 2, probs has 2 columns"),
        (lambda: metrics.brier([0, 1], [[0.5, 0.5], [0.7, 0.7]]), r"probs sums to 1.4 at row \(1,\)"),
        (lambda: metrics.brier([0, 1], [[0.5, 0.5], [-0.5, 1.5]]), "probs holds -0.5: probabilities lie in"),
        (lambda: metrics.brier([0, 1], [[0.5, 0.5], [0.5, math.nan]]), r"probs holds nan at \(1, 1\)"),
        (lambda: metrics.brier([0, 1], [[1.0], [1.0]]), r"probs has shape \(2, 1\)"),
        (lambda: metrics.brier([0, 1], [1.0, 0.0]), r"probs has shape \(2,\): give \(rows, classes\)"),
        (lambda: metrics.brier([0], SAMPLES), r"probs has shape \(5, 8, 3\): .* of draws take the mean first"),
        (lambda: metrics.ece([0, 1], TWO, bins=0), "bins=0 is out of range"),
        (lambda: metrics.ece([0, 1], TWO, binning="wide"), "binning='wide' is out of range"),
        (lambda: metrics.nll([0, 1], [[2.0, 3.0], [0.1, 0.2]]), "probs holds 3: .* of logits take the softmax first"),
        (lambda: metrics.expected_entropy(TWO), r"samples has shape \(2, 2\): give \(draws, rows, classes\)"),
        (lambda: metrics.mutual_information(TWO), r"samples has shape \(2, 2\): give \(draws, rows, classes\)"),
        (lambda: metrics.max_prob(np.full((1, 1, 1, 2), 0.5)), r"probs has shape \(1, 1, 1, 2\)"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(rn.R2D2NetError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_ranked_probabilities():
    """RPS is the mean Brier score of the events y <= k, and half of that of classes where there are two."""
    generator = np.random.default_rng(0)
    probs = generator.dirichlet(np.ones(4), size=50)
    y = generator.integers(0, 4, size=50)
    steps = [np.square(probs[:, : k + 1].sum(1) - (y <= k)).mean() for k in range(3)]
    assert metrics.rps(y, probs) == pytest.approx(np.mean(steps))
    two = np.stack([probs[:, 0], 1 - probs[:, 0]], 1)
    assert metrics.rps(y > 1, two) == pytest.approx(metrics.brier(y > 1, two) / 2)
    ends = np.eye(4)
    assert [metrics.rps([0], ends[[k]]) for k in range(4)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert metrics.rps(3 - y, probs[:, ::-1]) == pytest.approx(metrics.rps(y, probs))
    with pytest.raises(rn.DataError, match="y"):
        metrics.rps([4], probs[:1])
