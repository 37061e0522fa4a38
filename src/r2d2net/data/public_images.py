"""The public image sets: their files as published, counts, addresses and checksums.

Checksums are the published ones, or SHA-256 of files that match them.
"""

from __future__ import annotations

from pathlib import Path

from r2d2net.data.entry import ALL, Entry, Remote, Source
from r2d2net.data.formats.cifar import CIFAR10, CIFAR100, Layout, read_cifar_binary, read_cifar_python
from r2d2net.data.formats.idx import read_idx_pair
from r2d2net.data.formats.image_folder import read_omniglot, read_tiny_imagenet
from r2d2net.data.formats.retinopathy import retinopathy_folder
from r2d2net.data.formats.svhn import DIGITS, read_svhn
from r2d2net.data.image_set import ImageSet

CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
TORONTO = "https://www.cs.toronto.edu/~kriz"
IDX = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def _idx(name: str, folders: tuple[str, ...], classes: tuple[str, ...], base: str, sha256: tuple[str, ...]) -> Entry:
    def source(suffix: str) -> Source:
        files = {split: tuple(f"{file}{suffix}" for file in pair) for split, pair in IDX.items()}

        def read(folder: Path, split: str) -> ImageSet:
            images, labels = files[split]
            return read_idx_pair(folder / images, folder / labels, classes)

        return Source(files, read, {"train": 60_000, "test": 10_000}, quick=True)

    zipped = [f"{file}.gz" for pair in IDX.values() for file in pair]
    remotes = tuple(Remote(f, f"{base}/{f}", f"sha256:{digest}") for f, digest in zip(zipped, sha256, strict=True))
    return Entry(name, folders, (source(".gz"), source("")), ("train", "test"), (1, 28, 28), 10, remotes)


def _cifar(name: str, layout: Layout, binary: str, python: str, folders: tuple[str, str], md5: str) -> Entry:
    counts = {"train": 50_000, "test": 10_000}

    def source(file: str, reader: str) -> Source:
        function = read_cifar_binary if reader == "binary" else read_cifar_python

        def read(folder: Path, split: str) -> ImageSet:
            return function(folder / file, split, layout)

        return Source({"train": (file,), "test": (file,)}, read, counts)

    sources = [source(f"{binary}.tar.gz", "binary"), source(folders[0], "binary")]
    sources += [source(f"{python}.tar.gz", "python"), source(folders[1], "python")]
    remote = Remote(f"{binary}.tar.gz", f"{TORONTO}/{binary}.tar.gz", f"md5:{md5}")
    return Entry(name, (name, "."), tuple(sources), ("train", "test"), (3, 32, 32), layout.classes, (remote,))


def _svhn() -> Entry:
    mats = {split: (f"{split}_32x32.mat",) for split in ("train", "test", "extra")}
    md5 = {
        "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test": "eb5a983be6a315427106f1b164d9cef3",
    }  # extra, 1.3 GB, is read when it is there but not fetched
    counts = {"train": 73_257, "test": 26_032, "extra": 531_131}
    published = Source(mats, lambda folder, split: read_svhn(folder / mats[split][0]), counts)
    base = "https://ufldl.stanford.edu/housenumbers"
    remotes = tuple(Remote(mats[k][0], f"{base}/{mats[k][0]}", f"md5:{digest}") for k, digest in md5.items())
    splits = ("train", "test", "extra")
    note = "non-commercial use"
    return Entry("svhn", ("svhn", "."), (published,), splits, (3, 32, 32), 10, remotes, note=note)


def _omniglot() -> Entry:
    def source(suffix: str) -> Source:
        files = {split: (f"images_{split}{suffix}",) for split in ("background", "evaluation")}
        counts = {"background": 19_280, "evaluation": 13_180}
        return Source(files, lambda folder, split: read_omniglot(folder / files[split][0]), counts)

    base = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
    remotes = (
        Remote("images_background.zip", f"{base}/images_background.zip", "md5:68d2efa1b9178cc56df9314c21c6e718"),
        Remote("images_evaluation.zip", f"{base}/images_evaluation.zip", "md5:6b91aef0f799c5bb55b94e3f2daec811"),
    )
    return Entry(
        "omniglot", ("omniglot", "omniglot-py", "."), (source(".zip"), source("")), ("background", "evaluation"),
        (1, 105, 105), 0, remotes, {"train": "background", "test": "evaluation"},
        "964 and 659 characters; black on white",
    )  # fmt: skip


def _tiny_imagenet() -> Entry:
    def source(file: str) -> Source:
        files = {"train": (file,), "val": (file,)}
        counts = {"train": 100_000, "val": 10_000}
        return Source(files, lambda folder, split: read_tiny_imagenet(folder / file, split), counts)

    sources = (source("tiny-imagenet-200.zip"), source("tiny-imagenet-200"))
    url = "https://cs231n.stanford.edu/tiny-imagenet-200.zip"
    remote = Remote("tiny-imagenet-200.zip", url, "md5:90528d7ca1a48142e341f4ef8d21d0de")
    return Entry(
        "tiny-imagenet", ("tiny_imagenet", "."), sources, ("train", "val"), (3, 64, 64), 200, (remote,),
        {"test": "val", "validation": "val"}, "the labels of its test images are not public",
    )  # fmt: skip


def _retinopathy() -> Entry:
    def folder_source(pictures: str, grades: str) -> Source:
        def read(folder: Path, split: str) -> ImageSet:
            return retinopathy_folder(folder / pictures, folder / grades)

        return Source({ALL: (pictures, grades)}, read, {})

    sources = (folder_source("train", "trainLabels.csv"), folder_source("train_images", "train.csv"))
    note = "Kaggle asks for an account; folders are read at 64 x 64; research use"
    folders = ("diabetic_retinopathy",)
    return Entry("diabetic-retinopathy", folders, sources, (ALL,), (3, 64, 64), 5, note=note)


_ENTRIES = (
    _idx(
        "mnist", ("mnist", "MNIST/raw"), DIGITS, "https://ossci-datasets.s3.amazonaws.com/mnist",
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    _idx(
        "fashion-mnist", ("fashion_mnist", "FashionMNIST/raw"), CLOTHES,
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    _cifar(
        "cifar10", CIFAR10, "cifar-10-binary", "cifar-10-python", ("cifar-10-batches-bin", "cifar-10-batches-py"),
        "c32a1d4ab5d03f1284b67883e8d87530",
    ),
    _cifar(
        "cifar100", CIFAR100, "cifar-100-binary", "cifar-100-python", ("cifar-100-binary", "cifar-100-python"),
        "03b5dce01913d631647c71ecec9e9cb8",
    ),
    _svhn(),
    _omniglot(),
    _tiny_imagenet(),
    _retinopathy(),
)  # fmt: skip
IMAGES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
