"""One file has one convention: doubtful columns are read as clear ones are, or as the user tells."""

import numpy as np
import pandas as pd
import pytest

from r2d2net.columns.format_rules import detect_format_rules
from r2d2net.columns.input_columns import Columns
from r2d2net.errors import ParameterError
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.settings import Settings
from r2d2net.tables.training_table import read_training_table
from table_runs import learn_columns

ROWS = 30
SALES = [f"{2 + i}.{100 + i * 7}" for i in range(ROWS)]  # 2.100: two, or two thousand
RATIO = [f"{2 + i},{100 + i * 7}" for i in range(ROWS)]
WEIGHT = [f"{i},{10 + i}" for i in range(ROWS)]
HEIGHT = [f"{i}.{10 + i}" for i in range(ROWS)]
WHOLE = [str(i * i) for i in range(ROWS)]
TABLE = {"sales": SALES, "ratio": RATIO, "weight": WEIGHT, "height": HEIGHT, "whole": WHOLE, "n": WHOLE}
TABLE["fee"] = [f"€{cell}" for cell in SALES]
TABLE["day"] = [f"{1 + i % 12:02d}/{1 + i * 5 % 12:02d}/2020" for i in range(ROWS)]
TABLE["until"] = [f"{1 + i % 12}/{1 + i % 28}/2020" for i in range(ROWS)]


def table(names):
    return pd.DataFrame({name: pd.Series(TABLE[name], dtype=object) for name in names.split()})


def learnt(names, separator=",", **told):
    rows = table(names).assign(y="0")
    return learn_columns(rows, "y", rules=detect_format_rules(rows, separator, **told))


def read(names, separator=",", **told):
    """The first cell of the first column of some, and what is said of it."""
    columns = learnt(names, separator, **told)
    first = columns.used[0]
    return columns.encode(table(names)[:1]).x[0, 0] * first.sd + first.mean, columns.read_as.get(first.name, "")


@pytest.mark.parametrize(
    ("names", "separator", "told", "value", "why"),
    [
        ("sales weight", ";", "auto", 2100, "as 'weight' has decimal commas ('0,10'); --decimal . reads 10.156"),
        ("sales weight", ",", "auto", 2100, "as 'weight' has decimal commas ('0,10'); --decimal . reads 10.156"),
        ("sales height", ";", "auto", 2.1, ""),  # the usual, whatever separates the fields
        ("sales", ",", "auto", 2.1, "'10.156' is read as the number 10.156; --decimal , reads 10156"),
        ("sales", ";", "auto", 2100, "as semicolons separate the fields; --decimal . reads 10.156"),
        ("sales", ",", ",", 2100, "'10.156' is read as the number 10156, as told"),
        ("sales", ";", ".", 2.1, "'10.156' is read as the number 10.156, as told"),
        ("sales height", ",", ",", 2100, "'10.156' is read as the number 10156, as told"),
        ("ratio height", ";", "auto", 2100, "as 'height' has decimal points ('0.10'); --decimal , reads 10.156"),
        ("ratio weight", ",", "auto", 2.1, "as 'weight' has decimal commas ('0,10'); --decimal . reads 10156"),
        ("ratio", ",", "auto", 2100, "'10,156' is read as the number 10156; --decimal , reads 10.156"),
        ("ratio", ",", ",", 2.1, "'10,156' is read as the number 10.156, as told"),
        ("sales weight height", ";", "auto", 2.1, "'10.156' is read as the number 10.156; --decimal , reads 10156"),
        ("height sales", ",", ",", 0.1, "'10.20' is read as the number 10.2: it is no number with --decimal ,"),
        ("fee", ",", "auto", 2100, "as money has no three decimals; --decimal . reads 10.156"),
        ("fee height", ",", "auto", 2.1, "as 'height' has decimal points ('0.10'); --decimal , reads 10156"),
        ("sales fee", ",", "auto", 2100, "as the money of 'fee' has decimal commas; --decimal . reads 10.156"),
    ],
)
def test_the_sign_of_decimals_is_that_of_the_file(names, separator, told, value, why):
    found, said = read(names, separator, decimal=told)
    assert found == pytest.approx(value)
    assert said.endswith(why)
    assert bool(said) == bool(why)


def test_one_mistaken_cell_does_not_outweigh_a_column():
    rows = table("height n sales").assign(n=["3,75", *WHOLE[1:]])
    assert detect_format_rules(rows).decimal.reading == "."
    assert detect_format_rules(rows.drop(columns="height")).decimal.reading == ","


def test_columns_that_are_no_numbers_have_no_say():
    assert detect_format_rules(table("sales weight"), skip=["weight"]).decimal.reading == ""
    coded = table("sales weight")
    coded.loc[0, "weight"] = "007"
    assert detect_format_rules(coded).decimal.reading == ""


@pytest.mark.parametrize(
    ("names", "told", "form", "said"),
    [
        ("day until", "auto", "%m/%d/%Y", "as 'until' has the month first ('1/13/2020'); --dates day reads it as day/"),
        ("day weight", "auto", "%d/%m/%Y", "as the file has decimal commas; --dates month reads it as month/day/year"),
        ("day", "day", "%d/%m/%Y", "'02/06/2020' is read as the date day/month/year, as told"),
        ("day", "month", "%m/%d/%Y", "'02/06/2020' is read as the date month/day/year, as told"),
        ("day until", "day", "%d/%m/%Y", "as told"),
    ],
)
def test_dates_begin_as_others_do(names, told, form, said):
    columns = learnt(names, dates=told)
    assert (columns.used[0].kind, columns.used[0].form) == ("date", form)
    assert said in columns.read_as["day"]


def test_dates_that_nothing_settles_are_no_dates_and_the_fix_is_said():
    columns = learnt("day height", separator=";")
    assert "day" not in columns.names or columns.used[0].kind == "category"
    assert "--dates day or --dates month" in (columns.left_out | columns.read_as)["day"]


def test_new_files_are_read_as_the_training_table_whatever_they_look_like(tmp_path):
    """Also columns that had no mark in training: 1.200 is twelve hundred where other columns have decimal commas."""
    path = tmp_path / "train.csv"
    rows = table("sales weight whole")
    rows["y"] = [f"{i},125" for i in range(1, ROWS + 1)]
    rows.to_csv(path, sep=";", index=False)
    found = read_training_table(path, Settings(target="y", test=0))
    assert found.y[:2].tolist() == [1.125, 2.125]
    assert found.notes[0].startswith("target y: '10,125' is read as the number 10.125, as 'weight' has decimal commas")
    columns, task = Columns.of(found.columns.plain()), Task.of(found.task.plain())
    new = pd.DataFrame({"sales": ["3.500"], "weight": ["1,250"], "whole": ["1.200"], "y": ["2,500"]})
    values = [x * one.sd + one.mean for x, one in zip(columns.encode(new).x[0], columns.used, strict=True)]
    np.testing.assert_allclose(values, [3500, 1.25, 1200])
    assert task.read(new["y"]).tolist() == [2.5]
    told = read_training_table(path, Settings(target="y", test=0, decimal="."))
    assert told.y[:2].tolist() == [1125, 2125]


def test_settings_of_older_runs_lack_the_new_options():
    settings = Settings(target="y", decimal=",", dates="day")
    assert Settings.back(settings.plain()) == settings
    older = {name: value for name, value in settings.plain().items() if name not in ("decimal", "dates")}
    assert Settings.back(older) == Settings(target="y")
    for wrong in ({"decimal": ";"}, {"decimal": 1}, {"dates": "year"}):
        with pytest.raises(ParameterError, match=f"{next(iter(wrong))}=.*: use "):
            Settings.of({"target": "y", **wrong})
