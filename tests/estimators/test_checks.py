"""The estimators pass all of scikit-learn's estimator checks, but for one that no random estimator passes."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from r2d2net import R2D2Classifier, R2D2Regressor

SMALL: dict[str, Any] = {"hidden": (6,), "epochs": 25, "draws": 5, "random_state": 0}

# as for scikit-learn's own random estimators: rows of weight 2 come otherwise in batches than rows that are there twice
RANDOM = {"check_sample_weight_equivalence_on_dense_data": "equal but for Monte Carlo error, see test_sample_weights"}


@parametrize_with_checks(
    [R2D2Regressor(**SMALL), R2D2Classifier(**SMALL)], expected_failed_checks=lambda estimator: RANDOM
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
