"""Rankings against counts over all pairs and all thresholds, ties included."""

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net import metrics

RNG = np.random.default_rng(0)
CASES = {
    "distinct": (RNG.integers(0, 2, 50), RNG.normal(size=50)),
    "ties": (RNG.integers(0, 2, 80), RNG.integers(0, 5, 80).astype(float)),
    "all equal": (np.array([0, 1, 1, 0, 1]), np.ones(5)),
    "perfect": (np.array([0, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.4])),
    "reversed": (np.array([1, 1, 0, 0]), np.array([0.1, 0.2, 0.3, 0.4])),
    "two rows": (np.array([1, 0]), np.array([3.0, 3.0])),
}


def brute_auroc(y, score):
    """Share of pairs in order, a tie being one half."""
    above = [(p > n) + 0.5 * (p == n) for p in score[y == 1] for n in score[y == 0]]
    return np.mean(above)


def brute_aupr(y, score):
    """Precision at every distinct threshold, weighted by the recall it adds."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        chosen = score >= threshold
        recall = y[chosen].sum() / y.sum()
        total += (recall - before) * y[chosen].mean()
        before = recall
    return total


def brute_fpr(y, score, tpr):
    return min(np.mean(score[y == 0] >= t) for t in set(score) if np.mean(score[y == 1] >= t) >= tpr)


@pytest.mark.parametrize("case", CASES)
def test_binary_rankings(case):
    y, score = CASES[case]
    np.testing.assert_allclose(metrics.auroc(y, score), brute_auroc(y, score))
    np.testing.assert_allclose(metrics.aupr(y, score), brute_aupr(y, score))
    for tpr in (0.5, 0.95, 1.0):
        np.testing.assert_allclose(metrics.fpr_at_tpr(y, score, tpr), brute_fpr(y, score, tpr))
    assert metrics.auroc(torch.as_tensor(y), torch.as_tensor(score)) == metrics.auroc(y, score)
    np.testing.assert_allclose(metrics.auroc(y, -score), 1 - metrics.auroc(y, score))


def test_midranks_by_hand():
    # pairs: (1, 1) tie, (1, 0) in order, (2, 1) and (2, 0) in order
    assert metrics.auroc([1, 1, 0, 0], [1.0, 2.0, 1.0, 0.0]) == 3.5 / 4
    assert metrics.auroc([1, 0], [1.0, 1.0]) == 0.5


def test_ninety_five_of_a_hundred_need_no_more():
    """.95 of 20 is 19, whatever floating point says."""
    for n in (20, 40, 60, 100, 140, 1000):
        y = np.repeat([1, 0], [n, 1])
        score = np.concatenate([np.arange(n, dtype=float), [n - 0.95 * n - 0.5]])
        assert metrics.fpr_at_tpr(y, score) == 0.0


def test_macro_averages_over_the_classes_present():
    probs = RNG.dirichlet(np.ones(4), 40)
    y = RNG.choice([0, 1, 3], 40)  # no row of class 2
    for macro, brute in ((metrics.macro_auroc, brute_auroc), (metrics.macro_aupr, brute_aupr)):
        expected = np.mean([brute((y == k).astype(int), probs[:, k]) for k in (0, 1, 3)])
        np.testing.assert_allclose(macro(y, probs), expected)
        np.testing.assert_allclose(macro(torch.as_tensor(y), torch.as_tensor(probs)), expected)


def test_macro_with_all_classes_is_scikit_learn_s():
    from sklearn.metrics import roc_auc_score

    probs = RNG.dirichlet(np.ones(3), 60)
    y = np.arange(60) % 3
    np.testing.assert_allclose(
        metrics.macro_auroc(y, probs), roc_auc_score(y, probs, multi_class="ovr", average="macro")
    )


def test_macro_of_two_classes_is_the_binary_one():
    p = RNG.integers(0, 9, 30) / 8  # exact in binary, with ties
    y = RNG.integers(0, 2, 30)
    assert metrics.macro_auroc(y, np.stack([1 - p, p], 1)) == pytest.approx(metrics.auroc(y, p))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.auroc([1, 1], [0.1, 0.2]), "y holds class 1 alone: a ranking needs rows of both classes"),
        (lambda: metrics.aupr([0, 0], [0.1, 0.2]), "y holds class 0 alone"),
        (lambda: metrics.fpr_at_tpr([0, 0], [0.1, 0.2]), "y holds class 0 alone"),
        (lambda: metrics.macro_auroc([1, 1], [[0.5, 0.5]] * 2), "y holds class 1 alone: .* two classes or more"),
        (lambda: metrics.auroc([0, 2], [0.1, 0.2]), "y holds 2: give 0 and 1; for several classes"),
        (lambda: metrics.auroc([0, 1], [[0.1, 0.9]] * 2), r"score has shape \(2, 2\): .* use the macro measures"),
        (lambda: metrics.auroc([0, 1], [0.1, 0.2, 0.3]), "y has 2 rows and score has 3"),
        (lambda: metrics.auroc([0, 1], [0.1, float("nan")]), r"score holds nan at \(1,\)"),
        (lambda: metrics.fpr_at_tpr([0, 1], [0.1, 0.2], 0.0), "tpr=0.0 is out of range"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(rn.R2D2NetError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
