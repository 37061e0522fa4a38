"""What a target asks for."""

import numpy as np
import pandas as pd
import pytest

from r2d2net.errors import DataError, ParameterError
from r2d2net.tables.prediction_task import Task, detect_task
from r2d2net.tables.settings import Settings
from r2d2net.tables.training_table import held_out, read_training_table


@pytest.mark.parametrize(
    ("cells", "kind", "classes"),
    [
        (["1.5", "2", "3.25"] * 5, "regression", ()),
        (["10", "20", "30"] * 5, "regression", ()),
        ([str(i) for i in range(30)], "regression", ()),
        (["0", "1"] * 5, "binary", ("0", "1")),
        (["-1", "1"] * 5, "binary", ("-1", "1")),
        (["1", "2", "3"] * 5, "multiclass", ("1", "2", "3")),
        ([str(i % 10) for i in range(30)], "multiclass", tuple("0123456789")),
        (["yes", "no", None] * 5, "binary", ("no", "yes")),
        ([True, False] * 5, "binary", ("False", "True")),
        (["a", "b", "c"] * 5, "multiclass", ("a", "b", "c")),
    ],
)
def test_task_is_detected(cells, kind, classes):
    task = detect_task(pd.Series(cells, dtype=object), "y")
    assert (task.kind, task.classes) == (kind, classes)
    assert Task.of(task.plain()) == task


def test_words_for_nothing_are_no_class_among_numbers_and_said_among_texts():
    numbered = pd.Series(["0", "1", "NA"] * 5, dtype=object)
    task = detect_task(numbered, "y")
    assert (task.kind, task.classes, task.said) == ("binary", ("0", "1"), "")
    np.testing.assert_array_equal(task.read(numbered)[:3], [0, 1, np.nan])
    named = pd.Series(["low", "high", "NA"] * 5, dtype=object)
    task = detect_task(named, "y")
    assert task.classes == ("NA", "high", "low")
    assert task.said.startswith("'NA' is taken as a class: leave its cells empty")
    np.testing.assert_array_equal(task.read(named)[:3], [2, 1, 0])


def test_classes_that_are_one_number_are_one_class():
    cells = pd.Series(["1.5", "1.50", "2.5", "1.5"] * 5, dtype=object)
    task = detect_task(cells, "y")
    assert (task.kind, task.classes) == ("binary", ("1.5", "2.5"))
    np.testing.assert_array_equal(task.read(cells)[:4], [0, 0, 1, 0])
    np.testing.assert_array_equal(
        Task.of(task.plain()).read(pd.Series(["1.500", "+2.5", "3", None])), [0, 1, -1, np.nan]
    )
    commas = pd.Series(["1,5", "1,50", "2,5"] * 5, dtype=object)
    np.testing.assert_array_equal(detect_task(commas, "y").read(commas)[:3], [0, 0, 1])
    assert detect_task(pd.Series(["007", "7", "8"] * 5), "y", "multiclass").classes == ("007", "7", "8")


def test_long_whole_numbers_are_classes_of_their_own():
    whole = pd.Series([12345678901234560, 12345678901234561] * 5)
    for column in (whole, whole.astype(str)):
        task = detect_task(column, "y")
        assert (task.kind, task.classes) == ("binary", ("12345678901234560", "12345678901234561"))
        np.testing.assert_array_equal(task.read(column)[:2], [0, 1])


def test_truth_values_are_two_classes_however_they_are_written():
    task = detect_task(pd.Series([True, False] * 5), "y")
    np.testing.assert_array_equal(task.read(pd.Series(["TRUE", "false", "maybe"])), [1, 0, -1])
    assert detect_task(pd.Series(["TRUE", "True", "FALSE", "TRUE"] * 5), "y").classes == ("FALSE", "TRUE")


def test_classes_that_differ_in_case_or_blanks_are_told_of():
    task = detect_task(pd.Series(["Yes", "yes ", "No", "no", "may be", "maybe", "never"] * 5), "y")
    assert len(task.classes) == 7
    for pair in ("'No', 'no'", "'Yes', 'yes'", "'may be', 'maybe'"):
        assert f"{pair} are classes of their own: write them alike if they are one" in task.said
    assert "never" not in task.said


@pytest.mark.parametrize("told", ["auto", "regression"])
def test_numbers_beyond_all_bounds_are_no_classes(told):
    for cells in (
        [f"{i}e200" for i in range(1, 20)],
        [1e200 * i for i in range(1, 20)],
        ["1", "2", "3e150", "4e150"] * 5,
    ):
        with pytest.raises(
            DataError, match=r"target='y' has values beyond 1e\+100: rescale it to between 1e-15 and 1e\+15"
        ):
            detect_task(pd.Series(cells), "y", told)
    assert detect_task(pd.Series(["1e200", "2e200"] * 5), "y", "binary").classes == ("1e200", "2e200")


def test_durations_are_a_target_in_seconds():
    task = detect_task(pd.Series(pd.to_timedelta(range(30), unit="min")), "y")
    assert (task.kind, task.said) == ("regression", "durations are read as seconds")
    assert task.read(pd.Series(pd.to_timedelta([90, None], unit="s")))[0] == 90


def test_a_file_of_few_rows_is_told_so_before_its_target_is_looked_at(tmp_path):
    (tmp_path / "two.csv").write_text("x,y\n1,3.5\n2,4.5\n")
    with pytest.raises(DataError, match=r"two.csv has 2 rows: give at least 10$"):
        read_training_table(tmp_path / "two.csv", Settings(target="y"))


def test_the_user_overrides_and_is_told_where_that_cannot_be():
    whole = pd.Series(["1", "2", "3"] * 5)
    assert detect_task(whole, "y", "regression").kind == "regression"
    assert detect_task(pd.Series([1.0, 5.0, 9.0] * 5), "y", "multiclass").classes == ("1", "5", "9")
    with pytest.raises(DataError, match=r"task='binary': y has 3 classes: use multiclass"):
        detect_task(whole, "y", "binary")
    with pytest.raises(DataError, match=r"task='regression': only 0 of 4 values are numbers, 'a' is not"):
        detect_task(pd.Series(list("abab")), "y", "regression")
    with pytest.raises(DataError, match="there is nothing to learn"):
        detect_task(pd.Series(["3"] * 5), "y")
    with pytest.raises(DataError, match="one row of 'c'"):
        detect_task(pd.Series(list("ababc")), "y")
    with pytest.raises(ParameterError, match="task='ranking'"):
        detect_task(whole, "y", "ranking")


def test_counts_that_were_taken_for_classes_are_told_of_regression():
    few = pd.Series([str(i % 7) for i in range(30)] + ["7"], dtype=object)
    said = r"multiclass was detected, 8 classes by their numbers, and '7' has one row: use task='regression' if"
    with pytest.raises(DataError, match=f"target='y': {said}"):
        detect_task(few, "y")
    with pytest.raises(DataError, match="'7', '8' have one row each: use task='regression'"):
        detect_task(pd.concat([few, pd.Series(["8"])], ignore_index=True), "y")
    with pytest.raises(DataError, match=r"one row of '7': give at least two rows a class$"):
        detect_task(few, "y", "multiclass")
    assert detect_task(few, "y", "regression").kind == "regression"


def test_a_target_with_a_unit_is_told_how_to_be_a_number():
    with pytest.raises(DataError, match="'0 kg' looks like a number with a unit: write the cells without 'kg'"):
        detect_task(pd.Series([f"{i} kg" for i in range(120)], dtype=object), "y")
    assert "'1 kg' looks like a number" in detect_task(pd.Series(["1 kg", "2 kg"] * 9, dtype=object), "y").said


@pytest.mark.parametrize(
    ("target", "names", "message"),
    [
        ("Price", "area,price", r"it has 'area', 'price'; did you mean 'price'\?$"),
        ("pirce", "area,price", r"did you mean 'price'\?$"),
        ("cost", "area,price", r"it has 'area', 'price'$"),
        ("price", "35.5,120", r"whose first line looks like data \('35.5', '120'\): put a line of names before it$"),
        ("price", "35,35", r"several columns called '35': its first line looks like data: put a line of names"),
    ],
)
def test_a_target_that_is_no_column_is_met_with_what_is_wrong(tmp_path, target, names, message):
    path = tmp_path / "t.csv"
    path.write_text(names + "\n" + "".join(f"{i * i % 97},{i}\n" for i in range(40)))
    with pytest.raises((DataError, ParameterError), match=message):
        read_training_table(path, Settings(target=target))


def test_a_first_line_of_numbers_is_taken_as_names_and_it_is_said(tmp_path):
    path = tmp_path / "t.csv"
    note = "the first line is taken as names, '35.5', '120': if it is data, put a line of names before it"
    for names in ("35.5,120", "x,120"):
        path.write_text(names + "\n" + "".join(f"{i * i % 97},{i * 1.5}\n" for i in range(40)))
        assert (note in read_training_table(path, Settings(target="120")).notes) == (names == "35.5,120")


def test_targets_are_read_as_numbers_or_class_numbers():
    task = Task("y", "multiclass", ("1", "2"))
    read = task.read(pd.Series(["2", "1.0", "3", None]))
    np.testing.assert_array_equal(read, [1, 0, -1, np.nan])


def test_rows_without_target_are_left_out_and_the_rest_is_split_by_seed_and_class(tmp_path):
    path = tmp_path / "t.csv"
    labels = ["rare"] * 10 + ["often"] * 90 + [""] * 7
    path.write_text("x,y\n" + "".join(f"{i * i % 97},{label}\n" for i, label in enumerate(labels)))
    settings = Settings(target="y")
    found = read_training_table(path, settings)
    assert found.rows == {"training": 70, "validation": 10, "test": 20}
    assert "7 rows without a readable y left out" in found.notes
    assert found.task.classes == ("often", "rare")
    assert int(found.y_test.sum()) == 2  # a fifth of the rare ones
    again = read_training_table(path, settings)
    np.testing.assert_array_equal(found.test_rows, again.test_rows)
    other = read_training_table(path, Settings(target="y", seed=1))
    assert found.test_rows.tolist() != other.test_rows.tolist()
    # nothing of the test rows enters what is learnt
    train = np.setdiff1d(np.arange(100), found.test_rows)
    assert found.columns.used[0].mean == pytest.approx(np.mean([i * i % 97 for i in train]))


def test_targets_written_with_marks_are_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;price\n" + "".join(f"{i * i % 97};{i * 37 + 100},50 €\n" for i in range(40)))
    found = read_training_table(path, Settings(target="price", test=0))
    assert found.task.kind == "regression"
    assert found.y.tolist() == [i * 37 + 100.5 for i in range(40)]
    assert "target price: '1025,50 €' is read as the number 1025.5" in found.notes
    assert Task.of(found.task.plain()) == found.task


@pytest.mark.parametrize("seed", range(5))
def test_validation_rows_have_each_class_by_its_share_and_all_classes_train(tmp_path, seed):
    path = tmp_path / "t.csv"
    labels = ["often"] * 150 + ["some"] * 40 + ["rare"] * 10
    path.write_text("x,y\n" + "".join(f"{i * i % 97},{label}\n" for i, label in enumerate(labels)))
    found = read_training_table(path, Settings(target="y", seed=seed, test=0.2, validation=0.2))
    assert found.rows == {"training": 120, "validation": 40, "test": 40}
    for rows in (found.y[found.held], found.y_test):  # classes are often, rare, some
        assert np.bincount(rows.astype(int), minlength=3).tolist() == [30, 2, 8]


def test_classes_of_few_rows_keep_some_to_train():
    y = np.repeat(np.arange(30.0), 2)
    for count in (1, 10, 50):
        held = held_out(y, count, 0, by_class=True, stay=1)
        assert 0 < held.sum() <= count
        assert set(y[~held]) == set(y)
    assert held_out(y, 12, 0, by_class=True, stay=1).sum() == 12
    assert not held_out(y, 12, 0, by_class=True, stay=2).any()
    assert held_out(y, 9, 4, by_class=False, stay=2).sum() == 9


@pytest.mark.parametrize("cells", [["2020-01-%02d", "2021-02-%02d"], ["%d/12/2020", "%d/1/2021"], ["%d Jan 2020"]])
@pytest.mark.parametrize("told", ["auto", "regression"])
def test_dates_are_no_target_unless_they_are_told_to_be_classes(cells, told):
    column = pd.Series([cell % (1 + i) for cell in cells for i in range(20)] * 2, dtype=object)
    fix = "write them as numbers, such as days since the first, or take each as a class by task='multiclass'$"
    with pytest.raises(DataError, match=f"target='y' has dates such as {column[0]!r}: {fix}"):
        detect_task(column, "y", told)
    assert len(detect_task(column, "y", "multiclass").classes) == 20 * len(cells)


def test_doubtful_targets_are_read_and_it_is_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(f"{i * i % 97};{1 + i % 9},{100 + i}\n" for i in range(150)))
    found = read_training_table(path, Settings(target="y", test=0))
    assert found.y[1] == 2.101
    said = "'1,100' is read as the number 1.1, as semicolons separate the fields; --decimal . reads 1100"
    assert f"target y: {said}" in found.notes
    assert read_training_table(path, Settings(target="y", test=0, decimal=".")).y[1] == 2101
