"""Archives and pickles that would reach outside: refused with one line, and nothing happens."""

import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from data_files import bytes_of, mnist, old_pickle, picture, tar, unpacked, zipped
from r2d2net.data import image_folder, load
from r2d2net.data.formats.restricted_pickle import read_pickle
from r2d2net.errors import DataError

OUTSIDE = ["../evil.bin", "a/../../evil.bin", "/etc/evil.bin", "..\\evil.bin", "C:/evil.bin", "C:\\evil.bin"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_outside_the_archive(tmp_path: Path, name: str) -> None:
    (tmp_path / "in" / "cifar10").mkdir(parents=True)
    tar(tmp_path / "in" / "cifar10" / "cifar-10-binary.tar.gz", {name: b"x", "data_batch_1.bin": bytes(3073)})
    with pytest.raises(DataError, match="points outside the archive") as caught:
        load("cifar10", tmp_path / "in")
    assert "\n" not in str(caught.value)
    assert "cifar-10-binary.tar.gz" in str(caught.value)
    zipped(tmp_path / "in" / "set.zip", {name: b"x", "a/b.png": picture(bytes_of(4, 4))})
    with pytest.raises(DataError, match=r"set\.zip holds .* points outside the archive"):
        image_folder(tmp_path / "in" / "set.zip")
    assert list(tmp_path.rglob("evil*")) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_tar(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "cifar10").mkdir()
    with tarfile.open(tmp_path / "cifar10" / "cifar-10-binary.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("data_batch_1.bin")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match="is a link or a device"):
        load("cifar10", tmp_path)


def test_link_in_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        info = zipfile.ZipInfo("a/b.png")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="is a link or a device"):
        image_folder(tmp_path / "set.zip")


def test_truncated_archives(tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    path = tmp_path / "cifar10" / "cifar-10-binary.tar.gz"
    tar(path, {f"data_batch_{k}.bin": bytes_of(3073 * 4).tobytes() for k in range(1, 6)})
    whole = path.read_bytes()
    for content in (b"", b"not a tar", whole[: len(whole) // 2], whole[:-2000]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz .*intact copy"):
            load("cifar10", tmp_path)
    zipped(tmp_path / "set.zip", {"a/b.png": picture(bytes_of(40, 40))})
    content = bytearray((tmp_path / "set.zip").read_bytes())
    content[100] ^= 255  # the stored checksum no longer fits
    (tmp_path / "set.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"set\.zip is not a zip archive, or damaged"):
        image_folder(tmp_path / "set.zip")


class Bomb:
    """Runs code when unpickled the ordinary way."""

    def __init__(self, call: object, *arguments: object) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_that_would_run_code(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "ran"
    for bomb in (Bomb(os.system, f"touch {mark}"), Bomb(eval, f"open({str(mark)!r}, 'w')"), Bomb(os.mkdir, str(mark))):
        hostile = pickle.dumps({"data": bytes_of(4, 3072), "labels": [bomb]}, protocol)
        unpacked(tmp_path / "cifar-10-batches-py", {f"data_batch_{k}": hostile for k in range(1, 6)})
        with pytest.raises(DataError, match="which could run code") as caught:
            load("cifar10", tmp_path)
        assert "data_batch_1 names" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(os.mkdir, str(mark)), protocol))  # the bomb is a real one
    assert mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\nload\n(S'/etc/passwd'\ntR.",
        b"cbuiltins\ngetattr\n.",
        b"cnumpy\ndtype\n(S'O'\ntR.",
        pickle.dumps(np.array([{}], dtype=object), 2),
        pickle.dumps(np.zeros(2, "V8"), 2),
    ],
)
def test_other_names_and_objects(content: bytes) -> None:
    with pytest.raises(DataError, match=r"batch .*(could run code|damaged)"):
        read_pickle(content, Path("batch"))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_containers_come_through(protocol: int) -> None:
    arrays = {
        "bytes": bytes_of(3, 4),
        "big-endian": np.arange(5, dtype=">i4"),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.empty((0, 3), np.float32),
        "text": np.array(["ab", "c"]),
    }
    content = {**arrays, "labels": [1, np.int64(2)], "pair": (b"raw", "text", None, True)}
    for made in (read_pickle(pickle.dumps(content, protocol), Path("x")), read_pickle(old_pickle(content), Path("x"))):
        for name, array in arrays.items():
            np.testing.assert_array_equal(made[name], array)
        assert made["labels"] == [1, 2]
        assert made["pair"] == (b"raw", "text", None, True)


def test_no_member_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r2d2net.data.formats.members.LARGEST", 1000)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.png", bytes(1001))
    (tmp_path / "set.zip").write_bytes(file.getvalue())
    with pytest.raises(DataError, match="1001 bytes"):
        image_folder(tmp_path / "set.zip")


def test_no_gzip_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r2d2net.data.formats.members.LARGEST", 1000)
    monkeypatch.setattr("r2d2net.data.formats.members.CHUNK", 100)
    mnist(tmp_path / "mnist")
    with pytest.raises(DataError, match=r"'train-images-idx3-ubyte' of 1100 bytes, more than 1000"):
        load("mnist", tmp_path)


def test_a_pickle_cannot_ask_for_memory_or_time_without_end() -> None:
    """Five bytes name the memo's place 2^31 - 1; sixty lists of twice the list before would be 2^60 to walk."""
    assert read_pickle(b"\x80\x02Nr\xff\xff\xff\x7f.", Path("x")) is None
    nested: list[object] = []
    for _ in range(60):
        nested = [nested, nested]
    made = read_pickle(pickle.dumps(nested), Path("x"))
    assert made[0] is made[1]
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(DataError, match="x is not a pickle of arrays, or damaged"):
        read_pickle(pickle.dumps(loop), Path("x"))


@pytest.mark.parametrize(
    ("name", "attribute"),
    [(b"numpy\nndarray", b"__init__"), (b"numpy\ndtype", b"__init__"), (b"_codecs\nencode", b"__defaults__")],
)
def test_a_pickle_cannot_change_the_reader(name: bytes, attribute: bytes) -> None:
    """BUILD sets attributes of what it is given: of the class of arrays, say, for the files to come."""
    hostile = b"c" + name + b"\n(N}S'" + attribute + b"'\n)stb."
    with pytest.raises(DataError, match=r"x names a state for a function, which could run code"):
        read_pickle(hostile, Path("x"))
    content = {"data": bytes_of(2, 3), "raw": b"abc", "one": np.float32(1)}
    made = read_pickle(pickle.dumps(content, 2), Path("x"))
    np.testing.assert_array_equal(made["data"], content["data"])
    assert (made["raw"], made["one"]) == (b"abc", 1)
