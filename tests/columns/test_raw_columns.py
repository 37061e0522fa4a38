"""Raw columns: cells are worked out once for the whole column, and some rows of it share them."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from r2d2net.columns import raw_columns
from r2d2net.columns.raw_columns import KEPT_ROWS, RawColumn, RawTable
from r2d2net.tables.settings import Settings
from r2d2net.tables.training_table import read_training_table


def make_table(rows):
    rng = np.random.default_rng(0)
    point, comma = (f"{value:.3f}" for value in rng.normal(size=rows)), (f"{value:.1f}" for value in rng.random(rows))
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, rows), unit="D")
    return pd.DataFrame(
        {
            "point": list(point),
            "comma": [text.replace(".", ",") for text in comma],
            "whole": rng.integers(0, 99, rows).astype(str),
            "level": rng.choice(["a", "b"], rows),
            "day": days.strftime("%d/%m/%Y"),
            "y": [f"{value:.4f}" for value in rng.normal(size=rows)],
        }
    )


@pytest.mark.parametrize("rows", [100, KEPT_ROWS])
def test_whole_columns_are_parsed_once_in_each_format(tmp_path, monkeypatch, rows):
    table = make_table(rows)
    table.to_csv(tmp_path / "t.csv", index=False, sep=";")
    calls = Counter()

    def counting(name):
        parse = getattr(raw_columns, name)

        def count(cells, *arguments):
            calls[(name, *arguments, tuple(cells))] += 1
            return parse(cells, *arguments)

        return count

    for name in ("parse_numbers", "parse_days", "cell_texts", "code_texts", "are_empty"):
        monkeypatch.setattr(raw_columns, name, counting(name))
    read = read_training_table(tmp_path / "t.csv", Settings(target="y"))
    assert read.columns.names == ["point", "comma", "whole", "level", "day"]
    assert calls.most_common(1)[0][1] == 1
    assert sum(name == "cell_texts" for name, *_ in calls) == len(table.columns)


def test_some_rows_share_what_the_whole_column_has_worked_out():
    column = RawColumn(pd.Series([" 1 ", "n/a", None, "007", "2,5", "1e300"], dtype=object))
    part = column.take(np.array([True, True, False, True, True, True])).take(np.array([0, 1, 3, 4]))
    assert part.texts.tolist() == ["1", "n/a", "2,5", "1e300"]
    assert part.empty.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(part.numbers(), [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(part.numbers(",.", keep_infinite=True), [1, np.nan, 2.5, np.inf])
    assert (column.first_code(), part.first_code()) == ("007", None)
    assert part.filled().texts.tolist() == ["1", "2,5", "1e300"]
    assert RawColumn(pd.Series([1.0, np.nan])).filled().texts.tolist() == []


def test_long_tables_keep_no_columns_and_are_judged_by_a_sample():
    short, long = RawTable(make_table(KEPT_ROWS)), RawTable(make_table(KEPT_ROWS + 500))
    assert short["day"] is short["day"]
    assert short.sample() is short
    assert long["day"] is not long["day"]
    assert KEPT_ROWS / 2 < len(long.sample()) <= KEPT_ROWS
