"""Rows unlike the training rows: a known share of false alarms, and alarms where there is reason."""

import numpy as np
import pytest

from r2d2net.errors import CheckpointError
from r2d2net.manifest import replacing
from r2d2net.tables import novelty
from r2d2net.tables.novelty import ALARM, FILE, Novelty, is_unlike, learn_novelty


def rows(rng, n, inputs):
    """Skewed, dependent numbers and a category of five levels."""
    mix = np.random.default_rng(1).normal(size=(inputs, inputs))
    return np.hstack(
        [rng.exponential(size=(n, inputs)) @ mix, np.eye(5)[rng.choice(5, n, p=[0.5, 0.2, 0.2, 0.06, 0.04])]]
    )


def unlike(novelty, x):
    return is_unlike(novelty.typicality(x))


@pytest.mark.parametrize(
    ("n", "inputs"), [(300, 5), *(pytest.param(*size, marks=pytest.mark.slow) for size in [(300, 60), (1000, 20)])]
)
def test_share_of_false_alarms(n, inputs):
    """The alarm rate of a model has mean k / (n + 1), k = floor(ALARM (n + 1)), and variance at most that of a
    Beta(k, n + 1 - k) law plus that of the new rows; 20 models, five standard errors: false alarm rate 6e-7."""
    models, new = 20, 2000
    rates = []
    for seed in range(models):
        rng = np.random.default_rng(seed)
        novelty = learn_novelty(rows(rng, n, inputs), seed)
        rates.append(unlike(novelty, rows(rng, new, inputs)).mean())
    expected = np.floor(ALARM * (n + 1)) / (n + 1)
    deviation = np.sqrt(expected * (1 - expected) * (1 / n + 1 / new) / models)
    assert abs(np.mean(rates) - expected) < 5 * deviation


def test_rows_from_elsewhere_are_flagged():
    rng = np.random.default_rng(0)
    train = rows(rng, 500, 10)
    novelty = learn_novelty(train, 0)
    like = rows(rng, 500, 10)
    assert unlike(novelty, like).mean() < 0.05
    shifted = like.copy()
    shifted[:, :10] += 6 * train[:, :10].std(0)
    assert unlike(novelty, shifted).mean() > 0.95
    shuffled = like.copy()  # each input is as it was, but not together
    for column in range(10):
        shuffled[:, column] = rng.permutation(shuffled[:, column])
    assert unlike(novelty, shuffled).mean() > 0.3


@pytest.mark.parametrize("n", [12, 30, 98])
def test_few_rows_flag_what_is_far_and_hardly_any_like_them(n):
    """Rows of 300 models share their distances: 300 rates of at most ALARM with a deviation of about
    sqrt(ALARM / (n + 1)) each; their mean is below twice ALARM but for a probability of 1e-6. Normal rows, whose tail
    is thinner than that of the rule, and those of Student's law with 2 degrees of freedom, whose tail is that one."""
    for draw in (lambda rng, size: rng.normal(size=size), lambda rng, size: rng.standard_t(2, size=size)):
        rates = []
        for seed in range(300):
            rng = np.random.default_rng(seed)
            few = learn_novelty(draw(rng, (n, 3)), seed)
            rates.append(unlike(few, draw(rng, (200, 3))).mean())
            assert unlike(few, np.full((1, 3), 1e5)).all()
        assert np.mean(rates) < 2 * ALARM


@pytest.mark.parametrize("value", [1.0, 0.1, 1e8 / 3])
@pytest.mark.parametrize("n", [20, 120])
def test_rows_that_are_all_the_same_are_typical(n, value):
    few = learn_novelty(np.full((n, 2), value), 0)
    assert few.typicality(np.full((3, 2), value)).tolist() == [1.0] * 3
    other = np.full((1, 2), value + 1e3)
    assert unlike(few, other).all()
    assert few.typicality(other) > 0


def test_saving_keeps_every_bit(tmp_path):
    rng = np.random.default_rng(0)
    few = learn_novelty(rng.normal(size=(50, 3)), 0)
    few.save(tmp_path)
    with replacing(tmp_path, keep=[FILE]):
        pass
    x = rng.normal(size=(20, 3))
    again = Novelty.load(tmp_path, 3)
    np.testing.assert_array_equal(again.typicality(x), few.typicality(x))
    with pytest.raises(CheckpointError, match="other inputs"):
        Novelty.load(tmp_path, 4)
    (tmp_path / FILE).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="truncated"):
        Novelty.load(tmp_path, 3)


@pytest.mark.parametrize(("rows", "columns"), [(40, 1), (40, 5), (30, 60), (7, 3)])
def test_the_covariance_is_that_of_scikit_learn(rows, columns):
    from sklearn.covariance import ledoit_wolf

    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, columns)) * rng.gamma(1, size=columns) + 3
    x[:, 0] += x[:, -1]
    x -= x.mean(0)
    expected, share = ledoit_wolf(x, assume_centered=True)
    assert 0 <= share < 1
    np.testing.assert_allclose(novelty.ledoit_wolf(x), expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(novelty.ledoit_wolf(np.zeros((5, 2))), np.zeros((2, 2)))


def test_more_inputs_than_rows_have_the_distances_of_the_whole_matrix(tmp_path):
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(8, 90))
    x, new = (rng.normal(size=(n, 8)) @ mix + 0.3 * rng.normal(size=(n, 90)) for n in (30, 5))
    x[:, 3] = new[:, 3] = 1.0  # a constant column
    found = learn_novelty(x, 0)
    assert found.whitener.shape == (30, 90)
    center, scale = x.mean(0), np.where(x.std(0) > 0, x.std(0), x.std(0)[x.std(0) > 0].min())
    covariance = novelty.ledoit_wolf((x - center) / scale)
    covariance.flat[::91] += 1e-10 * np.trace(covariance)
    z = (new - center) / scale
    expected = np.sqrt(np.einsum("ij,ij->i", z, np.linalg.solve(covariance, z.T).T))
    metric = novelty._Metric(found.center, found.whitener, found.diagonal)
    np.testing.assert_allclose(novelty._distances(new, metric), expected, rtol=1e-6)
    found.save(tmp_path)
    with replacing(tmp_path, keep=[FILE]):
        pass
    again = Novelty.load(tmp_path, 90)
    np.testing.assert_array_equal(again.typicality(new), found.typicality(new))
    with pytest.raises(CheckpointError, match="other inputs"):
        Novelty.load(tmp_path, 91)
