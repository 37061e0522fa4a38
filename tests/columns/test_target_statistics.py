"""Averages of the target by level: the formula, and that training rows do not see their own targets."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import TargetEncoder as Reference

from r2d2net.columns.column_detection import Targets, learn_inputs
from r2d2net.columns.input_columns import Columns
from r2d2net.columns.target_statistics import cross_fitted, learn_statistics, shrunk_means


def levels_and_targets(rows=3000, levels=300, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, levels, rows)
    effects = rng.normal(scale=spread, size=levels)
    return places, 5 + effects[places] + 2 * rng.normal(size=rows), effects


def test_shrunk_averages_are_those_of_scikit_learn_with_the_smoothing_that_is_estimated():
    places, y, effects = levels_and_targets()
    learnt = shrunk_means(places, y[:, None], 300)
    reference = Reference(smooth=float(learnt.smoothing[0]), target_type="continuous").fit(places[:, None], y)
    expected = reference.encodings_[0]
    np.testing.assert_allclose(learnt.means[reference.categories_[0], 0], expected, rtol=1e-12)
    # m = sigma^2 / tau^2 = 4; about 10 rows a level: its sd is .6 (by 500 seeds)
    assert 2 < learnt.smoothing[0] < 6.5
    # the best linear prediction of the effects: its mean square is below those of no shrinkage and of half or twice m
    errors = {}
    for factor in (0, 0.5, 1, 2, 1e9):
        rows = np.bincount(places, minlength=300)
        means = np.bincount(places, y - y.mean(), 300) / np.maximum(rows, 1)
        weights = rows / (rows + factor * learnt.smoothing[0] + 1e-12)
        errors[factor] = float(np.mean((weights * means - effects) ** 2))
    assert errors[1] < min(errors[0], errors[1e9]) / 1.2
    assert errors[1] < 1.05 * min(errors.values())


def test_unbalanced_levels_and_variances_by_hand():
    """Levels of 1, 2 and 3 rows; missing cells (-1) count in the average of all rows alone."""
    places = np.array([0, 1, 1, 2, 2, 2, -1])
    y = np.array([10.0, 0, 2, 5, 6, 7, 4])
    within = (0 + 2 + 2) / (6 - 3)
    among = (1 * 25 + 2 * 16 + 3 * 1) / (3 - 1)  # about 5, the average of the six
    between = (among - within) / ((6 - (1 + 4 + 9) / 6) / 2)
    m = within / between
    learnt = shrunk_means(places, y[:, None], 4)
    overall = y.mean()
    expected = [overall + n / (n + m) * (mean - overall) for n, mean in ((1, 10), (2, 1), (3, 6))] + [overall]
    np.testing.assert_allclose(learnt.means[:, 0], expected)


def test_levels_that_decide_the_target_are_not_shrunk_and_one_without_rows_has_the_average():
    learnt = shrunk_means(np.array([0, 0, 2, 2]), np.array([[1.0], [1.0], [0.0], [0.0]]), 3)
    np.testing.assert_allclose(learnt.means[:, 0], [1, 0.5, 0])
    assert learnt.smoothing[0] == 0


def test_the_encoding_of_a_training_row_does_not_depend_on_its_own_target():
    places, y, _ = levels_and_targets(rows=200, levels=30)
    before = cross_fitted(places, y[:, None], 30, seed=3)
    for row in (0, 17, 199):
        changed = y.copy()
        changed[row] += 1000
        after = cross_fitted(places, changed[:, None], 30, seed=3)
        assert after[row] == before[row]
        assert not np.allclose(after, before)


@pytest.mark.parametrize("seed", range(3))
def test_levels_without_an_effect_do_not_seem_to_have_one(seed):
    """Correlation of the encoding with the target over 2,000 training rows: 0 up to 4 sd, a false alarm of 1e-4."""
    rng = np.random.default_rng(seed)
    codes = np.array([f"id {i}" for i in rng.integers(0, 200, 2000)], dtype=object)
    y = rng.normal(size=(2000, 1))
    learnt = learn_statistics("x", codes, y, [], seed, missing_is_level=False)
    assert learnt is None or abs(np.corrcoef(learnt.fitted[:, 0], y[:, 0])[0, 1]) < 4 / np.sqrt(2000)
    # whereas an encoding by all rows, their own included, seems to explain a tenth of the variance
    places = np.unique(codes, return_inverse=True)[1]
    naive = (np.bincount(places, y[:, 0]) / np.bincount(places))[places]
    assert np.corrcoef(naive, y[:, 0])[0, 1] > 0.2


def test_new_rows_unknown_levels_missing_cells_and_json():
    places, y, _ = levels_and_targets(rows=1000, levels=150, spread=3)
    codes = np.array([f"id {i}" for i in places], dtype=object)
    codes[:50] = None
    codes[50] = "alone"
    table = pd.DataFrame({"x": codes, "y": y})
    learnt = learn_inputs(table, "y", targets=Targets.of(y, [], 0))
    (encoder,) = learnt.columns.used
    assert encoder.inputs == ["target by x"]
    assert learnt.columns.read_as == {
        "x": "151 levels, encoded by the average target of each level, shrunk to that of all"
    }
    assert abs(learnt.encoded.x.mean()) < 1e-12
    assert abs(learnt.encoded.x.std() - 1) < 1e-12
    counts = Counter()
    new = pd.DataFrame({"x": np.array(["new", "alone", None, codes[60]], dtype=object)})
    encoded = Columns.of(learnt.columns.plain()).encode(new, counts)
    values = encoded.x[:, 0] * encoder.scales[0] + encoder.centers[0]
    assert values[0] == values[1] == pytest.approx(y.mean())
    assert values[2] == pytest.approx(encoder.missing_means[0])  # 50 missing cells are a level
    assert values[3] == pytest.approx(encoder.means[encoder.levels.index(codes[60])][0])
    assert not encoded.strange.any()
    assert counts["x", "average"] == 2
    assert (counts["x", "missing"], counts["x", "known"]) == (0, 2)


def test_classes_have_an_average_each_and_two_classes_one():
    rng = np.random.default_rng(0)
    places = rng.integers(0, 120, 3000)
    codes = np.array([f"id {i}" for i in places], dtype=object)
    y = ((places % 3 + (rng.random(3000) < 0.3)) % 3).astype(float)
    three = learn_inputs(pd.DataFrame({"x": codes}), "y", targets=Targets.of(y, ["a", "b", "c"], 0))
    assert three.columns.used[0].inputs == ["target a by x", "target b by x", "target c by x"]
    assert three.encoded.x.shape == (3000, 3)
    two = learn_inputs(pd.DataFrame({"x": codes}), "y", targets=Targets.of(1.0 * (y > 0), ["no", "yes"], 0))
    assert two.columns.used[0].inputs == ["target by x"]
    assert np.corrcoef(two.encoded.x[:, 0], y > 0)[0, 1] > 0.5
