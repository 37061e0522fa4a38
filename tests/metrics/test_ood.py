"""Out-of-distribution figures: direction, both positives, the paper's convention beside them."""

from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net import metrics
from r2d2net.prediction import Classification, DirichletClassification, Regression

RNG = np.random.default_rng(0)
IN, OUT = RNG.normal(size=40).round(1), RNG.normal(0.8, 1, 25).round(1)


class Recorded:
    """A posterior that predicts what it was given and remembers how it was asked."""

    def __init__(self):
        self.asked = []

    def predict(self, x, draws=100, *, seed=0):
        self.asked.append((x, draws, seed))
        return Classification(x)


def samples(sharpness, rows, seed):
    rng = np.random.default_rng(seed)
    logits = sharpness * (rng.normal(size=(rows, 4)) + 0.3 * rng.normal(size=(6, rows, 4)))
    return torch.softmax(torch.as_tensor(logits), -1)


def trapezoid_aupr(y, score):
    """The precision-recall curve from (0, 1) on, by trapezoids."""
    points = [(0.0, 1.0)]
    for threshold in sorted(set(score), reverse=True):
        chosen = score >= threshold
        points.append((y[chosen].sum() / y.sum(), y[chosen].mean()))
    return sum((r1 - r0) * (p0 + p1) / 2 for (r0, p0), (r1, p1) in pairwise(points))


def test_figures_are_those_of_the_binary_problem():
    result = metrics.compare_scores(IN, OUT)
    score, out = np.concatenate([IN, OUT]), np.repeat([0, 1], [40, 25])
    pairs = [(o > i) + 0.5 * (o == i) for o in OUT for i in IN]
    np.testing.assert_allclose(result.auroc, np.mean(pairs))
    assert result.aupr_out == metrics.aupr(out, score)
    assert result.aupr_in == metrics.aupr(1 - out, -score)
    assert result.fpr95_out == np.mean(np.sort(OUT)[1] <= IN)  # 24 of 25 out rows are needed
    assert result.fpr95_in == np.mean(np.sort(IN)[37] >= OUT)  # 38 of 40 in rows
    areas = [trapezoid_aupr(out, score), trapezoid_aupr(1 - out, score)]
    np.testing.assert_allclose(result.paper_aupr, max(areas))


def test_a_detector_that_is_wrong_way_round_is_told_by_all_but_the_paper_s_figures():
    right, wrong = metrics.compare_scores([0.0, 0.1, 0.2], [1.0, 1.1]), metrics.compare_scores([1.0, 1.1], [0.0, 0.1])
    assert (right.auroc, right.aupr_out, right.aupr_in, right.fpr95_out, right.fpr95_in) == (1, 1, 1, 0, 0)
    assert wrong.auroc == 0
    assert (wrong.fpr95_out, wrong.fpr95_in) == (1, 1)
    assert wrong.aupr_out < 0.6
    assert wrong.aupr_in < 0.6
    assert (wrong.paper_auroc, wrong.paper_aupr) == (1, 1)


def test_equal_scores_are_chance():
    result = metrics.compare_scores(np.ones(6), np.ones(2))
    assert (result.auroc, result.aupr_out, result.aupr_in, result.fpr95_out) == (0.5, 0.25, 0.75, 1.0)


@pytest.mark.parametrize("score", ["entropy", "max_prob", "mutual_information", "expected_entropy"])
def test_scores_are_large_where_the_prediction_is_uncertain(score):
    inside, outside = samples(6.0, 30, 1), samples(1.0, 20, 2)
    result = metrics.ood_scores(Recorded(), inside, outside, score)
    by_hand = {
        "entropy": metrics.predictive_entropy,
        "max_prob": lambda s: -metrics.max_prob(s),
        "mutual_information": metrics.mutual_information,
        "expected_entropy": metrics.expected_entropy,
    }[score]
    assert result.score == score
    np.testing.assert_array_equal(result.in_scores, by_hand(inside))
    np.testing.assert_array_equal(result.out_scores, by_hand(outside))
    if score != "mutual_information":  # sharp draws disagree more
        assert result.auroc > 0.8


def test_the_average_of_entropies_is_not_the_entropy_of_the_average():
    """Draws that are sure and disagree: out by the entropy, in by the paper's score."""
    sure = torch.eye(4, dtype=torch.float64)[:, None].expand(4, 10, 4)
    unsure = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64).expand(4, 10, 4)
    assert metrics.ood_scores(Recorded(), unsure, sure).auroc == 1
    averaged = metrics.ood_scores(Recorded(), unsure, sure, "expected_entropy")
    assert (averaged.auroc, averaged.paper_auroc) == (0, 1)


def test_rows_may_be_scored_in_pieces(monkeypatch):
    whole = metrics.ood_scores(Recorded(), samples(6.0, 30, 1), samples(1.0, 20, 2))
    monkeypatch.setattr("r2d2net.metrics.ood.ROWS", 7)
    cut = metrics.ood_scores(Recorded(), samples(6.0, 30, 1), samples(1.0, 20, 2))
    np.testing.assert_array_equal(cut.in_scores, whole.in_scores)
    np.testing.assert_array_equal(cut.out_scores, whole.out_scores)


def test_data_go_to_the_posterior_untouched():
    posterior, inside, outside = Recorded(), samples(3.0, 5, 1), samples(1.0, 4, 2)
    kept = inside.clone(), outside.clone()
    metrics.ood_scores(posterior, inside, outside, draws=7, seed=3)
    (first, *how), (second, *again) = posterior.asked
    assert first is inside
    assert second is outside
    assert how == again == [7, 3]  # the same draws of the weights serve both
    assert torch.equal(inside, kept[0])
    assert torch.equal(outside, kept[1])


def test_the_result_is_frozen_and_short_to_print():
    result = metrics.compare_scores(IN, OUT)
    with pytest.raises(FrozenInstanceError):
        result.auroc = 1.0
    assert "array" not in repr(result)


def test_a_fitted_classifier_knows_what_it_has_not_seen():
    """Two classes far apart in a plane; points between them are out."""
    generator = torch.Generator().manual_seed(0)
    centre = torch.tensor([[-3.0, 0.0], [3.0, 0.0]])
    y = torch.arange(60) % 2
    x = centre[y] + 0.3 * torch.randn(60, 2, generator=generator)
    model = rn.BayesianModel(rn.nets.mlp(2, [8], 2), likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (x, y), epochs=60, verbose=False)
    between = 0.3 * torch.randn(30, 2, generator=generator)
    result = metrics.ood_scores(posterior, x, between, draws=20)
    assert result.auroc > 0.9  # .98 to 1 over six seeds
    assert metrics.accuracy(y, posterior.predict(x).probs) > 0.95
    assert result.auroc == metrics.ood_scores(posterior, x, between, draws=20).auroc


class Numbers:
    def predict(self, x, draws=100, *, seed=0):
        return Regression(torch.zeros(3, 4), torch.tensor(1.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: metrics.ood_scores(Recorded(), 1, 2, "variance"),
            "score='variance' is out of range: use one of entropy",
        ),
        (lambda: metrics.ood_scores(Numbers(), 1, 2), "posterior predicts a Regression: .* class probabilities"),
        (
            lambda: metrics.ood_scores(Recorded(), samples(1, 3, 0)[:1], samples(1, 3, 0), "mutual_information"),
            r"compares draws, and there is one \(draws=100\): use draws=2 or more",
        ),
        (lambda: metrics.compare_scores([], [1.0]), r"in_scores has shape \(0,\)"),
        (lambda: metrics.compare_scores([1.0], [[1.0]]), r"out_scores has shape \(1, 1\): give one score a row"),
        (lambda: metrics.compare_scores([1.0], [float("nan")]), r"out_scores holds nan at \(0,\)"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(rn.R2D2NetError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("score", ["mutual_information", "expected_entropy"])
def test_a_dirichlet_law_is_epistemic_in_a_single_draw(score):
    """Laws of equal means are told by their strength alone, against Monte Carlo draws of the probabilities."""
    concentration = torch.tensor([[[8.0, 1.0, 1.0], [0.8, 0.1, 0.1]]], dtype=torch.float64)

    class Evidence:
        def predict(self, x, draws=100, *, seed=0):
            return DirichletClassification(concentration=concentration)

    found = metrics.uncertainty_scores(Evidence(), None, score, draws=1)
    g = np.random.default_rng(0)
    p = np.stack([g.dirichlet(row, size=20_000) for row in concentration[0].numpy()], axis=1)
    simulated = {"mutual_information": metrics.mutual_information, "expected_entropy": metrics.expected_entropy}
    np.testing.assert_allclose(found, simulated[score](p), atol=0.01)  # 4 standard errors of at most .0025
    assert abs(found[1] - found[0]) > 0.2
    np.testing.assert_allclose(*metrics.uncertainty_scores(Evidence(), None, "entropy"))
