"""Columns as they are learnt and matched: kinds, fillings, levels, names."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from r2d2net.errors import DataError, ParameterError
from r2d2net.tables.columns import Columns, notes_of
from r2d2net.tables.learning import learn_columns


def table(**columns):
    """A table of texts, as a CSV file is read."""
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


def test_kinds_are_learnt_and_what_is_no_input_is_left_out_with_a_reason():
    rows = 40
    found = learn_columns(
        table(
            y=["1"] * rows,
            number=[f"{i / 7:.3f}" for i in range(rows)],
            mostly=["?", *(str(i * i) for i in range(rows - 1))],
            day=[f"2024-02-{1 + i % 28:02d}" for i in range(rows)],
            level=["a", "b"] * (rows // 2),
            truth=[True, False] * (rows // 2),
            code=["1", "2"] * (rows // 2),
            name=[f"person {i}" for i in range(rows)],
            line=[str(i + 1) for i in range(rows)],
            same=["3.0"] * rows,
            empty=[None] * rows,
            unwanted=["a", "b"] * (rows // 2),
        ),
        "y",
        categorical=["code"],
        ignore=["unwanted"],
    )
    kinds = {column.name: column.kind for column in found.used}
    assert kinds == {
        "number": "number",
        "mostly": "number",
        "day": "date",
        "level": "category",
        "truth": "category",
        "code": "category",
    }
    assert list(found.left_out) == ["name", "line", "same", "empty", "unwanted"]
    assert "identifier" in found.left_out["name"]
    assert found.left_out["line"] == "the number of the row"
    assert (found.left_out["same"], found.left_out["empty"]) == ("constant", "empty")


def test_numbers_are_standardised_and_missing_ones_become_the_training_median():
    train = table(y=["0"] * 6, x=["1", "2", "3", "10", None, "4"])
    columns = learn_columns(train, "y")
    counts = Counter()
    encoded = columns.encode(table(x=[None, "oops", "inf", "3", "1e200"]), counts)[:, 0]
    filled = np.array([1, 2, 3, 10, 3, 4])
    np.testing.assert_allclose(encoded, (3 - filled.mean()) / filled.std())
    assert (counts["x", "missing"], counts["x", "unreadable"]) == (1, 3)
    assert len(notes_of(counts)) == 2
    far = columns.encode(table(x=["1e99", "-1e99"]))[:, 0]
    assert np.isfinite(far.astype(np.float32)).all()


def test_large_offsets_keep_their_digits():
    values = 1e12 + np.arange(20)[::-1]
    columns = learn_columns(table(y=["0"] * 20, x=[f"{v:.0f}" for v in values]), "y")
    encoded = columns.encode(table(x=[f"{v:.0f}" for v in values])).astype(np.float32)[:, 0]
    np.testing.assert_allclose(encoded, (values - values.mean()) / values.std(), rtol=1e-5)


def test_levels_rare_missing_and_never_seen():
    cells = ["a"] * 500 + ["b"] * 400 + ["c"] * 98 + ["d", "e"]
    columns = learn_columns(table(y=["0"] * 1000, x=cells), "y")
    assert columns.used[0].inputs == ["x=a", "x=b", "x=c", "x=(other)"]
    encoded = columns.encode(table(x=["b", "d", "new", None, " a "]))
    assert encoded.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0]]

    columns = learn_columns(table(y=["0"] * 6, x=["a", "b", None] * 2), "y")
    assert columns.used[0].inputs == ["x=a", "x=b", "x=(missing)"]
    counts = Counter()
    encoded = columns.encode(table(x=["new", None]), counts)
    assert encoded.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert columns.unseen(encoded).tolist() == [True, False]
    assert counts["x", "unseen"] == 1


def test_codes_in_numbers_are_the_same_from_csv_and_parquet_but_leading_zeros_count():
    columns = learn_columns(table(y=["0"] * 6, x=["1", "2", "007"] * 2), "y", categorical=["x"])
    assert columns.encode(pd.DataFrame({"x": [1.0, 2.0]})).tolist() == columns.encode(table(x=["1", "2.0"])).tolist()
    assert columns.encode(table(x=["7"])).sum() == 0


def test_tables_are_matched_by_name():
    columns = learn_columns(table(y=["0"] * 4, x=list("abab"), Age=["1", "2", "4", "4"]), "y")
    new = table(extra=["1"], Age=["2"], x=["b"])
    assert columns.match(list(new.columns), "new.csv", "y") == ["extra"]
    assert columns.encode(new).tolist() == columns.encode(new[["x", "Age"]]).tolist()
    with pytest.raises(DataError, match=r"new.csv lacks the columns 'x', 'Age': add them"):
        columns.match(["z"], "new.csv")
    with pytest.raises(DataError, match=r"lacks the columns 'Age'; it has 'age': rename"):
        columns.match(["x", "age"], "new.csv")


def test_columns_come_back_from_json_as_they_were():
    train = table(y=["0"] * 6, x=list("ababab"), z=["1", "2", "4", "4", None, "9"])
    columns = learn_columns(train, "y")
    again = Columns.of(columns.plain())
    assert again == columns
    assert again.encode(train).tolist() == columns.encode(train).tolist()
    assert again.groups == [[0, 1], [2]]


def test_options_that_name_no_column_and_tables_without_inputs_are_one_line():
    train = table(y=["0"] * 4, x=list("abab"))
    with pytest.raises(ParameterError, match="--ignore names 'zz': the table has 'y', 'x'"):
        learn_columns(train, "y", ignore=["zz"])
    with pytest.raises(DataError, match=r"no column besides 'y' can be used: 'x' \(as told\)"):
        learn_columns(train, "y", ignore=["x"])
