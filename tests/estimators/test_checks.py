"""The estimators pass all of scikit-learn's estimator checks."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from r2d2net import R2D2Classifier, R2D2Regressor

SMALL: dict[str, Any] = {"hidden": (6,), "epochs": 25, "draws": 5, "random_state": 0}


@parametrize_with_checks([R2D2Regressor(**SMALL), R2D2Classifier(**SMALL)])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
