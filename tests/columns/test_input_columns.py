"""Columns as they are learnt and matched: kinds, fillings, levels, names."""

from collections import Counter
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from r2d2net.columns.column_detection import Targets
from r2d2net.columns.input_columns import Columns, notes_of
from r2d2net.errors import DataError, ParameterError
from table_runs import learn_columns


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
    assert found.left_out["line"] == "the number of the row; --keep 'line' uses it, a time for example"
    assert (found.left_out["same"], found.left_out["empty"]) == ("constant", "empty")


def test_numbers_are_standardised_and_missing_ones_become_the_training_median():
    train = table(y=["0"] * 6, x=["1", "2", "3", "10", None, "4"])
    columns = learn_columns(train, "y")
    counts = Counter()
    encoded = columns.encode(table(x=[None, "oops", "inf", "3", "-1e200"]), counts)
    filled = np.array([1, 2, 3, 10, 3, 4])
    expected = (np.array([3, 3, 10, 3, 1]) - filled.mean()) / filled.std()  # infinite ones: the ends of training
    np.testing.assert_allclose(encoded.x[:, 0], expected)
    assert encoded.filled.tolist() == [1, 1, 1, 0, 1]
    # training rows had gaps too, but nothing so far away, and nothing that could not be read
    assert encoded.strange.tolist() == [False, True, True, False, True]
    assert (counts["x", "missing"], counts["x", "unreadable"], counts["x", "infinite"]) == (1, 1, 2)
    assert len(notes_of(counts)) == 3
    far = columns.encode(table(x=["1e99", "-1e99"])).x[:, 0]
    assert np.isfinite(far.astype(np.float32)).all()


def test_gaps_that_training_rows_did_not_have_are_counted_and_strange():
    train = table(y=["0"] * 6, x=["1", "2", "3", "10", "5", "4"], g=list("ababab"), z=["1", "2", None, "4", "5", "9"])
    columns = learn_columns(train, "y")
    new = table(x=["1", None, "inf", "2"], g=["a", None, "b", "b"], z=["1", "2", "3", None])
    counts = Counter()
    encoded = columns.encode(new, counts)
    assert encoded.filled.tolist() == [0, 2, 1, 1]
    assert encoded.strange.tolist() == [False, True, True, False]
    columns.require_cells(counts, 4, "new.csv")
    for cells, what in ((["oops", "?"], "readable"), ([None, ""], "filled")):
        counts = Counter()
        columns.encode(table(x=5 * cells, g=5 * ["a", "b"], z=10 * [None]), counts)
        columns.require_cells(
            Counter({key: count - 1 for key, count in counts.items()}), 9, "new.csv"
        )  # so few may be gaps
        with pytest.raises(DataError, match=rf"new.csv: column 'x' has no {what} cell, training rows had no gaps"):
            columns.require_cells(counts, 10, "new.csv")


@pytest.mark.parametrize("gap", [None, "7"])
def test_cells_that_cannot_be_read_are_no_gaps_whatever_the_gaps_of_training(gap):
    """A column of decimal commas is refused where training had points; a few such cells mark their rows."""
    areas = [f"{50 + i * i % 37}.{i % 10}" for i in range(39)]
    columns = learn_columns(table(y=["0"] * 40, area=[gap, *areas], g=["a", "b"] * 20), "y")
    fix = r"as (they|the training rows) were \(with decimal points\)"
    for cells in (["106,9"] * 40, ["106,9"] * 5 + ["107"] * 35, [*["106,9"] * 12, *[None] * 28]):
        counts = Counter()
        columns.encode(table(area=cells, g=["a"] * 40), counts)
        with pytest.raises(DataError, match=rf"new.csv: column 'area'.* (readable cell|cannot be read).*{fix}"):
            columns.require_cells(counts, 40, "new.csv")
    counts = Counter()
    encoded = columns.encode(table(area=["106,9"] * 4 + ["107"] * 36, g=["a"] * 40), counts)
    columns.require_cells(counts, 40, "new.csv")
    assert encoded.strange.tolist() == [True] * 4 + [False] * 36


def test_how_cells_were_written_is_said_of_dates_and_money():
    rows = table(
        y=["0"] * 20,
        day=[f"{1 + i}.12.2024" for i in range(20)],
        iso=[f"2024-01-{1 + i * i % 19:02d}" for i in range(20)],
        cost=[f"1.{100 + i * i % 37},50 €" for i in range(20)],
    )
    columns = learn_columns(rows, "y")
    for name, how in (("day", "day.month.year"), ("iso", "year-month-day"), ("cost", "with decimal commas and €")):
        counts = Counter()
        columns.encode(rows.assign(**{name: "12/31/24"}), counts)
        with pytest.raises(DataError, match=rf"column '{name}' .* written as they were \({how}\)"):
            columns.require_cells(counts, 20, "new.csv")


def test_cells_that_training_rows_could_not_read_either_mark_no_row():
    columns = learn_columns(table(y=["0"] * 20, x=["closed", *(str(i * i % 37) for i in range(19))]), "y")
    assert columns.encode(table(x=["closed", None, "3"])).strange.tolist() == [False, False, False]
    assert Columns.of(columns.plain()) == columns
    for closed in (2, 10):  # more than a tenth of a few rows is chance, more than half is not
        counts = Counter()
        columns.encode(table(x=["closed"] * closed + ["3"] * 9), counts)
        with nullcontext() if closed == 2 else pytest.raises(DataError, match="10 of 19 filled cells cannot be read"):
            columns.require_cells(counts, closed + 9, "new.csv")


def test_large_offsets_keep_their_digits():
    values = 1e12 + np.arange(20)[::-1]
    columns = learn_columns(table(y=["0"] * 20, x=[f"{v:.0f}" for v in values]), "y")
    encoded = columns.encode(table(x=[f"{v:.0f}" for v in values])).x.astype(np.float32)[:, 0]
    np.testing.assert_allclose(encoded, (values - values.mean()) / values.std(), rtol=1e-5)


def test_levels_rare_missing_and_never_seen():
    cells = ["a"] * 500 + ["b"] * 400 + ["c"] * 88 + ["d", "e", "f", "g"] * 3
    columns = learn_columns(table(y=["0"] * 1000, x=cells), "y")
    assert columns.used[0].inputs == ["x=a", "x=b", "x=c", "x=(other)"]
    encoded = columns.encode(table(x=["b", "d", "new", None, " a "]))
    assert encoded.strange.tolist() == [False, False, False, True, False]
    average = [0.5, 0.4, 0.088, 0.012]
    assert encoded.x.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], average, [1, 0, 0, 0]]

    columns = learn_columns(table(y=["0"] * 30, x=["a", "b", None] * 10), "y")
    assert columns.used[0].inputs == ["x=a", "x=b", "x=(missing)"]
    counts = Counter()
    encoded = columns.encode(table(x=["new", None]), counts)
    assert encoded.x.tolist() == [[0.5, 0.5, 0], [0, 0, 1]]
    assert encoded.strange.tolist() == [True, False]
    assert encoded.filled.tolist() == [0, 0]
    assert counts["x", "unseen"] == 1


@pytest.mark.parametrize(("rows", "missing", "level"), [(100, 9, False), (100, 10, True), (4000, 39, False)])
def test_missing_cells_have_an_input_only_where_they_are_common(rows, missing, level):
    """One in a hundred rows and ten of them: fewer cells are the average over levels, and numbers the median alone."""
    rest = rows - missing
    cells = ["a"] * 60 + ["b"] * (rest - 60) + [None] * missing
    numbers = [str(i * i % 97) for i in range(rest)] + [None] * missing
    columns = learn_columns(table(y=["0"] * rows, x=cells, n=numbers), "y")
    x, n = columns.used
    assert (x.missing, x.seldom_missing, n.indicator, x.gaps) == (level, not level, level, True)
    encoded = columns.encode(table(x=[None], n=["3"]))
    assert encoded.strange.tolist() == [False]
    assert encoded.filled.tolist() == [0 if level else 1]
    shares = {"x=a": 60 / rest, "x=b": 1 - 60 / rest}
    np.testing.assert_allclose(encoded.x[0, : len(x.inputs)], [0, 0, 1] if level else [shares[i] for i in x.inputs])


def test_a_few_cells_of_rare_levels_are_the_average_over_levels():
    columns = learn_columns(table(y=["0"] * 4000, x=["a"] * 1000 + ["b"] * 2981 + ["rare"] * 19), "y")
    assert (columns.used[0].inputs, columns.used[0].rare) == (["x=b", "x=a"], ["rare"])
    counts = Counter()
    encoded = columns.encode(table(x=["rare", "new"]), counts)
    np.testing.assert_allclose(encoded.x, [[2981 / 3981, 1000 / 3981]] * 2)
    assert not encoded.strange.any()
    assert notes_of(counts) == ["2 cells of levels that are rare or unknown, taken as the average over levels: x 2"]


def test_numbers_that_are_often_missing_have_an_indicator_once_for_columns_missing_together():
    numbers = [None if i % 5 == 0 else str(i * i % 37) for i in range(100)]
    others = [None if i % 7 == 0 else str(i * i % 31) for i in range(100)]
    columns = learn_columns(table(y=["0"] * 100, a=numbers, b=numbers, c=others), "y")
    assert [len(column.inputs) for column in columns.used] == [2, 1, 2]
    assert columns.used[0].inputs == ["a", "a=(missing)"]
    encoded = columns.encode(table(a=[None, "3", "oops", "inf"], b=["1"] * 4, c=["1"] * 4))
    assert encoded.x[:, 1].tolist() == [1, 0, 1, 0]
    assert encoded.filled.tolist() == [1, 0, 1, 1]
    assert Columns.of(columns.plain()) == columns


def test_columns_of_older_runs_are_encoded_as_they_were():
    """Without an average, a missing cell was the most frequent level and an unknown one no level."""
    number = {"name": "n", "kind": "date", "median": 1.0, "mean": 0.0, "sd": 2.0, "low": 0.0, "high": 9.0, "gaps": True}
    category = {"name": "x", "levels": ["a", "b"], "other": False, "missing": False, "kind": "category"}
    columns = Columns.of({"used": [number, category], "left_out": {}, "read_as": {}})
    encoded = columns.encode(table(n=["1970-01-03", None], x=[None, "new"]))
    assert encoded.x.tolist() == [[1, 1, 0], [0.5, 0, 0]]


def test_a_hundred_levels_have_an_input_each_if_there_are_rows_for_them():
    def used(levels, rows):
        cells = [f"level {i % levels}" for i in range(rows)]
        return learn_columns(table(y=["0"] * rows, x=cells, z=["a", "b"] * (rows // 2)), "y").used[0]

    assert len(used(51, 2500).inputs) == 51
    assert len(used(100, 1000).inputs) == 100
    assert len(used(20, 60).inputs) == 20
    # more levels, or too few rows for them: averages of the target, of which there are none here
    assert used(101, 2000).name == used(51, 500).name == "z"


def test_codes_in_numbers_are_the_same_from_csv_and_parquet_but_leading_zeros_count():
    columns = learn_columns(table(y=["0"] * 6, x=["1", "2", "007"] * 2), "y", categorical=["x"])
    assert (
        columns.encode(pd.DataFrame({"x": [1.0, 2.0]})).x.tolist() == columns.encode(table(x=["1", "2.0"])).x.tolist()
    )
    assert columns.encode(table(x=["7"])).strange.all()


@pytest.mark.parametrize("train", [[True, False], ["TRUE", "FALSE"], ["true", "false"], ["True", "False"]])
def test_truth_values_are_the_same_however_they_are_written(train):
    columns = learn_columns(table(y=["0"] * 20, x=train * 10), "y")
    assert sorted(columns.used[0].levels) == sorted(map(str, train))
    known = columns.encode(pd.DataFrame({"x": train})).x.tolist()
    for cells in (["TRUE", "FALSE"], ["true", "false"], ["True", "False"], [True, False]):
        encoded = columns.encode(table(x=cells))
        assert encoded.x.tolist() == known
        assert not encoded.strange.any()


def test_truth_values_of_several_spellings_are_two_levels_unless_there_are_others():
    cells = ["TRUE", "True", "true", "FALSE", "TRUE", None] * 10
    assert learn_columns(table(y=["0"] * 60, x=cells), "y").used[0].inputs == ["x=TRUE", "x=FALSE", "x=(missing)"]
    others = learn_columns(table(y=["0"] * 20, x=["TRUE", "true", "FALSE", "maybe"] * 5), "y")
    assert sorted(others.used[0].levels) == ["FALSE", "TRUE", "maybe", "true"]
    assert others.encode(table(x=["False"])).strange.all()


def test_a_column_without_one_known_level_is_refused():
    columns = learn_columns(table(y=["0"] * 40, x=["north", "south"] * 20, g=["a", "b", "c", "d"] * 10), "y")
    for count, known in ((10, 0), (9, 0), (40, 1)):
        counts = Counter()
        cells = ["NORTH"] * count + ["north"] * known
        columns.encode(table(x=cells + [None] * 5, g=["a"] * (len(cells) + 5)), counts)
        what = "column 'x': none of 10 filled cells is of a level that training rows had"
        fix = r"write them as there \('north', 'south'\), or fit again with rows like these"
        refused = pytest.raises(DataError, match=f"new.csv: {what}: {fix}")
        with refused if count == 10 else nullcontext():
            columns.require_cells(counts, len(cells) + 5, "new.csv")
    assert Columns.of(columns.plain()) == columns


def test_rare_levels_are_known_and_new_ones_expected_where_nearly_all_were_rare():
    often = ["a"] * 500 + ["b"] * 490 + [f"rare {i}" for i in range(5) for _ in range(2)]
    nearly_none = ["a"] * 20 + [f"id {i}" for i in range(980)]
    targets = Targets.of(np.array([5.0] * 20 + [i % 3 for i in range(980)]), [], 0)
    rows = table(y=["0"] * 1000, often=often, nearly=nearly_none)
    assert "980 of them in one row only: an identifier" in learn_columns(rows, "y").left_out["nearly"]
    columns = learn_columns(rows, "y", keep=["nearly"], targets=targets)
    assert [column.kind for column in columns.used] == ["category", "category by target"]
    for cell, refused in (("rare 3", False), ("A", True)):
        counts = Counter()
        columns.encode(table(often=[cell] * 50, nearly=[f"new {i}" for i in range(50)]), counts)
        with pytest.raises(DataError, match="column 'often': none of 50") if refused else nullcontext():
            columns.require_cells(counts, 50, "new.csv")


def test_durations_are_numbers_of_seconds():
    spans = pd.Series(pd.to_timedelta([i * i % 37 for i in range(39)] + [None], unit="min"))
    columns = learn_columns(pd.DataFrame({"y": ["0"] * 40, "x": spans}), "y")
    assert columns.read_as == {"x": "durations are read as seconds"}
    assert (columns.used[0].kind, columns.used[0].low, columns.used[0].high) == ("number", 0, 36 * 60)
    assert (
        columns.encode(pd.DataFrame({"x": spans[:9]})).x.tolist()
        == columns.encode(table(x=[str(60 * (i * i % 37)) for i in range(9)])).x.tolist()
    )


def test_tables_are_matched_by_name():
    columns = learn_columns(table(y=["0"] * 4, x=list("abab"), Age=["1", "2", "4", "4"]), "y")
    new = table(extra=["1"], Age=["2"], x=["b"])
    assert columns.match(list(new.columns), "new.csv", "y") == ["extra"]
    assert columns.encode(new).x.tolist() == columns.encode(new[["x", "Age"]]).x.tolist()
    with pytest.raises(DataError, match=r"new.csv lacks the columns 'x', 'Age': add them"):
        columns.match(["z"], "new.csv")
    with pytest.raises(
        DataError, match=r"lacks the columns 'x', 'Age', and its first line looks like data \('1.5', '3', 'b'\)"
    ):
        columns.match(["1.5", "3", "b"], "new.csv")
    with pytest.raises(DataError, match=r"lacks the column 'Age'; it has 'age': rename"):
        columns.match(["x", "age"], "new.csv")


def test_columns_come_back_from_json_as_they_were():
    train = table(y=["0"] * 6, x=list("ababab"), z=["1", "2", "4", "4", None, "9,5"])
    columns = learn_columns(train, "y")
    assert columns.read_as == {"z": "'9,5' is read as the number 9.5"}
    again = Columns.of(columns.plain())
    assert again == columns
    assert again.encode(train).x.tolist() == columns.encode(train).x.tolist()
    assert again.groups == [[0, 1], [2]]


def test_options_that_name_no_column_and_tables_without_inputs_are_one_line():
    train = table(y=["0"] * 4, x=list("abab"))
    with pytest.raises(ParameterError, match="ignore names 'zz': the table has 'y', 'x'"):
        learn_columns(train, "y", ignore=["zz"])
    with pytest.raises(DataError, match=r"no column besides 'y' can be used: 'x' \(as told\); add .* keep$"):
        learn_columns(train, "y", ignore=["x"])


def test_row_numbers_are_kept_if_told():
    train = table(y=["0"] * 8, month=[str(i) for i in range(8)], x=list("abababab"))
    assert "--keep 'month' uses it" in learn_columns(train, "y").left_out["month"]
    assert learn_columns(train, "y", keep=["month"]).names == ["month", "x"]
    with pytest.raises(ParameterError, match="keep names 'zz'"):
        learn_columns(train, "y", keep=["zz"])


def test_codes_with_leading_zeros_are_categories():
    train = table(y=["0"] * 6, code=["00123", "12345", "54321"] * 2, x=["0", "0.5", "10", "2", "3", "-1"])
    columns = learn_columns(train, "y")
    assert [column.kind for column in columns.used] == ["category", "number"]
    assert columns.used[0].levels == ["00123", "12345", "54321"]
    assert columns.read_as == {"code": "'00123' has leading zeros, so it is read as codes, not numbers"}


def test_numbers_with_a_unit_are_categories_and_it_is_said_how_to_mend_it():
    rows = 40
    train = table(
        y=["0"] * rows,
        weight=[f"{1 + i % 3}.5 kg" for i in range(rows)],
        area=[f"{i * i} m2" for i in range(rows)],
        heat=["30°C", "31°C", None, "29°C"] * 10,
        told=["1 h", "2 h"] * (rows // 2),
        flat=["12a", "12b", "3c", "4d"] * 10,
        place=["1st", "2nd", "3rd", "4th"] * 10,
        mixed=["1 g", "1 kg", "2 g", "2 kg"] * 10,
    )
    columns = learn_columns(train, "y", categorical=["told"])
    said = "looks like a number with a unit: write the cells without"
    assert columns.read_as == {
        "weight": f"'1.5 kg' {said} 'kg' to have it read as one",
        "heat": f"'30°C' {said} '°C' to have it read as one",
    }
    assert list(columns.left_out) == ["area"]
    assert columns.left_out["area"].endswith(f"; '0 m2' {said} 'm2' to have it read as one")


def test_names_with_commas_are_names_first():
    train = table(**{"y": ["0"] * 4, "a,b": list("abab"), "a": list("aabb"), "b": list("abba")})
    assert learn_columns(train, "y", ignore=["a,b"]).names == ["a", "b"]
    assert learn_columns(train, "y", ignore=["b, a"]).names == ["a,b"]
    assert learn_columns(train, "y", ignore=["a", "b"]).names == ["a,b"]
