"""The verdict says what was planted: who is better, by how much, and which row dominates a score."""

import numpy as np
import pytest

from r2d2net.tables.verdict import LOG_LOSS, NLL, RMSE, compare, dominating_row, judge


def normal_losses(errors, sd=1.0):
    """Losses of predictions with these errors and a normal density."""
    return {RMSE: np.square(errors), NLL: 0.5 * np.square(errors / sd) + np.log(sd * np.sqrt(2 * np.pi))}


def test_a_difference_is_judged_by_its_pairs() -> None:
    """Both have an RMSE of about 10 from the same hard rows, whose error hides a difference of 2% unless paired."""
    rng = np.random.default_rng(0)
    hard = 10 * rng.normal(size=400)
    worse = hard * 1.02
    found = compare(RMSE, hard**2, worse**2)
    unpaired = np.hypot((hard**2).std(), (worse**2).std()) / 20
    assert found.errors < -10
    assert abs((hard**2).mean() - (worse**2).mean()) < unpaired
    assert (found.outcome, found.amount) == (1, "2.0%")
    assert compare(RMSE, worse**2, hard**2).outcome == -1


def test_equal_models_are_as_good_at_the_stated_rate() -> None:
    """5% of comparisons are wrong where nothing differs: of 2,000, 100 +- 10; bounds at four standard errors."""
    rng = np.random.default_rng(1)
    wrong = sum(compare(RMSE, *np.square(rng.normal(size=(2, 100)))).outcome != 0 for _ in range(2000))
    assert 60 < wrong < 140


def test_the_standard_error_is_that_of_the_mean() -> None:
    own, other = np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4)
    assert compare(NLL, own, other).errors == pytest.approx(2.5 / (np.std(own, ddof=1) / 2))
    assert compare(NLL, own, own).outcome == 0
    assert compare(NLL, own, own + 1).outcome == 1  # always by one: no noise at all


def test_the_sentence_says_who_wins_and_the_warning_who_loses() -> None:
    rng = np.random.default_rng(2)
    errors = rng.normal(size=300)
    others = {
        "the best constant": normal_losses(2 * errors, 2.0),
        "ridge regression": normal_losses(rng.permutation(errors)),
        "boosted trees": normal_losses(errors / 1.25, 0.8),
    }
    found = judge(normal_losses(errors), others, np.arange(1, 301))
    assert found["sentence"] == (
        "on 300 test rows better than the best constant by 50% (RMSE), as good as ridge regression, "
        "worse than boosted trees by 25%"
    )
    assert found["warning"].startswith("worse than boosted trees, beyond the noise of the test rows: RMSE ")
    assert found["warning"].endswith(" (0.22 nats)")
    assert found["comparisons"]["boosted trees"] == {RMSE: -1, NLL: -1}
    fine = judge(normal_losses(errors), {"the best constant": others["the best constant"]}, np.arange(300))
    assert fine["warning"] is None
    assert not fine["useless"]


def test_a_density_that_is_too_narrow_is_warned_of_though_means_are_as_good() -> None:
    errors = np.random.default_rng(3).normal(size=200)
    found = judge(normal_losses(errors, 0.3), {"the best constant": normal_losses(errors)}, np.arange(200))
    assert found["sentence"] == "on 200 test rows as good as the best constant (RMSE)"
    assert found["useless"]
    assert found["warning"].startswith("worse than the best constant, beyond the noise of the test rows: NLL ")


def test_the_row_that_dominates_is_named() -> None:
    errors = np.random.default_rng(4).normal(size=90)
    numbers = np.arange(90) * 5 + 1
    assert dominating_row(RMSE, errors**2) is None
    errors[7] = 60.0
    own = normal_losses(errors)
    found = judge(own, {"the best constant": own}, numbers)
    assert found["rows"] == [36]
    assert f"test row 36 dominates NLL: {own[NLL].mean():.4g} with it, " in found["warning"]
    assert "test row 36 dominates RMSE" in found["warning"]
    assert judge({LOG_LOSS: own[NLL]}, {}, numbers)["rows"] == [36]


def test_the_row_that_dominates_does_not_decide() -> None:
    """Of a model with a tenth of the constant's errors, and one error 300 times as large."""
    errors = np.random.default_rng(6).normal(size=88)
    own = 0.1 * errors
    own[5] = 300.0
    found = judge(normal_losses(own), {"the best constant": normal_losses(errors)}, np.arange(1, 89))
    better = "on 88 test rows better than the best constant by 90% (RMSE)"
    assert found["sentence"] == f"{better}, test row 6 left out, which dominates RMSE"
    assert not found["useless"]
    assert found["rows"] == [6]
    assert found["comparisons"]["the best constant"][RMSE] == 1
    assert "worse than the best constant" not in found["warning"]


def test_a_loss_near_zero_is_not_better_by_all() -> None:
    assert compare(LOG_LOSS, np.full(50, 1e-4), np.full(50, 0.69)).amount == "more than 99%"
    assert compare(LOG_LOSS, np.full(50, 2.0), np.full(50, 1.0)).amount == "100%"
    assert compare(LOG_LOSS, np.full(50, 0.01), np.full(50, 1.0)).amount == "99%"


def test_calibrated_rows_dominate_next_to_never() -> None:
    """By RMSE at ten rows |t| of 9 degrees is above 5 with probability 7e-4: 2,000 scores x 10 rows have about 15."""
    rng = np.random.default_rng(5)
    for rows, most in ((10, 40), (100, 2)):
        tables = [normal_losses(rng.normal(size=rows)) for _ in range(2000)]
        assert sum(dominating_row(RMSE, losses[RMSE]) is not None for losses in tables) <= most
        assert sum(dominating_row(NLL, losses[NLL]) is not None for losses in tables) <= 2


def test_infinite_losses_lose_and_few_rows_are_not_judged() -> None:
    finite, infinite = np.ones(20), np.full(20, np.inf)
    assert [compare(RMSE, a, b).outcome for a in (finite, infinite) for b in (finite, infinite)] == [0, 1, -1, 0]
    few = judge({RMSE: np.ones(9)}, {"the best constant": {RMSE: np.zeros(9)}}, range(9))
    assert few["sentence"] == "too few test rows to compare the model with others: 9, it takes 10"
    assert few["warning"] is None
