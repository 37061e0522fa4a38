"""Numbers and dates as people write them: one form that reads every cell, or none."""

import numpy as np
import pandas as pd
import pytest

from r2d2net.tables.learning import learn_columns
from r2d2net.tables.spelling import find_date_form, find_number_form, written_days, written_numbers


def texts(*cells):
    return pd.Series(cells, dtype=object)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,234.5", "12"], [1234.5, 12]),
        (["1.234,5", "12", None, "n/a"], [1234.5, 12, np.nan, np.nan]),
        (["1,5", "-2,25", "\u22123,5"], [1.5, -2.25, -3.5]),
        (["1 234,5", "1\u00a0000", "1\u202f000,5"], [1234.5, 1000, 1000.5]),
        (["1'234.50", "3"], [1234.5, 3]),
        (["1,234,567", "1,234"], [1234567, 1234]),
        (["0,123", "1,234"], [0.123, 1.234]),
        (["950", "1,234"], [950, 1234]),  # thousands: shorter numbers have no mark
        (["$1,234", "$12,000"], [1234, 12000]),  # no money has three decimals
        (["\u20ac1.234", "2.500 \u20ac"], [1234, 2500]),
        (["-$5", "$-6.5", "$ 7"], [-5, -6.5, 7]),
        (["12%", "5.5 %"], [12, 5.5]),
    ],
)
def test_numbers(cells, values):
    column = texts(*cells)
    found = find_number_form(column)
    assert found.kind == "number"
    np.testing.assert_array_equal(written_numbers(column, found.form), values)


@pytest.mark.parametrize(
    "cells",
    [
        ["a", "1"],
        ["12%", "5"],
        ["$5", "\u20ac5"],
        ["5$0", "5$1"],
        ["1.2.3", "1.2.4"],
        ["1.5", "2,5"],
        ["+-1,5"],
        ["12,34.5"],
    ],
)
def test_what_is_no_number_stays_text(cells):
    assert find_number_form(texts(*cells)) is None


@pytest.mark.parametrize("cells", [["1,234", "2,345"], ["1,234", "1234"]])
def test_thousands_or_decimals_is_not_guessed(cells):
    found = find_number_form(texts(*cells))
    assert found.kind == ""
    assert "may have thousands or decimals" in found.said


@pytest.mark.parametrize(
    ("cells", "dates"),
    [
        (["31/12/2020", "01/02/2021"], ["2020-12-31", "2021-02-01"]),
        (["12/31/2020", "1/2/2021"], ["2020-12-31", "2021-01-02"]),
        (["31.12.2020 14:05", "1.2.2021 05:00"], ["2020-12-31T14:05", "2021-02-01T05:00"]),
        (["1/2/2020 5:07 PM", "12/31/2020 1:00 am"], ["2020-01-02T17:07", "2020-12-31T01:00"]),
        (["3 Jan 2020", "14 Feb 2021"], ["2020-01-03", "2021-02-14"]),
        (["January 3, 2020", "May 4, 2020"], ["2020-01-03", "2020-05-04"]),
        (["31-Dec-20", "?"], ["2020-12-31", "NaT"]),
        (["05/05/2020", "06/06/2020"], ["2020-05-05", "2020-06-06"]),  # both readings agree
    ],
)
def test_dates(cells, dates):
    column = texts(*cells)
    found = find_date_form(column)
    assert found.kind == "date"
    expected = (np.array(dates, dtype="datetime64[m]") - np.datetime64(0, "m")) / np.timedelta64(1, "D")
    np.testing.assert_allclose(written_days(column, found.form), expected)


def test_day_or_month_is_not_guessed_and_forms_do_not_mix():
    found = find_date_form(texts("01/02/2020", "03/04/2020"))
    assert found.kind == ""
    assert "'01/02/2020' may be day/month/year or month/day/year" in found.said
    assert find_date_form(texts("31/12/2020", "12/31/2020")) is None
    assert find_date_form(texts("x1", "y2")) is None


def test_columns_are_read_in_their_form_and_it_is_said():
    rows = 60
    train = pd.DataFrame(
        {
            "y": ["0"] * rows,
            "price": [f"{1000 + i * i:,}.50" for i in range(rows)],
            "mostly": [*(str(i) for i in range(100, 157)), "1,200", "1,300", "1,400"],  # 95% are plain numbers
            "day": [f"{1 + i % 28}/{1 + i % 12}/2020" for i in range(rows)],
            "doubtful": [f"{1 + i % 12:02d}/{1 + i * 5 % 12:02d}/20{10 + i % 20}" for i in range(rows)],
        },
        dtype=object,
    )
    columns = learn_columns(train, "y")
    assert [(one.name, one.kind) for one in columns.used] == [
        ("price", "number"),
        ("mostly", "number"),
        ("day", "date"),
    ]
    assert columns.read_as["price"] == "'1,000.50' is read as the number 1000.5"
    assert columns.read_as["day"] == "'1/1/2020' is read as the date day/month/year"
    assert "write dates as 2020-12-31" in columns.left_out["doubtful"]
    price, mostly, day = columns.used
    new = pd.DataFrame(
        {"price": ["1,500.00", "1.500,00"], "mostly": ["1,000", "7"], "day": ["31/12/2021", "12/31/2021"]}
    )
    encoded = columns.encode(new)
    assert encoded.filled.tolist() == [0, 2]
    moment = np.datetime64("2021-12-31").astype(int)
    expected = [(1500 - price.mean) / price.sd, (1000 - mostly.mean) / mostly.sd, (moment - day.mean) / day.sd]
    np.testing.assert_allclose(encoded.x[0], expected)
