"""Each kind of re-packed copy on small files made here: read right, and refused with one line when damaged."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data_files import bytes_of, catalogue, mosaic, picture, refused, unpacked, zipped
from r2d2net.data import load

DIGITS = list("0123456789")
TILES = f"""
[svhn.test]
kind = "mosaic"
files = ["svhn/test_?of4.webp"]
labels = "svhn/labels.npz"
key = "test"
classes = {DIGITS}
"""
RETINAS = """
[diabetic-retinopathy.all]
kind = "image-npz"
files = ["retinas.npz"]
classes = ["none", "mild", "moderate", "severe", "proliferative"]
"""


def tiles(root: Path, images: np.ndarray, each: int, columns: int) -> Path:
    folder = root / "svhn"
    folder.mkdir()
    for k in range(4):
        part = mosaic(images[each * k : each * (k + 1)], columns)
        Image.fromarray(part).save(folder / f"test_{k + 1}of4.webp", lossless=True)
    catalogue(root, TILES)
    return folder


def test_mosaics(tmp_path: Path) -> None:
    x = bytes_of(10, 32, 32, 3)
    folder = tiles(tmp_path, x, each=3, columns=2)  # 3 + 3 + 3 + 1
    np.savez(folder / "labels.npz", test=np.arange(10, dtype=np.uint8))
    data = load("svhn", tmp_path, "test")
    assert torch.equal(data.images, torch.from_numpy(x.transpose(0, 3, 1, 2).copy()))
    assert data.labels.tolist() == list(range(10))
    assert data.classes == tuple(DIGITS)
    whole = (folder / "test_2of4.webp").read_bytes()
    (folder / "test_2of4.webp").write_bytes(whole[:900])
    refused(lambda: load("svhn", tmp_path, "test"), "test_2of4.webp", "intact copy")
    Image.fromarray(mosaic(x[:2], 2)).save(folder / "test_2of4.webp", lossless=True)
    refused(lambda: load("svhn", tmp_path, "test"), "2 tiles where 3 images")
    Image.fromarray(x[0, :31]).save(folder / "test_2of4.webp", lossless=True)
    refused(lambda: load("svhn", tmp_path, "test"), "test_2of4.webp", "31x32 is no multiple of 32")
    np.savez(folder / "labels.npz", other=np.arange(10))
    refused(lambda: load("svhn", tmp_path, "test"), "labels.npz")
    np.savez(folder / "labels.npz", test=np.zeros((10, 1), np.uint8))
    refused(lambda: load("svhn", tmp_path, "test"), "labels.npz", "the shape (10, 1)")


def test_mosaic_labels_outside_the_classes_and_a_folder_for_a_file(tmp_path: Path) -> None:
    folder = tiles(tmp_path, bytes_of(4, 32, 32, 3), each=1, columns=1)
    np.savez(folder / "labels.npz", test=np.array([1, 2, 3, 11]))
    refused(lambda: load("svhn", tmp_path, "test"), str(folder / "labels.npz"), "labels run from 1 to 11")
    (folder / "test_2of4.webp").unlink()
    (folder / "test_2of4.webp").mkdir()
    refused(lambda: load("svhn", tmp_path, "test"), str(folder / "test_2of4.webp"), "cannot be read")


def test_mosaics_of_other_tiles(tmp_path: Path) -> None:
    x = bytes_of(6, 8, 8, 3)
    Image.fromarray(mosaic(x, 3)).save(tmp_path / "all.png")
    np.savez(tmp_path / "labels.npz", y=np.array([0, 1, 0, 1, 0, 1]))
    text = '[mine.train]\nkind = "mosaic"\nfiles = ["all.png"]\nlabels = "labels.npz"\nkey = "y"\ntile = 8\n'
    catalogue(tmp_path, text + 'classes = ["a", "b"]\n')
    assert torch.equal(load("mine", tmp_path).images, torch.from_numpy(x.transpose(0, 3, 1, 2).copy()))


def test_image_npz(tmp_path: Path) -> None:
    path = tmp_path / "retinas.npz"
    catalogue(tmp_path, RETINAS)
    np.savez(path, images=bytes_of(3, 8, 8, 3), labels=np.array([0, 4, 1]))
    assert load("diabetic-retinopathy", tmp_path).labels.tolist() == [0, 4, 1]
    np.savez(path, images=bytes_of(3, 8, 8, 3), labels=np.array([0, 5, 1]))
    refused(lambda: load("diabetic-retinopathy", tmp_path), "labels run from 0 to 5")
    np.savez(path, images=np.array([{"a": 1}] * 3, dtype=object), labels=np.array([0, 1, 2]))
    refused(lambda: load("diabetic-retinopathy", tmp_path), str(path), "Object arrays")
    np.savez(path, labels=np.array([0, 5, 1]))
    refused(lambda: load("diabetic-retinopathy", tmp_path), "images")
    np.savez(path, pictures=bytes_of(3, 8, 8), grades=np.array([2, 4, 1]))
    catalogue(tmp_path, RETINAS + 'images = "pictures"\nlabels = "grades"\n')
    data = load("diabetic-retinopathy", tmp_path)
    assert data.images.shape == (3, 1, 8, 8)
    assert data.labels.tolist() == [2, 4, 1]
    with path.open("wb") as file:
        np.save(file, bytes_of(3))
    refused(lambda: load("diabetic-retinopathy", tmp_path), "it is a single array")


def test_more_memory_than_there_is(tmp_path: Path) -> None:
    """A header that promises 2^60 values; numpy asks for them before it looks whether they are there."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 60,)})
    catalogue(tmp_path, RETINAS)
    zipped(tmp_path / "retinas.npz", {"images.npy": header.getvalue()})
    refused(lambda: load("diabetic-retinopathy", tmp_path), "retinas.npz", "more memory than there is")


def test_image_folders(tmp_path: Path) -> None:
    unpacked(tmp_path / "pets", {"cat/a.png": picture(bytes_of(4, 4)), "dog/b.png": picture(bytes_of(5, 5))})
    catalogue(tmp_path, '[pets.train]\nkind = "image-folder"\nfiles = ["pets"]\nsize = 6\nchannels = 1\n')
    data = load("pets", tmp_path)
    assert data.images.shape == (2, 1, 6, 6)
    assert data.classes == ("cat", "dog")
    catalogue(tmp_path, '[pets.train]\nkind = "image-folder"\nfiles = ["pets"]\n')
    refused(lambda: load("pets", tmp_path), "4x4 to 5x5", "give size")


def test_a_part_of_tiny_imagenet(tmp_path: Path) -> None:
    members = {
        "tiny-imagenet-200/wnids.txt": b"n02\nn01\n",
        "tiny-imagenet-200/val/val_annotations.txt": b"val_0.JPEG\tn02\t0\t0\t1\t1\n",
        "tiny-imagenet-200/val/images/val_0.JPEG": picture(np.full((64, 64, 3), 120, np.uint8), "jpeg"),
    }
    zipped(tmp_path / "part.zip", members)
    catalogue(tmp_path, '[tiny-imagenet.val]\nkind = "tiny-imagenet"\nfiles = ["part.zip"]\n')
    assert load("tiny-imagenet", tmp_path, "test").labels.tolist() == [1]


def test_uci_tables(tmp_path: Path) -> None:
    text = b"\n".join(b"%d %d %d" % (k, 10 * k, 100 * k) for k in range(10))
    zipped(tmp_path / "mine.zip", {"mine/data.txt": text})
    catalogue(tmp_path, '[mine.all]\nkind = "uci"\nfiles = ["mine.zip"]\ninputs = ["a", "b"]\n')
    table = load("mine", tmp_path)
    assert table.names == ("a", "b")
    assert table.y.tolist() == [100 * k for k in range(10)]
    assert len(table.splits) == 20


def test_table_npz(tmp_path: Path) -> None:
    x, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 1, 0, 1, 0])
    path = tmp_path / "t.npz"
    np.savez(path, X=x, y=y.astype(float), names=np.array(["a", "b"]), X_train=x[:4], X_test=x[4:])
    one = '[mine.all]\nkind = "table-npz"\nfiles = ["t.npz"]\nx = ["X"]\ny = ["y"]\n'
    catalogue(tmp_path, one + 'names = "names"\n')
    table = load("mine", tmp_path)
    assert table.names == ("a", "b")
    assert torch.equal(table.x, torch.from_numpy(x).float())
    assert table.y.dtype == torch.float32
    assert table.splits == ()
    np.savez(path, X_train=x[:4], X_test=x[4:], y_train=y[:4], y_test=y[4:], y_long=y)
    two = one.replace('["X"]', '["X_train", "X_test"]').replace('["y"]', '["y_train", "y_test"]')
    catalogue(tmp_path, two + 'prefix = "gene"\nclasses = ["ALL", "AML"]\n')
    table = load("mine", tmp_path)
    assert table.names == ("gene0", "gene1")
    assert table.classes == ("ALL", "AML")
    assert table.y.tolist() == y.tolist()
    assert [part.tolist() for part in table.splits[0]] == [[0, 1, 2, 3], [4, 5]]
    catalogue(tmp_path, two + 'classes = ["ALL"]\n')
    refused(lambda: load("mine", tmp_path), "t.npz", "from 0 to 1 for 1 classes")
    catalogue(tmp_path, two.replace("y_test", "y_long"))
    refused(lambda: load("mine", tmp_path), "[4, 2] rows of inputs, [4, 6] targets")
    np.savez(path, X=x * np.nan, y=y)
    catalogue(tmp_path, one)
    refused(lambda: load("mine", tmp_path), "t.npz", "not finite, such as nan at (0, 0)")
    np.savez(path, X=np.array([{}] * 6, dtype=object), y=y)
    refused(lambda: load("mine", tmp_path), "t.npz", "Object arrays")
    np.savez(path, X=y, y=y)
    refused(lambda: load("mine", tmp_path), "t.npz", "inputs int64 (6,)")


def test_table_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("train,a,y\nTrue,1,10\nFalse,2,20\nTrue,3,30\n")
    text = '[mine.all]\nkind = "table-csv"\nfiles = ["t.csv"]\ntarget = "y"\n'
    catalogue(tmp_path, text + 'train = "train"\n')
    table = load("mine", tmp_path)
    assert table.names == ("a",)
    assert table.y.tolist() == [10, 20, 30]
    assert [part.tolist() for part in table.splits[0]] == [[0, 2], [1]]
    catalogue(tmp_path, text)
    assert load("mine", tmp_path).names == ("train", "a")
    path.write_text("train,a,y\n2,1,10\n0,2,20\n")
    catalogue(tmp_path, text + 'train = "train"\n')
    refused(lambda: load("mine", tmp_path), "t.csv", "no column 'train' of true and false")
    path.write_text('a,"b\n')
    refused(lambda: load("mine", tmp_path), "t.csv")


@pytest.mark.parametrize("name", ["leukemia", "prostate"])
def test_published_tables_for_variable_selection(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "sparse_regression"
    if name == "prostate":
        lines = ["\tlcavol\tlpsa\ttrain", "1\t-0.5\t 1.5\tT", "2\t 0.5\t 2.5\tF", "3\t 0.25\t 3.5\tT"]
        unpacked(folder, {"prostate.data": "\n".join(lines).encode()})
        table = load("prostate", tmp_path)
        assert table.names == ("lcavol",)
        assert table.x[:, 0].tolist() == [-0.5, 0.5, 0.25]
        assert table.y.tolist() == [1.5, 2.5, 3.5]
        assert [part.tolist() for part in table.splits[0]] == [[0, 2], [1]]
        return
    header = "Gene Description,Gene Accession Number,"
    genes = "g,G1_at,5,A,6,P,7,A\ng,G2_at,1,A,2,P,3,A\n"
    members = {
        "actual.csv": b"patient,cancer\n1,ALL\n2,AML\n34,AML\n39,ALL\n",
        "data_set_ALL_AML_train.csv": f"{header}2,call,34,call,1,call\n{genes}".encode(),
        "data_set_ALL_AML_independent.csv": f"{header}39,call\ng,G1_at,-8,A\ng,G2_at,9,A\n".encode(),
    }
    unpacked(folder, members)
    table = load("leukemia", tmp_path)
    assert table.names == ("G1_at", "G2_at")
    assert table.x.tolist() == [[5, 1], [6, 2], [7, 3], [-8, 9]]
    assert table.y.tolist() == [1, 1, 0, 0]
    assert table.classes == ("ALL", "AML")
    assert [part.tolist() for part in table.splits[0]] == [[0, 1, 2], [3]]
    unpacked(folder, {"actual.csv": b"patient,cancer\n1,ALL\n2,AML\n34,none\n39,ALL\n"})
    refused(lambda: load("leukemia", tmp_path), "data_set_ALL_AML_train.csv", "patient 34 has no diagnosis")
    unpacked(folder, {**members, "data_set_ALL_AML_independent.csv": f"{header}39,call\ng,G2_at,9,A\n".encode()})
    refused(lambda: load("leukemia", tmp_path), "different genes")
    unpacked(folder, {"data_set_ALL_AML_train.csv": b"a,b\n1,2\n"})
    refused(lambda: load("leukemia", tmp_path), "data_set_ALL_AML_train.csv", "intact copy")
