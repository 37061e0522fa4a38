"""What `r2d2net predict` writes, and into what: every digit, and no pipe, device or link replaced."""

import json
import os
import stat
import subprocess
import sys
import threading
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from r2d2net.columns.raw_columns import RawColumn
from r2d2net.tables.file_reader import read_table
from r2d2net.tables.prediction_writer import copied, prediction_writer
from table_runs import command, learn_columns


@pytest.fixture(scope="module")
def predicted(price_run, tables):
    """What is printed without -o."""
    return command("predict", price_run[0], tables / "new.csv").out


def test_a_pipe_gets_the_predictions_and_stays_a_pipe(price_run, tables, tmp_path, predicted):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    ended = command("predict", price_run[0], tables / "new.csv", "-o", pipe)
    reader.join(10)
    assert ended.code == 0, ended.error
    assert got == [predicted]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    os.mkfifo(tmp_path / "pipe.parquet")
    ended = command("predict", price_run[0], tables / "new.csv", "-o", tmp_path / "pipe.parquet")
    assert (ended.code, ended.out) == (2, "")
    assert "pipe.parquet is a pipe or a device, and Parquet needs a file: use CSV or another name" in ended.error


def test_a_device_stays_a_device(price_run, tables, tmp_path):
    device = tmp_path / "nul"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_text("")
    except OSError:
        pytest.skip("devices cannot be made here")
    assert command("predict", price_run[0], tables / "new.csv", "-o", device).code == 0
    assert stat.S_ISCHR(device.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["nul"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(price_run, tables, tmp_path, predicted):
    (tmp_path / "there").mkdir()
    for name in ("old.csv", "new.csv"):
        (tmp_path / name).symlink_to(tmp_path / "there" / name)
    (tmp_path / "there" / "old.csv").write_text("old")
    for name in ("old.csv", "new.csv"):
        assert command("predict", price_run[0], tables / "new.csv", "-o", tmp_path / name).code == 0
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "there" / name).read_text() == predicted
    (tmp_path / "lost.csv").symlink_to(tmp_path / "nowhere" / "lost.csv")
    ended = command("predict", price_run[0], tables / "new.csv", "-o", tmp_path / "lost.csv")
    assert "lost.csv lies in a folder that is not there" in ended.error


def test_open_files_are_written_into_by_their_names(price_run, tables, tmp_path, predicted):
    for name in ("/dev/stdout", "/dev/fd/1"):
        ended = command("predict", price_run[0], tables / "new.csv", "-o", name)
        assert (ended.code, ended.out) == (0, predicted)
    script = "import sys; from r2d2net.cli import main; main()"
    with open(tmp_path / "log", "w") as log:
        log.write("before\n")
        log.flush()
        options = ["predict", price_run[0], tables / "new.csv", "--quiet", "-o", f"/dev/fd/{log.fileno()}"]
        child = [sys.executable, "-c", script, *map(str, options)]
        ended = subprocess.run(child, pass_fds=[log.fileno()], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "log").read_text() == "before\n" + predicted


def block_of(tmp_path, form, kept, rows):
    """One block as it is written to standard output."""
    path = tmp_path / "printed"
    with open(path, "w+", encoding="utf-8") as file:
        with prediction_writer(None, file, form, tmp_path / "rows.csv") as write:
            write(pd.DataFrame(kept), pd.DataFrame(rows))
        file.seek(0)
        return file.read()


def test_json_has_all_digits_and_null_for_what_is_none(tmp_path):
    kept = {
        "id": [1234567890.0, 0.1, np.nan],
        "day": pd.to_datetime(["2024-02-29", None, "2024-03-01"]),
        "moment": pd.to_datetime(["2024-02-29 12:00", "2024-03-01 00:00", None], utc=True),
        "name": ["é", None, 'a "b"'],
        "far": [np.inf, 1.0, -np.inf],
        "flag": [True, False, True],
        "part": np.array([0.1, 2.5, 16777216], dtype=np.float32),
    }
    rows = {"mean": [1.234567e-12, 5e-15, np.nan], "p(a)": [5e-15, 1 / 3, 1.0], "filled": [0, 1, 2]}
    lines = [json.loads(line) for line in block_of(tmp_path, "lines", kept, rows).splitlines()]
    copies = [1234567890, "2024-02-29", "2024-02-29 12:00:00+00:00", "é", None, True, 0.1]
    assert list(lines[0].values()) == [*copies, 1.234567e-12, 5e-15, 0]
    assert list(lines[0]) == [*kept, *rows]
    assert [lines[1][name] for name in ("id", "day", "name", "far", "mean", "p(a)")] == [
        0.1,
        None,
        None,
        1,
        5e-15,
        1 / 3,
    ]
    assert [lines[2][name] for name in ("id", "moment", "far", "part", "mean")] == [None, None, None, 16777216, None]
    cells = [line.split(",") for line in block_of(tmp_path, "csv", kept, rows).splitlines()[1:]]
    assert [line[:3] for line in cells] == [
        ["1234567890", "2024-02-29", "2024-02-29 12:00:00+00:00"],
        ["0.1", "", "2024-03-01 00:00:00+00:00"],
        ["", "2024-03-01", ""],
    ]


def test_json_of_a_run_agrees_with_its_csv(price_run, tables, predicted):
    lines = [
        json.loads(line) for line in command("predict", price_run[0], tables / "new.csv", "--json").out.splitlines()
    ]
    table = pd.read_csv(tables / "new.csv")
    assert len(lines) == len(table) == len(predicted.splitlines()) - 1
    assert [f"{line['mean']:.7g}" for line in lines] == [line.split(",")[0] for line in predicted.splitlines()[1:]]


def test_kept_cells_of_parquet_are_copied_with_all_their_digits(price_run, tables, tmp_path):
    table = pd.read_csv(tables / "new.csv")[:12]
    table["id"] = 1234567890.0 + np.arange(12)
    table["exact"] = table["x"]
    table["whole"] = pd.array([12345678901234561 + i for i in range(11)] + [None], dtype="Int64")
    table["day"] = pd.to_datetime(table["day"])
    table.to_parquet(tmp_path / "new.parquet")
    for options in (["-o", tmp_path / "out.csv"], ["--json"]):
        ended = command("predict", price_run[0], tmp_path / "new.parquet", "--keep", "id,exact,whole,day", *options)
        assert ended.code == 0, ended.error
    written = pd.read_csv(tmp_path / "out.csv", dtype=str)
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert written["id"].tolist() == [str(1234567890 + i) for i in range(12)]
    assert written["exact"].astype(float).tolist() == [line["exact"] for line in lines] == table["exact"].tolist()
    assert written["whole"].fillna("").tolist() == [str(12345678901234561 + i) for i in range(11)] + [""]
    assert [line["whole"] for line in lines] == [12345678901234561 + i for i in range(11)] + [None]
    assert written["day"].tolist() == [line["day"] for line in lines] == table["day"].dt.strftime("%Y-%m-%d").tolist()
    assert all(len(mean.lstrip("-").replace(".", "")) <= 8 for mean in written["mean"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_kept_columns_have_the_types_of_their_file_whatever_the_first_rows_are(
    price_run, tables, tmp_path, kind, monkeypatch
):
    """The first block is of 32 rows, and the columns are empty or short there."""
    monkeypatch.setattr("r2d2net.tables.run_folder.MOST_ROWS", 32)
    table, late = pd.read_csv(tables / "new.csv"), np.arange(200) >= 64
    moments = pd.Series(pd.date_range("2024-01-01", periods=200, freq="h", tz="UTC"))
    table["whole"] = pd.Series(12345678901234561 + np.arange(200)).astype("Int64").where(late)
    table["text"] = pd.Series(["é"] * 200, dtype=object).where(late, None)
    table["moment"] = moments.where(late)
    table["cost"] = [Decimal("1.50") if one else Decimal("12345.25") for one in late]
    table["code"] = pd.Series([f"c{i}" for i in range(200)]).astype("category")
    table["span"] = pd.Series(pd.to_timedelta(np.arange(200), unit="s")).where(late)
    names = ["whole", "text", "moment", "cost", "code", "span"]
    new, out = tmp_path / f"new.{kind}", tmp_path / "out.parquet"
    table.to_csv(new, index=False) if kind == "csv" else table.to_parquet(new)
    ended = command("predict", price_run[0], new, "--keep", ",".join(names), "-o", out)
    assert ended.code == 0, ended.error
    found, given = read_table(out)[names], read_table(new)[names]
    pd.testing.assert_frame_equal(found, given, check_dtype=False, check_categorical=False)


def test_copied_cells_are_plain():
    assert copied(pd.Series([1e300, 1e15, -2.5])).tolist() == [1e300, 10**15, -2.5]
    assert copied(pd.Series(["a", "b"]).astype("category")).tolist() == ["a", "b"]
    assert copied(pd.Series(pd.to_timedelta([60], unit="s"))).tolist() == ["0 days 00:01:00"]


def test_long_whole_numbers_are_levels_of_their_own_in_csv_and_parquet(tmp_path):
    first = 12345678901234560
    wide = pd.DataFrame(
        {"y": np.arange(40) % 7, "x": first + np.arange(40) % 4, "round": 10**15 * (1 + np.arange(40) % 2)}
    )
    wide["real"] = np.where(np.arange(40) % 2, 0.1 + 0.2, 1e15)
    wide["narrow"] = np.where(np.arange(40) % 2, 0.1, 3).astype(np.float32)
    wide["gaps"] = wide["x"].astype("Int64").where(np.arange(40) != 5)
    wide.to_parquet(tmp_path / "t.parquet")
    wide.to_csv(tmp_path / "t.csv", index=False)
    levels = {}
    for name in ("t.csv", "t.parquet"):
        table = read_table(tmp_path / name)
        columns = learn_columns(table, "y", categorical=["x", "round", "real", "narrow", "gaps"])
        levels[name] = {one.name: sorted(one.levels) for one in columns.used}
        assert len(set(RawColumn(table["x"]).codes)) == 4
    assert levels["t.csv"] == levels["t.parquet"]
    assert levels["t.csv"]["x"] == levels["t.csv"]["gaps"] == [str(first + i) for i in range(4)]
    assert levels["t.csv"]["round"] == ["1000000000000000", "2000000000000000"]
