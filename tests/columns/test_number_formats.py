"""Numbers and dates as people write them: one form that reads nearly every cell, or none."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from r2d2net.columns.format_rules import NO_RULES, choose_date_format, choose_number_format, detect_format_rules
from r2d2net.columns.raw_columns import RawColumn
from table_runs import learn_columns


def texts(*cells):
    """A column of texts, as a CSV file is read."""
    return RawColumn(pd.Series(cells, dtype=object))


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
        (["1,5", "2,5E-03", "1,25e2"], [1.5, 0.0025, 125]),
        (["1,234", "1234"], [1234, 1234]),  # nothing tells: decimals have points
        (["1.234", "2.345"], [1.234, 2.345]),
        (["1.234", "0.5"], [1.234, 0.5]),
    ],
)
def test_numbers(cells, values):
    column = texts(*cells)
    found = choose_number_format(column, NO_RULES.decimal)
    assert found.kind == "number"
    np.testing.assert_array_equal(column.numbers(found.format), values)


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
        ["1,5", "err"] + ["2,5"] * 7,  # an eighth
    ],
)
def test_what_is_no_number_stays_text(cells):
    assert choose_number_format(texts(*cells), NO_RULES.decimal) is None


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
    found = choose_date_format(column, NO_RULES.dates)
    assert found.kind == "date"
    expected = (np.array(dates, dtype="datetime64[m]") - np.datetime64(0, "m")) / np.timedelta64(1, "D")
    np.testing.assert_allclose(column.days(found.format), expected)


def test_day_or_month_is_not_guessed_and_forms_do_not_mix():
    found = choose_date_format(texts("01/02/2020", "03/04/2020"), NO_RULES.dates)
    assert found.kind == ""
    fix = "--dates day or --dates month reads it as a date"
    assert found.note == f"'01/02/2020' may be day/month/year or month/day/year: {fix}"
    assert choose_date_format(texts("31/12/2020", "12/31/2020"), NO_RULES.dates) is None
    assert choose_date_format(texts("x1", "y2"), NO_RULES.dates) is None


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["3,75", "4,5", "1.234,5"], "number"),
        (["1.234.567 \u20ac", "2.500 \u20ac"], "number"),
        (["1,234.5", "12"], "number"),
        (["31/12/2020", "1/2/2021"], "date"),
    ],
)
def test_a_few_unreadable_cells_are_missing_wherever_they_stand(cells, kind):
    """As among plain numbers: up to a tenth of the filled cells."""
    column = texts(*["err", "n/a?", "see 2"], *cells * 15)
    found = (
        choose_number_format(column, NO_RULES.decimal)
        if kind == "number"
        else choose_date_format(column, NO_RULES.dates)
    )
    assert found.kind == kind
    values = (column.numbers if kind == "number" else column.days)(found.format)
    assert np.isnan(values).tolist() == [True] * 3 + [False] * len(cells) * 15
    assert "err" not in found.note
    table = pd.DataFrame({"y": column.texts, "x": column.texts})
    (used,) = learn_columns(table, "y").used
    assert used.gaps
    assert used.encode(column, counts := Counter()).filled.sum() == 3
    assert counts["x", "unreadable"] == 3


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
    columns = learn_columns(train, "y", rules=detect_format_rules(train))
    assert [(one.name, one.kind) for one in columns.used] == [
        ("price", "number"),
        ("mostly", "number"),
        ("day", "date"),
        ("doubtful", "date"),
    ]
    assert columns.read_as["price"] == "'1,000.50' is read as the number 1000.5"
    assert columns.read_as["day"] == "'1/1/2020' is read as the date day/month/year; used as trend and season"
    said = "'02/06/2011' is read as the date day/month/year, as 'day' has the day first ("
    assert columns.read_as["doubtful"].startswith(said)
    assert columns.read_as["doubtful"].endswith("; --dates month reads it as month/day/year; used as trend and season")
    price, mostly, day, _ = columns.used
    new = pd.DataFrame(
        {"price": ["1,500.00", "1.500,00"], "mostly": ["1,000", "7"], "day": ["31/12/2021", "12/31/2021"]}
    ).assign(doubtful="01/02/2020")
    encoded = columns.encode(new)
    assert encoded.filled.tolist() == [0, 2]
    moment = np.datetime64("2021-12-31").astype(int)
    expected = [(1500 - price.mean) / price.sd, (1000 - mostly.mean) / mostly.sd, (moment - day.mean) / day.sd]
    np.testing.assert_allclose(encoded.x[0, :3], expected)
