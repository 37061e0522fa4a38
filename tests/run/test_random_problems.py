"""No algorithm returns nonsense without a word: some of the problems of `benchmarks/random_problems.py`, or all."""

import pytest

from r2d2net.registry import ALGORITHMS
from random_problems import is_silent_nonsense, outcome, outcomes

FAST = [name for name in ALGORITHMS if name != "hmc"]


@pytest.mark.parametrize("algorithm", FAST)
def test_it_is_better_than_a_constant_or_says_that_it_is_not(algorithm):
    """Six problems; the short runs of some samplers are warned of, in one line."""
    for row in outcomes(range(6), [algorithm], epochs=20):
        assert not is_silent_nonsense(row), row
        assert "\n" not in row.get("message", "")


@pytest.mark.parametrize("algorithm", ["lineargibbs", "mclmc"])
def test_two_to_four_rows_are_no_reason_for_nonsense(algorithm):
    for row in outcomes(range(200, 212), [algorithm], epochs=40):
        assert 2 <= row["rows"] <= 4
        assert not is_silent_nonsense(row), row


@pytest.mark.parametrize("algorithm", ["sgld", "sghmc"])
def test_a_chain_that_is_too_short_is_told_so(algorithm):
    """Six rows of 80 columns and 40 steps: an error of more than 1.1 of a constant's, and a warning."""
    row = outcome(5, algorithm, epochs=40)
    assert row["training"] > 1.1
    assert row["outcome"] == "warned"
    assert row["message"].startswith(f"the fit by {algorithm.upper()} is worse than a constant: ")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_260_problems(algorithm):
    for row in outcomes(range(260), [algorithm], epochs=40):
        assert not is_silent_nonsense(row), row
