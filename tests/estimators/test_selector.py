"""`R2D2Selector`: scikit-learn's checks, a pipeline, classes, groups of columns and refusals."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import r2d2net as rn

QUICK = rn.R2D2Regressor(hidden=(), algorithm="map", prior="gaussian", epochs=2)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([rn.R2D2Selector(QUICK, folds=2, random_state=0)])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def table(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns))


def test_a_step_of_a_pipeline_keeps_what_matters():
    """A parabola is an effect that no linear model sees. A false input has a chance of 2%."""
    x = table(200, 6)
    y = x[:, 1] ** 2 + 2 * x[:, 4] + 0.3 * table(200, 1, seed=1)[:, 0]
    pipeline = make_pipeline(rn.R2D2Selector(fdr=0.02, random_state=0), RidgeCV()).fit(x, y)
    assert pipeline[0].get_support(indices=True).tolist() == [1, 4]
    assert pipeline[:-1].transform(x).shape == (200, 2)
    assert (pipeline[0].qvalues_[[1, 4]] < 0.01).all()
    assert np.isnan(pipeline[0].pvalues_).all()


def test_classes_by_text():
    x = table(150, 5, seed=2)
    labels = np.where(x[:, 3] + 0.5 * table(150, 1, seed=3)[:, 0] > 0, "yes", "no")
    estimator = rn.R2D2Classifier(hidden=(), algorithm="cavi", prior="adaptive", epochs=60)
    selector = rn.R2D2Selector(estimator, fdr=0.02, folds=3, random_state=0)
    pipeline = make_pipeline(selector, LogisticRegression()).fit(x, labels)
    assert pipeline[0].get_support(indices=True).tolist() == [3]


def test_columns_of_a_group_are_kept_together():
    codes = np.random.default_rng(4).integers(3, size=120)
    x = np.hstack([table(120, 2, seed=5), np.eye(3)[codes]])
    y = np.array([0.0, 1.0, 3.0])[codes] + 0.5 * table(120, 1, seed=6)[:, 0]
    estimator = rn.R2D2Regressor(hidden=(), algorithm="cavi", prior="adaptive", epochs=60)
    selector = rn.R2D2Selector(estimator, groups=[[0], [2, 3, 4]], folds=3, random_state=0).fit(x, y)
    assert selector.get_support().tolist() == [False, False, True, True, True]
    assert selector.pvalues_[1] == 1  # belongs to no input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "both"}, "task='both' is out of range: use one of auto, regression, classes"),
        ({"estimator": RidgeCV()}, "estimator is a RidgeCV: use R2D2Regressor, R2D2Classifier or None"),
        ({"method": "lfdr"}, "method='lfdr' is out of range: use one of auto, terms, randomization, knockoffs"),
        ({"fdr": 2}, "fdr=2 is out of range: use a share strictly between 0 and 1, such as 0.1"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(rn.ParameterError) as error:
        rn.R2D2Selector(**arguments).fit(table(30, 2), np.arange(30.0))
    assert str(error.value) == message


def test_a_single_class_is_refused():
    with pytest.raises(rn.ParameterError, match=r"^y holds the single class 'a': give targets of two classes or more$"):
        rn.R2D2Selector(task="classes").fit(table(30, 2), np.array(["a"] * 30))


def test_classes_have_no_terms():
    x, codes = table(120, 4, seed=3), np.random.default_rng(0).integers(0, 12, 120)
    line = r"^method='terms' is for numbers, not for classes: use method='randomization'$"
    for settings, y in (
        ({}, codes.astype(str)),
        ({"task": "classes"}, codes),
        ({"estimator": rn.R2D2Classifier()}, codes),
    ):
        with pytest.raises(rn.ParameterError, match=line):
            rn.R2D2Selector(method="terms", **settings).fit(x, y)
    squares = (codes % 10) ** 2  # ten whole numbers, which are not replaced by codes of classes
    chosen, same = (
        rn.R2D2Selector(method="terms", random_state=0, task=t).fit(x, squares) for t in ("auto", "regression")
    )
    np.testing.assert_array_equal(chosen.qvalues_, same.qvalues_)


def test_targets_far_from_zero():
    x = table(120, 4, seed=7)
    y = 1.5 * x[:, 0] + 0.9 * table(120, 1, seed=8)[:, 0]
    estimator = rn.R2D2Regressor(hidden=(), algorithm="cavi", epochs=60)
    near, far = (
        rn.R2D2Selector(estimator, folds=2, random_state=0).fit(x, target).pvalues_ for target in (y, 1e-3 * y + 1e6)
    )
    assert near[0] < 0.01
    np.testing.assert_allclose(far, near, atol=0.05)


def test_ordinal_texts_and_rare_classes():
    x = table(150, 3, seed=9)
    labels = np.array(["low", "mid", "top"])[np.digitize(2 * x[:, 2] + table(150, 1, seed=10)[:, 0], [-1, 1])]
    ordinal = rn.likelihoods.Ordinal(("low", "mid", "top"))
    estimator = rn.R2D2Classifier(hidden=(), likelihood=ordinal, epochs=60)
    assert rn.R2D2Selector(estimator, fdr=0.02, folds=2, random_state=0).fit(x, labels).get_support().tolist() == [
        False,
        False,
        True,
    ]
    labels[0] = "odd"
    plain = rn.R2D2Classifier(hidden=(), algorithm="cavi")
    with pytest.raises(rn.ParameterError, match=r"^y has one row of the class 'odd': give two"):
        rn.R2D2Selector(plain, folds=2).fit(x, labels)
