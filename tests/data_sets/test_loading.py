"""`load` by name: roots, splits, missing files, the cache, and what ImageSet and Table refuse."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.io import savemat

from data_files import bytes_of, mnist, unpacked
from r2d2net.data import ImageSet, Table, load, read_uci
from r2d2net.data import loading as loading_module
from r2d2net.data.cache import cached
from r2d2net.data.formats.uci_table import published_splits
from r2d2net.data.known_sets import PUBLIC
from r2d2net.errors import DataError, ParameterError


def test_names_in_types_and_catalogue_agree() -> None:
    typed = {*loading_module.Images.__args__, *loading_module.Tables.__args__}
    assert typed == set(PUBLIC)


def test_root_from_argument_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("R2D2NET_DATA", raising=False)
    mnist(tmp_path / "mnist")
    with pytest.raises(ParameterError, match="R2D2NET_DATA is not set"):
        load("mnist")
    with pytest.raises(ParameterError, match="is not a folder"):
        load("mnist", tmp_path / "none")
    monkeypatch.setenv("R2D2NET_DATA", str(tmp_path))
    assert len(load("mnist")) == 6


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load("mnist", tmp_path)
    assert str(caught.value) == (
        f"mnist (train) is not in {tmp_path}: put train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz into "
        f"{tmp_path / 'mnist'}, or run `r2d2net data fetch mnist`"
    )
    with pytest.raises(DataError, match=r"put bostonHousing/data/data\.txt into .*`r2d2net data fetch boston`"):
        load("boston", tmp_path)
    with pytest.raises(DataError, match=r"put train and trainLabels\.csv into .*cannot be fetched"):
        load("diabetic-retinopathy", tmp_path)
    mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"put train-labels-idx1-ubyte\.gz into"):
        load("mnist", tmp_path)


def test_bad_names_and_splits(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="name='minst' is no data set known here: use one of mnist"):
        load("minst", tmp_path)
    with pytest.raises(ParameterError, match="split='val' is none of mnist: use one of train, test"):
        load("mnist", tmp_path, "val")


def svhn(root: Path, first: int) -> None:
    (root / "svhn").mkdir(exist_ok=True)
    x = np.full((32, 32, 3, 2), first, np.uint8)
    savemat(root / "svhn" / "train_32x32.mat", {"X": x, "y": np.ones((2, 1), np.uint8)})


def test_cache_is_used_renewed_and_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("R2D2NET_CACHE", str(cache))
    svhn(tmp_path, 1)
    assert load("svhn", tmp_path).images[0, 0, 0, 0] == 1
    (kept,) = cache.iterdir()
    monkeypatch.setattr("r2d2net.data.public_images.read_svhn", lambda path: pytest.fail("read again"))
    again = load("svhn", tmp_path)
    assert again.images[0, 0, 0, 0] == 1
    assert again.classes == tuple("0123456789")
    again.images.fill_(9)  # the file behind must not change
    assert load("svhn", tmp_path).images[0, 0, 0, 0] == 1
    monkeypatch.undo()

    monkeypatch.setenv("R2D2NET_CACHE", str(cache))
    kept.write_bytes(kept.read_bytes()[:50])
    assert load("svhn", tmp_path).images[0, 0, 0, 0] == 1
    for metadata in (None, {"classes": "7"}):
        save_file({"images": torch.zeros(2, 3, 32, 32, dtype=torch.uint8), "labels": torch.ones(2)}, kept, metadata)
        assert load("svhn", tmp_path).images[0, 0, 0, 0] == 1
    svhn(tmp_path, 2)
    os.utime(tmp_path / "svhn" / "train_32x32.mat", ns=(1, 1))
    assert load("svhn", tmp_path).images[0, 0, 0, 0] == 2
    assert not list(cache.glob("*.partial"))


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("a file where the cache should be")
    monkeypatch.setenv("R2D2NET_CACHE", str(tmp_path / "taken"))
    svhn(tmp_path, 3)
    assert load("svhn", tmp_path).images[0, 0, 0, 0] == 3


def test_failed_reading_leaves_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2D2NET_CACHE", str(tmp_path / "cache"))

    def build() -> ImageSet:
        raise DataError("no")

    with pytest.raises(DataError):
        cached("x", [], build)
    assert not (tmp_path / "cache").exists()


def test_image_set_refuses_what_does_not_fit() -> None:
    x, y = torch.from_numpy(bytes_of(3, 1, 4, 4)), torch.tensor([0, 1, 1])
    data = ImageSet(x, y, ("a", "b"))
    assert data[y == 1].counts() == {"a": 0, "b": 2}
    assert data.to("cpu").labels is y
    for images, labels, classes in [
        (x.float(), y, ("a", "b")),
        (x[:, 0], y, ("a", "b")),
        (x.expand(3, 2, 4, 4), y, ("a", "b")),
        (x, y[:2], ("a", "b")),
        (x, y.int(), ("a", "b")),
        (x, y, ("a",)),
        (x, y - 1, ("a", "b")),
    ]:
        with pytest.raises(DataError):
            ImageSet(images, labels, classes)


def test_table_refuses_what_does_not_fit() -> None:
    x, y, rows = torch.zeros(4, 2), torch.zeros(4), torch.arange(4)
    assert Table(x, y, ("a", "b"), ((rows[:3], rows[3:]),)).split(0)[1][0].shape == (1, 2)
    with pytest.raises(ParameterError, match="k=1 is out of range: the table has 0 splits"):
        Table(x, y, ("a", "b")).split(1)
    for arguments in [(x, y[:2], ("a", "b")), (x, y, ("a",)), (y, y, ("a",)), (x, y, ("a", "b"), ((rows, rows + 1),))]:
        with pytest.raises(DataError):
            Table(*arguments)


def test_uci_folder_without_and_with_index_files(tmp_path: Path) -> None:
    numbers = np.arange(40.0).reshape(10, 4)
    text = "\n".join(" ".join(map(str, row)) for row in numbers).encode()
    unpacked(tmp_path / "plain", {"data/data.txt": text})
    plain = read_uci(tmp_path / "plain", ("a", "b", "c"))
    assert torch.equal(plain.y, torch.from_numpy(numbers[:, 3]).float())
    assert [len(train) for train, _ in plain.splits] == [9] * 20
    assert published_splits(308)[0][1][:6].tolist() == [121, 115, 286, 216, 264, 209]  # yacht's index_test_0.txt
    index = {"index_features.txt": b"3\n1\n", "index_target.txt": b"0\n", "index_train_0.txt": b"1\n2\n"}
    unpacked(tmp_path / "indexed", {"data/data.txt": text, **{f"data/{k}": v for k, v in index.items()}})
    with pytest.raises(DataError, match="indexed is not a UCI table"):
        read_uci(tmp_path / "indexed", ("d", "b"))
    unpacked(tmp_path / "indexed", {"data/index_test_0.txt": b"0\n"})
    table = read_uci(tmp_path / "indexed", ("d", "b"))
    assert torch.equal(table.x, torch.from_numpy(numbers[:, [3, 1]]).float())
    (x, _), (_, y) = table.split()
    assert x[:, 0].tolist() == [7, 11]
    assert y.tolist() == [0]
    for bad in (b"1 2 3 4\n1 2\n", b"a b c d\n", b"", b"1 2 3 nan\n", b"1e300 2 3 4\n"):
        unpacked(tmp_path / "plain", {"data/data.txt": bad})
        with pytest.raises(DataError, match="plain is not a UCI table, or damaged") as caught:
            read_uci(tmp_path / "plain", ("a", "b", "c"))
        assert "\n" not in str(caught.value)
    unpacked(tmp_path / "indexed", {"data/index_test_0.txt": b"77\n"})
    with pytest.raises(DataError, match=r"indexed is not a UCI table, or damaged \(a split names rows outside 0 to 9"):
        read_uci(tmp_path / "indexed")


def test_uci_style_tables_of_other_names(tmp_path: Path) -> None:
    text = b"\n".join(b"%d %d %d" % (k, 10 * k, 100 * k) for k in range(10))
    unpacked(tmp_path / "mine", {"data.txt": text})
    table = read_uci(str(tmp_path / "mine"))
    assert table.names == ("x0", "x1")
    assert table.y.tolist() == [100 * k for k in range(10)]
    index = {"index_features.txt": b"2\n", "index_target.txt": b"1\n"}
    unpacked(tmp_path / "mine", index)
    table = read_uci(tmp_path / "mine")
    assert table.names == ("x2",)
    assert table.y.tolist() == [10 * k for k in range(10)]


def test_a_row_for_training_and_for_test_is_refused() -> None:
    rows = torch.arange(4)
    with pytest.raises(DataError, match="split 1 has rows that are both for training and for test"):
        Table(torch.zeros(4, 1), torch.zeros(4), ("a",), ((rows[:3], rows[3:]), (rows[:3], rows[2:])))
