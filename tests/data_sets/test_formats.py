"""Each format on small files made here: read right, and refused with one line when damaged."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from data_files import bytes_of, idx, mnist, old_pickle, picture, refused, tar, unpacked, zipped
from r2d2net.data import image_folder, load, retinopathy_folder

LABELS = [3, 0, 9, 9]


# ---- IDX


@pytest.mark.parametrize(("folder", "suffix"), [("mnist", ".gz"), ("MNIST/raw", "")])
def test_mnist(tmp_path: Path, folder: str, suffix: str) -> None:
    x, y = mnist(tmp_path / folder, suffix=suffix)
    for split in ("train", "test"):
        data = load("mnist", tmp_path, split)
        assert torch.equal(data.images[:, 0], torch.from_numpy(x))
        assert torch.equal(data.labels, torch.from_numpy(y.astype(np.int64)))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "damaged"),
        (b"\x1f\x8b not gzip at all", "damaged"),
        (gzip.compress(idx(bytes_of(6, 28, 28)))[:-900], "damaged"),
        (gzip.compress(idx(bytes_of(6, 28, 28))[:-1]), "4703 values where 6x28x28 are promised"),
        (gzip.compress(idx(bytes_of(6, 28, 28)) + b"x"), "4705 values"),
        (gzip.compress(idx(bytes_of(6))), "0x00000801"),
        (b"<html>not found</html>", "damaged"),
        (gzip.compress(idx(bytes_of(5, 28, 28))), "6 labels for the 5 images"),
    ],
    ids=["empty", "not-gzip", "cut", "too-few", "too-many", "labels-for-images", "html", "other-count"],
)
def test_damaged_idx(tmp_path: Path, content: bytes, word: str) -> None:
    mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(content)
    refused(lambda: load("mnist", tmp_path), str(tmp_path / "mnist"), word, "put an intact copy in its place")


def test_labels_outside_the_classes(tmp_path: Path) -> None:
    mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.full(6, 11, np.uint8))))
    refused(lambda: load("mnist", tmp_path), "train-labels", "label 11")


# ---- CIFAR


def cifar10_members(version: str) -> tuple[dict[str, bytes], np.ndarray]:
    """Four images a batch, the first batch's labels being LABELS."""
    members, train = {}, []
    for k, batch in enumerate(
        ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
    ):
        x = bytes_of(4, 3072, seed=k)
        if batch != "test_batch":
            train.append(x)
        if version == "binary":
            records = np.concatenate([np.array(LABELS, np.uint8)[:, None], x], 1)
            members[f"cifar-10-batches-bin/{batch}.bin"] = records.tobytes()
        else:
            content = {"data": x, "labels": LABELS, "batch_label": batch, "filenames": ["a.png"]}
            members[f"cifar-10-batches-py/{batch}"] = old_pickle(content) if k % 2 else pickle.dumps(content)
    return members, np.concatenate(train)


@pytest.mark.parametrize("version", ["binary", "python"])
@pytest.mark.parametrize("packed", [True, False])
def test_cifar10(tmp_path: Path, version: str, packed: bool) -> None:
    members, train = cifar10_members(version)
    (tmp_path / "cifar10").mkdir()
    if packed:
        tar(tmp_path / "cifar10" / f"cifar-10-{version}.tar.gz", members)
    else:
        unpacked(tmp_path, members)  # torchvision's place: the root itself
    data = load("cifar10", tmp_path)
    assert torch.equal(data.images, torch.from_numpy(train.reshape(-1, 3, 32, 32)))
    assert data.labels.tolist() == LABELS * 5
    assert len(load("cifar10", tmp_path, "test")) == 4


@pytest.mark.parametrize("version", ["binary", "python"])
def test_cifar100_has_fine_labels_and_names(tmp_path: Path, version: str) -> None:
    x = bytes_of(4, 3072)
    names = [f"thing_{k}" for k in range(100)]
    fine = [99, 0, 50, 7]
    if version == "binary":
        records = np.concatenate([np.array([[1], [2], [3], [4]], np.uint8), np.array(fine, np.uint8)[:, None], x], 1)
        members = {f"cifar-100-binary/{part}.bin": records.tobytes() for part in ("train", "test")}
        members["cifar-100-binary/fine_label_names.txt"] = "\n".join(names).encode()
    else:
        batch = old_pickle({"data": x, "fine_labels": fine, "coarse_labels": [0, 1, 2, 3]})
        members = {f"cifar-100-python/{part}": batch for part in ("train", "test")}
        members["cifar-100-python/meta"] = old_pickle({"fine_label_names": names})
    (tmp_path / "cifar100").mkdir()
    tar(tmp_path / "cifar100" / f"cifar-100-{version}.tar.gz", members)
    data = load("cifar100", tmp_path)
    assert torch.equal(data.images, torch.from_numpy(x.reshape(-1, 3, 32, 32)))
    assert data.labels.tolist() == fine
    assert data.classes == tuple(names)


@pytest.mark.parametrize(
    ("file", "content", "word"),
    [
        ("cifar-10-batches-bin/data_batch_3.bin", bytes(3073 * 4 - 1), "records have 3073"),
        ("cifar-10-batches-bin/data_batch_3.bin", b"", "records have 3073"),
        ("cifar-10-batches-bin/data_batch_3.bin", bytes([77]) + bytes(3072), "labels up to 77"),
        ("cifar-10-batches-py/data_batch_3", b"", "damaged"),
        ("cifar-10-batches-py/data_batch_3", pickle.dumps({"data": bytes_of(4, 3072)}), "'labels'"),
        ("cifar-10-batches-py/data_batch_3", pickle.dumps({"data": bytes_of(4, 9), "labels": LABELS}), "(4, 9)"),
        ("cifar-10-batches-py/data_batch_3", pickle.dumps([1]), "damaged"),
        ("cifar-10-batches-py/data_batch_3", pickle.dumps({"data": bytes_of(4, 3072)})[:-500], "damaged"),
    ],
)
def test_damaged_cifar(tmp_path: Path, file: str, content: bytes, word: str) -> None:
    members, _ = cifar10_members("binary" if "bin" in file else "python")
    unpacked(tmp_path, members | {file: content})
    refused(lambda: load("cifar10", tmp_path), str(tmp_path), word, "intact copy")


def test_cifar_with_a_batch_missing(tmp_path: Path) -> None:
    members, _ = cifar10_members("binary")
    del members["cifar-10-batches-bin/data_batch_4.bin"]
    (tmp_path / "cifar10").mkdir()
    tar(tmp_path / "cifar10" / "cifar-10-binary.tar.gz", members)
    refused(lambda: load("cifar10", tmp_path), "data_batch_4.bin is missing")


# ---- SVHN


def test_svhn_writes_zero_as_ten(tmp_path: Path) -> None:
    x = bytes_of(32, 32, 3, 5)
    (tmp_path / "svhn").mkdir()
    savemat(tmp_path / "svhn" / "train_32x32.mat", {"X": x, "y": np.array([[10], [1], [9], [10], [2]], np.uint8)})
    data = load("svhn", tmp_path)
    assert data.labels.tolist() == [0, 1, 9, 0, 2]
    assert torch.equal(data.images[3], torch.from_numpy(x[:, :, :, 3].transpose(2, 0, 1).copy()))


def test_damaged_mat(tmp_path: Path) -> None:
    (tmp_path / "svhn").mkdir()
    path = tmp_path / "svhn" / "train_32x32.mat"
    savemat(path, {"X": bytes_of(32, 32, 3, 5), "y": np.ones((5, 1), np.uint8)}, do_compression=True)
    whole = path.read_bytes()
    for content in (b"", b"nonsense" * 40, whole[: len(whole) // 2], whole[:-3]):
        path.write_bytes(content)
        refused(lambda: load("svhn", tmp_path), str(path), "intact copy")
    savemat(path, {"X": bytes_of(32, 32, 3, 5), "y": np.ones((4, 1), np.uint8)})
    refused(lambda: load("svhn", tmp_path), "4 labels")
    savemat(path, {"X": bytes_of(32, 32, 3, 5)})
    refused(lambda: load("svhn", tmp_path), str(path))


# ---- pictures


def test_image_folder_and_zip(tmp_path: Path) -> None:
    members = {
        "dog/b.png": picture(bytes_of(4, 4, 3, seed=1)),
        "cat/a.jpg": picture(np.full((4, 4, 3), 90, np.uint8), "jpeg"),
        "dog/deep/a.png": picture(bytes_of(4, 4, seed=2)),
        "cat/.hidden.png": b"not a picture",
        "cat/notes.txt": b"nor this",
    }
    unpacked(tmp_path / "folder", members)
    zipped(tmp_path / "set.zip", members)
    for path in (tmp_path / "folder", tmp_path / "set.zip"):
        data = image_folder(path)
        assert data.classes == ("cat", "dog")
        assert data.labels.tolist() == [0, 1, 1]
        assert torch.equal(data.images[1], torch.from_numpy(bytes_of(4, 4, 3, seed=1).transpose(2, 0, 1).copy()))
        assert image_folder(path, size=9, channels=1).images.shape == (3, 1, 9, 9)


def test_pictures_are_upright(tmp_path: Path) -> None:
    tall = Image.fromarray(bytes_of(8, 4, 3))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    (tmp_path / "a").mkdir()
    tall.save(tmp_path / "a" / "x.png", exif=exif)
    assert image_folder(tmp_path).images.shape == (1, 3, 4, 8)


def test_refused_folders(tmp_path: Path) -> None:
    refused(lambda: image_folder(tmp_path / "none"), "does not exist")
    refused(lambda: image_folder(tmp_path), "no pictures")
    unpacked(tmp_path / "f", {"a/1.png": picture(bytes_of(4, 4)), "a/2.png": picture(bytes_of(5, 5))})
    refused(lambda: image_folder(tmp_path / "f"), "4x4 to 5x5", "give size")
    whole = picture(bytes_of(40, 40, 3))
    for bad in (b"", b"no picture", whole[:200], whole[: len(whole) // 2]):
        unpacked(tmp_path / "f", {"a/1.png": bad})
        refused(lambda: image_folder(tmp_path / "f", size=4), "1.png", "intact copy")
    (tmp_path / "bad.zip").write_bytes(b"PK not a zip")
    refused(lambda: image_folder(tmp_path / "bad.zip"), "bad.zip is not a zip archive")


def test_omniglot(tmp_path: Path) -> None:
    glyph = (bytes_of(105, 105) > 127).astype(bool)
    names = ["Greek/character01/1_01.png", "Greek/character02/2_01.png", "Latin/character01/3_01.png"]
    members = {f"images_background/{name}": picture(glyph) for name in names}
    (tmp_path / "omniglot").mkdir()
    zipped(tmp_path / "omniglot" / "images_background.zip", members)
    data = load("omniglot", tmp_path, "train")
    assert data.classes == ("Greek/character01", "Greek/character02", "Latin/character01")
    assert torch.equal(data.images[2, 0], torch.from_numpy(glyph.astype(np.uint8) * 255))


@pytest.mark.parametrize("kind", ["zip", "folder"])
def test_tiny_imagenet(tmp_path: Path, kind: str) -> None:
    x = np.full((64, 64, 3), 120, np.uint8)
    members = {
        "tiny-imagenet-200/wnids.txt": b"n02\nn01\n",
        "tiny-imagenet-200/val/val_annotations.txt": b"val_0.JPEG\tn02\t0\t0\t1\t1\nval_1.JPEG\tn01\t0\t0\t1\t1\n",
        "tiny-imagenet-200/val/images/val_0.JPEG": picture(x, "jpeg"),
        "tiny-imagenet-200/val/images/val_1.JPEG": picture(x[:, :, 0], "jpeg"),
        "tiny-imagenet-200/train/n01/images/n01_0.JPEG": picture(x, "jpeg"),
        "tiny-imagenet-200/train/n02/images/n02_0.JPEG": picture(x, "jpeg"),
        "tiny-imagenet-200/train/n02/images/n02_1.JPEG": picture(x, "jpeg"),
    }
    folder = tmp_path / "tiny_imagenet"
    folder.mkdir()
    zipped(folder / "tiny-imagenet-200.zip", members) if kind == "zip" else unpacked(folder, members)
    assert load("tiny-imagenet", tmp_path, "train").labels.tolist() == [0, 1, 1]
    validation = load("tiny-imagenet", tmp_path, "val")
    assert validation.labels.tolist() == [1, 0]
    assert validation.classes == ("n01", "n02")
    assert validation.images.shape == (2, 3, 64, 64)
    if kind == "folder":
        (folder / "tiny-imagenet-200" / "wnids.txt").write_text("n01\n")
        refused(lambda: load("tiny-imagenet", tmp_path, "val"), "n02 is not in wnids.txt")


# ---- diabetic retinopathy


@pytest.mark.parametrize(
    ("folder", "csv", "header"),
    [("train", "trainLabels.csv", "image,level"), ("train_images", "train.csv", "id_code,diagnosis")],
)
def test_retinopathy_folder(tmp_path: Path, folder: str, csv: str, header: str) -> None:
    place = tmp_path / "diabetic_retinopathy"
    members = {f"{folder}/{k}_left.jpeg": picture(np.full((90, 80, 3), 30 * k, np.uint8), "jpeg") for k in range(5)}
    unpacked(place, members)
    (place / csv).write_text(header + "\n" + "".join(f"{k}_left,{k}\n" for k in (4, 2, 0)))
    data = load("diabetic-retinopathy", tmp_path)
    assert data.labels.tolist() == [0, 2, 4]
    assert data.images.shape == (3, 3, 64, 64)
    assert data.images[:, 0, 30, 30].tolist() == pytest.approx([0, 60, 120], abs=2)
    pictures, grades = place / folder, place / csv
    assert retinopathy_folder(pictures, grades, size=32).images.shape == (3, 3, 32, 32)
    grades.write_text(header + "\n1_left,5\n")
    refused(lambda: retinopathy_folder(pictures, grades), csv, "grade 5")
    grades.write_text(header + "\n9_left,1\n")
    refused(lambda: retinopathy_folder(pictures, grades), "1 pictures missing, such as 9_left")
    grades.write_text("a,b\n1,2\n")
    refused(lambda: retinopathy_folder(pictures, grades), csv, "columns")
    grades.write_bytes(b"\xff\xfe\x00")
    refused(lambda: retinopathy_folder(pictures, grades), csv)


def test_numbers_as_ids_of_pictures(tmp_path: Path) -> None:
    unpacked(tmp_path / "pictures", {f"{k:03}.png": picture(np.full((4, 4, 3), 9 * k, np.uint8)) for k in range(3)})
    (tmp_path / "grades.csv").write_text("image,level\n002,1\n000,4\n")
    data = retinopathy_folder(tmp_path / "pictures", tmp_path / "grades.csv", size=4)
    assert data.labels.tolist() == [4, 1]
    assert data.images[:, 0, 0, 0].tolist() == [0, 18]


def test_pictures_of_16_bits(tmp_path: Path) -> None:
    values = np.array([[0, 255], [32_896, 65_535]], np.uint16)
    unpacked(tmp_path, {"a/deep.png": picture(values)})
    for channels in (1, 3):
        assert image_folder(tmp_path, channels=channels).images[0, 0].tolist() == [[0, 1], [128, 255]]
    unpacked(tmp_path, {"a/deep.tiff": picture(values.astype(np.float32), "tiff")})
    refused(lambda: image_folder(tmp_path), "deep.tiff", "floating-point")
    unpacked(tmp_path, {"a/deep.tiff": picture(values.astype(np.int32) + 9, "tiff")})
    refused(lambda: image_folder(tmp_path), "deep.tiff", "pixels run from 9 to 65544")
