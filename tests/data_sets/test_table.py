"""CSV and Parquet tables: numbers, classes, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from r2d2net.data import read_table
from r2d2net.errors import DataError, ParameterError

FRAME = pd.DataFrame(
    {"a": [1.5, 2.5, 3.5], "b": [1, 2, 3], "c": [True, False, True], "y": [0.1, 0.2, 0.3], "kind": ["u", "v", "u"]}
)


def write(path: Path, frame: pd.DataFrame = FRAME) -> Path:
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_regression_and_classification(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    table = read_table(path, "y", ["b", "a", "c"])
    assert table.x.dtype == table.y.dtype == torch.float32
    assert table.x.tolist() == [[1, 1.5, 1], [2, 2.5, 0], [3, 3.5, 1]]
    assert table.y.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert table.names == ("b", "a", "c")
    kinds = read_table(path, "kind")
    assert kinds.names == ("a", "b", "c", "y")
    assert kinds.y.tolist() == [0, 1, 0]
    assert kinds.classes == ("u", "v")


def test_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv")
    with pytest.raises(ParameterError, match="has no column 'z': it has 'a', 'b'"):
        read_table(path, "z")
    with pytest.raises(DataError, match=r"column 'kind' holds .* not numbers"):
        read_table(path, "y")
    write(path, FRAME.assign(a=[1, None, 3], kind=["u", None, "v"]))
    with pytest.raises(DataError, match="column 'a' has no finite number in row 1"):
        read_table(path, "y", ["a"])
    write(tmp_path / "large.csv", FRAME.assign(a=[1, 2, 1e300]))
    with pytest.raises(DataError, match="column 'a' has no finite number in row 2"):
        read_table(tmp_path / "large.csv", "y", ["a"])
    with pytest.raises(DataError, match="column 'kind' is empty in row 1"):
        read_table(path, "kind", ["b"])
    with pytest.raises(DataError, match=r"none\.csv cannot be read \(no such file"):
        read_table(tmp_path / "none.csv", "y")
    damaged = {"e.csv": b"", "b.csv": b'a,"b\n1,2', "n.csv": b"\xff\xfe\xfa", "p.parquet": b"PAR1 not"}
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises((DataError, ParameterError)) as caught:
            read_table(tmp_path / name, "y")
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
