"""Files are predicted block by block: a million rows take no more memory than a hundred thousand."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from r2d2net.errors import DataError
from r2d2net.tables.file_reader import read_blocks, read_table

CHILD = """
import resource, sys
from r2d2net.cli import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def peak(*arguments):
    """Peak memory of a command, in MB."""
    ended = subprocess.run([sys.executable, "-c", CHILD, *map(str, arguments)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stderr.splitlines()[-1]) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_million_rows_need_no_more_memory_than_a_hundred_thousand(price_run, tables, tmp_path, kind):
    folder, _ = price_run
    new = pd.read_csv(tables / "new.csv")
    peaks = []
    for rows in (100_000, 1_000_000):
        table = pd.concat([new] * (rows // len(new)), ignore_index=True)
        path, out = tmp_path / f"{rows}.{kind}", tmp_path / f"out{rows}.{kind}"
        table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, row_group_size=50_000)
        peaks.append(peak("predict", folder, path, "-o", out, "--draws", "10"))
        found = pd.read_csv(out) if kind == "csv" else pd.read_parquet(out)
        assert len(found) == rows
        path.unlink()
    print(kind, "peak memory, MB", peaks)
    assert peaks[1] < peaks[0] + 100  # the file itself is 90 MB of text, several times that as objects


def test_blocks_of_csv_and_parquet_are_the_table(tmp_path):
    table = pd.DataFrame({"a": np.arange(25) / 4, "b": list("abcde") * 5})
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        blocks = list(read_blocks(tmp_path / name, 10))
        assert [len(block) for block in blocks] == [10, 10, 5]
        whole = read_table(tmp_path / name)
        assert whole["a"].astype(float).tolist() == table["a"].tolist()
        assert pd.concat(blocks, ignore_index=True)["b"].tolist() == table["b"].tolist()


def test_an_empty_line_is_a_cell_where_there_is_one_column(tmp_path):
    (tmp_path / "one.csv").write_text("x\n40\n\n60\n")
    assert read_table(tmp_path / "one.csv")["x"].fillna("").tolist() == ["40", "", "60"]
    (tmp_path / "two.csv").write_text("x,y\n40,1\n\n60,2\n")
    assert read_table(tmp_path / "two.csv")["x"].tolist() == ["40", "60"]


def test_codes_stay_texts_and_separators_are_found(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("code; size\n007; 1\n; 2\n", encoding="utf-8-sig")
    assert read_table(path)["code"].tolist()[0] == "007"
    assert list(read_table(path)) == ["code", "size"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_encodings_are_known_by_their_marks(tmp_path, encoding):
    path = tmp_path / "t.csv"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path.write_bytes((mark + "größe\tname\n" + "1\té\n" * 30).encode(encoding))
    blocks = list(read_blocks(path, 20))
    assert [len(block) for block in blocks] == [20, 10]
    assert list(blocks[1]) == ["größe", "name"]
    assert blocks[1]["name"].tolist() == ["é"] * 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as a table: No columns"),
        (b"a,a\n1,2\n", "several columns called 'a': rename them"),
        (b"a,b\n1,2,3\n", "more fields than its header"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 has 3 fields where 2 are expected: mend it, or quote"),
        (b'a,b\n\n"1\n\n",2\n1,2,3,4\n', "line 6 has 4 fields where 2 are expected: mend it, or quote"),
        (b"a;b\n" + b"1;2\n" * 300 + b'"' + b"x" * 200_000 + b"\n1;2;3\n", "quotation mark is opened and not closed"),
        (b"a,b\n\xe9\x81,2\n", r"is no UTF-8 text \(byte 0xe9\): save it as UTF-8"),
        (b"a,b\n\xe9,2\ngr\xc3\xb6\xc3\x9fer,3\n", r"is no UTF-8 text \(byte 0xe9\)"),
        (b'a,b\n"1,2\n', "a quotation mark is opened and not closed: close or remove it"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], r"is no UTF-16 text \(byte 0x0a\): save it as UTF-8"),
    ],
)
def test_broken_files_are_one_line(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_parquet_without_pyarrow_is_one_line(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 and nonsense")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_table(path)
    monkeypatch.setattr("r2d2net.tables.file_reader.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"Parquet needs pyarrow: pip install 'r2d2net\[parquet\]', or use CSV"):
        read_table(path)
