"""What dates give: trend, season, weekday and time of day, by their range and resolution."""

import numpy as np
import pandas as pd
import pytest

from r2d2net.columns.date_inputs import date_parts, part_inputs
from r2d2net.columns.input_columns import Columns
from table_runs import learn_columns


def days_of(moments):
    return (pd.DatetimeIndex(moments) - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)


@pytest.mark.parametrize(
    ("moments", "parts"),
    [
        (pd.date_range("2020-01-01", periods=400, freq="D"), ["season", "weekday"]),
        (pd.date_range("2020-01-01", periods=100, freq="D"), ["weekday"]),
        (pd.date_range("2020-01-01", periods=50, freq="D"), []),
        (pd.date_range("2020-01-05", periods=100, freq="W"), ["season"]),  # Sundays
        (pd.date_range("1990-01-01", periods=120, freq="MS"), ["season"]),
        (pd.date_range("1990-01-01", periods=120, freq="ME"), ["season"]),
        (pd.date_range("1900-01-01", periods=100, freq="YS"), []),
        (pd.date_range("2020-01-01", periods=300, freq="h"), ["time of day"]),
        (pd.date_range("2020-01-01 08:30", periods=100, freq="D"), ["weekday"]),
        (pd.date_range("2020-01-01", periods=3000, freq="5h"), ["season", "weekday", "time of day"]),
    ],
)
def test_parts_are_those_that_range_and_resolution_give(moments, parts):
    assert date_parts(np.array(days_of(moments))) == parts


def test_parts_are_those_of_the_calendar():
    moments = pd.DatetimeIndex(["2024-01-01 06:00", "1969-12-31", "2023-07-02 12:00"])
    inputs = part_inputs(np.array(days_of(moments)), ["season", "weekday", "time of day"])
    assert inputs[:, 2:9].argmax(1).tolist() == [0, 2, 6]  # Monday, Wednesday, Sunday
    turns = np.array([0.25, 364, 182.5]) / 365.25
    np.testing.assert_allclose(inputs[:, 0], np.sin(2 * np.pi * turns), atol=1e-9)
    np.testing.assert_allclose(inputs[:, 1], np.cos(2 * np.pi * turns), atol=1e-9)
    np.testing.assert_allclose(inputs[:, 9:], [[1, 0], [0, 1], [0, -1]], atol=1e-9)


def test_a_column_of_dates_is_encoded_and_comes_back_from_json():
    moments = pd.date_range("2020-01-01", periods=730, freq="D")
    table = pd.DataFrame({"y": ["0"] * 730, "day": moments.strftime("%d/%m/%Y").astype(object)})
    columns = learn_columns(table, "y")
    assert columns.read_as["day"].endswith("used as trend, season and weekday")
    (encoder,) = columns.used
    assert encoder.inputs[:4] == ["day", "day (season, sin)", "day (season, cos)", "day (Monday)"]
    assert len(encoder.inputs) == 10
    again = Columns.of(columns.plain())
    assert again == columns
    encoded = again.encode(pd.DataFrame({"day": ["06/01/2020", None]}))
    assert encoded.x[0, 3:].tolist() == [1, 0, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(encoded.x[1, 3:], 1 / 7, atol=0.01)  # a missing date is an average one
    assert encoded.filled.tolist() == [0, 1]
