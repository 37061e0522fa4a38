"""Scores of a run beside those of the best constant."""

import numpy as np
import pytest
import torch

from r2d2net.prediction import Regression
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.scores import Scored, _standard_error, baseline_of


def test_the_best_constant_of_each_error_is_the_one_that_makes_it_least():
    """Of squared errors the mean, of absolute ones the median: on the training targets no other number does better."""
    y = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    task = Task("y", "regression")
    scored = Scored(task)
    scored.add(Regression(torch.zeros(1, 5), torch.ones(1, 5)), y, 0.9)
    constant = scored.metrics(baseline_of(task, y), 0.9)["constant"]
    tried = np.linspace(0, 100, 10_001)[:, None]
    assert constant["mae"] == pytest.approx(np.abs(y - tried).mean(1).min())
    assert constant["rmse"] == pytest.approx(np.sqrt(np.square(y - tried).mean(1).min()))


def test_a_likelihood_of_zero_has_no_standard_error():
    assert _standard_error(np.array([-1.0, -np.inf])) is None
    assert _standard_error(np.array([-1.0, -3.0])) == pytest.approx(1.0)
