"""Calibrated intervals: the ranks of conformal prediction, coverage of exchangeable rows, counts, several outputs."""

import pytest
import torch

import r2d2net as rn
from r2d2net.errors import ParameterError
from r2d2net.interval_calibration import IntervalCalibration, containing_level, interval_of, level_of


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_level_is_the_order_statistic_of_rows_left_out():
    calibration = IntervalCalibration.of(torch.arange(1, 10).flip(0)[:, None] / 20)
    assert calibration.level(0.5) == pytest.approx(5 / 20)  # ceil(10 * .5) = 5
    assert calibration.level(0.51) == pytest.approx(6 / 20)
    assert calibration.level(0.9) == pytest.approx(9 / 20)
    assert calibration.level(0.95) == 0.95  # ten rows would be needed: the level itself, the largest being .45
    with pytest.raises(ParameterError, match=r"level=1.0"):
        calibration.level(1.0)


@pytest.mark.parametrize("width", [0.4, 2.5])
def test_intervals_of_a_wrong_noise_hold_after_calibration(width):
    """Predictions N(0, width^2) of targets t_3: with 1,000 rows left out coverage has a deviation of .017."""
    prediction = rn.Regression(torch.zeros(1, 1, 1, dtype=torch.float64), torch.tensor(width**2))
    draws = torch.distributions.StudentT(torch.tensor(3.0, dtype=torch.float64))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        left_out, new = draws.sample((1000, 1)), draws.sample((20_000, 1))
    calibration = IntervalCalibration.of(level_of(prediction, left_out))
    for level in (0.5, 0.8, 0.9, 0.95):
        low, high = calibration.interval(prediction, level)
        # four deviations of the Beta law of the coverage: false alarm 6e-5 each
        covered = float(((new >= low) & (new <= high)).double().mean())
        assert covered == pytest.approx(level, abs=0.064 if level < 0.9 else 0.045)
    assert interval_of(prediction, 0.9, None) == prediction.interval(0.9)


POISSON = rn.Counts(3 * torch.rand(4, 50, generator=torch.Generator().manual_seed(0)))
NORMAL = rn.Regression(normal(4, 50), torch.tensor(0.3))


@pytest.mark.parametrize("prediction", [POISSON, NORMAL], ids=["counts", "numbers"])
def test_a_level_contains_a_target_from_its_own_level_on(prediction):
    y = torch.arange(50) % 7 if prediction.is_discrete else normal(50, seed=1)
    levels = level_of(prediction, y)
    for level in (0.1, 0.5, 0.9):
        low, high = prediction.interval(level)
        assert torch.equal((low <= y) & (y <= high), levels <= level)


def test_nominal_levels_say_which_calibrated_intervals_contain():
    levels = torch.rand(40, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    calibration = IntervalCalibration.of(levels)
    own = torch.rand(200, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for level in (0.05, 0.5, 0.9, 0.97, 0.99):
        assert torch.equal(calibration.nominal(own) <= level, own <= calibration.level(level))


def test_each_output_has_its_own_level():
    calibration = IntervalCalibration.of(torch.stack([torch.linspace(0, 0.5, 199), torch.linspace(0.5, 1, 199)], 1))
    prediction = rn.Regression(torch.zeros(1, 3, 2), torch.tensor(1.0))
    low, high = calibration.interval(prediction, 0.9)
    assert low.shape == high.shape == (3, 2)
    torch.testing.assert_close(high[:, 0], prediction.interval(calibration.level(0.9, 0))[1][:, 0])
    torch.testing.assert_close(high[:, 1], prediction.interval(calibration.level(0.9, 1))[1][:, 1])
    assert bool((high[:, 1] > high[:, 0]).all())


def test_a_count_in_the_middle_step_is_in_every_interval():
    assert containing_level(torch.tensor([0.7]), torch.tensor([0.3])).tolist() == [0.0]
