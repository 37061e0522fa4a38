"""The reader of MATLAB files against scipy's, and on every byte of a small file changed."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from data_files import bytes_of
from r2d2net.data import load
from r2d2net.data.formats.matlab import read_mat
from r2d2net.errors import DataError

NAMES = ("X", "y", "small", "empty", "a_name_of_many_letters")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_arrays_are_those_that_scipy_reads(tmp_path: Path, dtype: str, packed: bool) -> None:
    path = tmp_path / "x.mat"
    content = {
        "text": "passed over",
        "X": bytes_of(4, 3, 2, 5).astype(dtype),
        "y": np.arange(5).reshape(5, 1).astype(dtype),
        "small": np.array([[7]], dtype),
        "a_name_of_many_letters": np.ones((1, 3), dtype),
        "empty": np.zeros((0, 3), dtype),
        "cell": np.array([[{"a": 1}]], dtype=object),
    }
    savemat(path, content, do_compression=packed)
    made, expected = read_mat(path, NAMES), loadmat(path, variable_names=NAMES)
    assert set(made) == set(NAMES)
    for name in NAMES:
        assert made[name].dtype == np.dtype(dtype)
        np.testing.assert_array_equal(made[name], expected[name])


def test_values_in_a_smaller_type_and_the_other_byte_order(tmp_path: Path) -> None:
    """MATLAB keeps whole doubles as bytes. By hand, big-endian: class double, 1 x 2, name y, values of type uint8."""

    def element(kind: int, content: bytes) -> bytes:
        return kind.to_bytes(4, "big") + len(content).to_bytes(4, "big") + content + bytes(-len(content) % 8)

    flags, sizes = (6).to_bytes(4, "big") + bytes(4), (1).to_bytes(4, "big") + (2).to_bytes(4, "big")
    array = element(6, flags) + element(5, sizes) + b"\x00\x01\x00\x01y\0\0\0" + b"\x00\x02\x00\x02\x0a\x03\0\0"
    (tmp_path / "x.mat").write_bytes(b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + element(14, array))
    made = read_mat(tmp_path / "x.mat", ["y"])["y"]
    assert made.dtype == np.float64
    assert made.tolist() == [[10.0, 3.0]]


@pytest.mark.parametrize("packed", [False, True])
def test_no_wrong_byte_ends_the_process(tmp_path: Path, packed: bool) -> None:
    """scipy's reader dies of byte 184, the type of the values, set to 220."""
    (tmp_path / "svhn").mkdir()
    path = tmp_path / "svhn" / "train_32x32.mat"
    savemat(path, {"X": bytes_of(32, 32, 3, 1), "y": np.ones((1, 1), np.uint8)}, do_compression=packed)
    whole, refusals = path.read_bytes(), []
    for place in [*range(124, 200), *range(len(whole) - 60, len(whole))]:
        for value in (0, 1, 127, 220, 255):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                read_mat(path, ("X", "y"))
            except DataError as error:
                refusals.append(str(error))
    assert len(refusals) > 50
    assert all(str(path) in line and "\n" not in line for line in refusals)
    path.write_bytes(whole[:184] + bytes([220]) + whole[185:])
    with pytest.raises(DataError, match=r"train_32x32\.mat is not .*intact copy"):
        load("svhn", tmp_path)


def test_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    savemat(path, {"X": np.array([[1j]])})
    with pytest.raises(DataError, match="X has complex values"):
        read_mat(path, ["X"])
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    with pytest.raises(DataError, match="no byte order"):
        read_mat(path, ["X"])


def test_a_packed_array_does_not_unpack_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r2d2net.data.formats.matlab.LARGEST", 1000)
    savemat(tmp_path / "x.mat", {"X": np.zeros((100, 100), np.uint8)}, do_compression=True)
    with pytest.raises(DataError, match="too large"):
        read_mat(tmp_path / "x.mat", ["X"])
