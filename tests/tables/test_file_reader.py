"""What separates the fields of a file."""

import gzip

import pytest

from r2d2net.errors import DataError
from r2d2net.tables.file_reader import LINES, encoding_note, read_table, separator_of


@pytest.mark.parametrize(
    ("text", "separator", "names"),
    [
        ("a,b;y\n1;2\n3;4\n", ";", ["a,b", "y"]),
        ("a,b,c;y\n1;2\n3;4\n", ";", ["a,b,c", "y"]),
        ("price, net;y\n3,75;4\n3,85;5\n", ";", ["price, net", "y"]),  # commas cut it into two fields everywhere, too
        ("a;b,y\n1,2\n3,4\n", ",", ["a;b", "y"]),
        ('"a;b;c;d",y\n"1;2;3;4",2\n3,4\n', ",", ["a;b;c;d", "y"]),
        ('a,y\n"1;\n\n2",2\n"3;4",4\n', ",", ["a", "y"]),
        ("a\ty\n1,5\t2\n", "\t", ["a", "y"]),
        ("a|y\n1,5|2;3\n", "|", ["a", "y"]),
        ("a;y,z,w\n", ",", ["a;y", "z", "w"]),
        ("a,y,z\n1,2\n3,4\n", ",", ["a", "y", "z"]),  # the last cells are left out
        ("a,y\n" + "1,2\n" * 30 + "1,2;\n" * 100, ",", ["a", "y"]),
        ("a\n1,5\n2,5\n", ";", ["a"]),
        ("a\n1\n2\n", ",", ["a"]),
        ('a,y\n"' + "x\n" * 2 * LINES + '",2\n', ",", ["a", "y"]),  # a text of many lines
    ],
)
def test_the_separator_cuts_header_and_rows_alike(tmp_path, text, separator, names):
    (tmp_path / "t.csv").write_text(text)
    assert separator_of(tmp_path / "t.csv") == separator
    assert list(read_table(tmp_path / "t.csv").columns) == names


def test_packed_files_and_other_encodings(tmp_path):
    text = "a,b;y\n1,5;2\n3,5;4\n"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "wide.csv").write_text(text, encoding="utf-16")
    for name in ("t.csv.gz", "wide.csv"):
        assert read_table(tmp_path / name).to_dict("list") == {"a,b": ["1,5", "3,5"], "y": ["2", "4"]}


def test_windows_text_is_read_as_such_and_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("r2d2net.tables.file_reader.PIECE", 3)  # letters lie across the pieces
    path = tmp_path / "t.csv"
    text = "größe;preis\n1,5;12 €\n2,5;13 €\n"
    for encoding in ("cp1252", "utf-8", "utf-8-sig", "utf-16"):
        path.write_text(text, encoding=encoding)
        assert read_table(path).to_dict("list") == {"größe": ["1,5", "2,5"], "preis": ["12 €", "13 €"]}
        said = ["t.csv is no UTF-8 text and is read as Windows text (cp1252): if letters are wrong, save it as UTF-8"]
        assert encoding_note(path) == (said if encoding == "cp1252" else [])


def test_rows_that_are_too_long_are_still_told(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "1,2,3\n" * 10)
    with pytest.raises(DataError, match="rows with more fields than its header"):
        read_table(tmp_path / "t.csv")
