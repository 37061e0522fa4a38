"""Test rows at the end of time: which rows they are, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

from r2d2net.errors import DataError, ParameterError
from r2d2net.tables.settings import Settings
from r2d2net.tables.time_split import last_rows
from r2d2net.tables.training_table import read_training_table
from table_runs import command


@pytest.fixture
def dated(tmp_path):
    """200 rows in no order of time."""
    rng = np.random.default_rng(0)
    order = rng.permutation(200)
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(order, unit="D")
    table = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "x": rng.normal(size=200), "y": rng.normal(size=200)})
    table["step"] = order[::-1]
    table["late"] = np.where(order >= 170, "new", np.where(order % 2, "odd", "even"))
    table["word"] = np.where(order % 2, "a", "b")
    return table, tmp_path / "dated.csv"


def read(dated, **settings):
    table, path = dated
    table.to_csv(path, index=False)
    return read_training_table(path, Settings.of({"target": "y", **settings}))


def test_the_last_rows_by_the_only_date_are_the_test_rows(dated):
    table, _ = dated
    split = read(dated, split="time", test=0.25)
    assert sorted(table["day"].iloc[split.test_rows]) == sorted(table["day"])[-50:]
    assert "the test rows are the last 50 by 'day'" in split.notes
    assert not any("drawn at random" in note for note in split.notes)
    at_random = read(dated)
    note = "rows have dates ('day'), and the test rows are drawn at random: if new rows will be of a later time"
    assert any(said.startswith(note) for said in at_random.notes)
    assert sorted(table["day"].iloc[at_random.test_rows]) != sorted(table["day"])[-40:]


def test_rows_without_a_date_are_training_rows_and_numbers_may_order_rows(dated):
    table, _ = dated
    table.loc[:9, "day"] = None
    split = read(dated, split="time")
    assert set(split.test_rows).isdisjoint(range(10))
    assert "the test rows are the last 40 by 'day'; 10 rows without one used for training" in split.notes
    split = read(dated, split="time", split_column="step")
    assert sorted(table["step"].iloc[split.test_rows]) == list(range(160, 200))


def test_what_has_no_order_in_time_is_refused(dated):
    table, path = dated
    with pytest.raises(ParameterError, match=r"split_column='word' has neither dates nor numbers"):
        read(dated, split="time", split_column="word")
    with pytest.raises(ParameterError, match=r"split_column='dya' is no column: the table has 'day', "):
        read(dated, split="time", split_column="dya")
    with pytest.raises(ParameterError, match=r"split_column='day' orders rows in time: give split"):
        read(dated, split_column="day")
    with pytest.raises(ParameterError, match=r"split='time' needs a column of dates, there is none: name one by split"):
        read(dated, split="time", ignore=["day"])
    with pytest.raises(DataError, match=r"split='time' leaves fewer than 2 training rows of 'new'"):
        read(dated, target="late", split="time")
    table["end"] = table["day"]
    with pytest.raises(ParameterError, match=r"needs a column of dates, and there are 'day', 'end': name one by"):
        read(dated, split="time")
    ended = command("fit", path, "--target", "y", "--split", "time", "--out", path.parent / "run")
    assert ended.code == 2
    assert len(ended.error.strip().splitlines()) == 1
    assert "--split-column" in ended.error


def test_ties_stay_in_the_order_of_the_file_and_few_times_give_few_rows():
    assert last_rows(np.array([1.0, 2, 2, 2, 0]), 2).tolist() == [False, False, True, True, False]
    assert last_rows(np.array([1.0, np.nan, np.nan]), 2).tolist() == [True, False, False]
    assert not last_rows(np.array([1.0, 2.0]), 0).any()


def test_a_run_keeps_its_split(dated):
    table, path = dated
    table.to_csv(path, index=False)
    options = ["--split", "time", "--split-column", "day", "--hidden", "0", "--epochs", "5", "--out"]
    assert command("fit", path, "--target", "y", *options, path.parent / "run", "--quiet").code == 0
    settings = json.loads((path.parent / "run" / "run.json").read_text())["settings"]
    assert Settings.back(settings).split_column == "day"
    older = {name: value for name, value in settings.items() if name not in ("split", "split_column")}
    assert Settings.back(older).split == "random"
