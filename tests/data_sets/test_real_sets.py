"""Every real set under R2D2NET_DATA has the documented counts, shapes and label histograms."""

from pathlib import Path

import pytest
import torch

from r2d2net.data import Preprocess, load
from r2d2net.data.entry import Entry
from r2d2net.data.formats.uci_table import published_splits
from r2d2net.data.loading import known
from r2d2net.data.verifying import verify

MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
SVHN_TEST = [1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595]
IMAGES = {
    ("mnist", "train"): ((60_000, 1, 28, 28), MNIST),
    ("mnist", "test"): ((10_000, 1, 28, 28), MNIST_TEST),
    ("fashion-mnist", "train"): ((60_000, 1, 28, 28), [6000] * 10),
    ("fashion-mnist", "test"): ((10_000, 1, 28, 28), [1000] * 10),
    ("cifar10", "train"): ((50_000, 3, 32, 32), [5000] * 10),
    ("cifar10", "test"): ((10_000, 3, 32, 32), [1000] * 10),
    ("svhn", "train"): ((5_000, 3, 32, 32), [500] * 10),
    ("svhn", "test"): ((26_032, 3, 32, 32), SVHN_TEST),
    ("omniglot", "evaluation"): ((13_180, 1, 105, 105), [20] * 659),
    ("tiny-imagenet", "val"): ((3_000, 3, 64, 64), [15] * 200),
    ("diabetic-retinopathy", None): ((500, 3, 64, 64), [100] * 5),
}
TABLES = {
    "boston": (506, 13, 20, 455),
    "energy": (768, 8, 20, 691),
    "kin8nm": (8_192, 8, 20, 7_373),
    "naval": (11_934, 16, 20, 10_741),
    "wine": (1_599, 11, 20, 1_439),
    "yacht": (308, 6, 20, 277),
    "diabetes": (442, 10, 0, 0),
    "leukemia": (72, 7_129, 1, 38),
    "prostate": (97, 8, 1, 67),
}


def copy_folders(entry: Entry) -> list[str]:
    return [str(Path(file).parent) for copy in entry.copies for files in copy.files.values() for file in files]


def loaded(name: str, split: str | None, root: Path) -> object:
    entry = known(name, root)
    if not any((root / folder).is_dir() for folder in [*entry.folders, *copy_folders(entry)]):
        pytest.skip(f"{name} is not under R2D2NET_DATA")
    return load(name, root, split)


@pytest.mark.parametrize(("name", "split"), IMAGES)
def test_images(real: Path, name: str, split: str | None) -> None:
    shape, histogram = IMAGES[name, split]
    data = loaded(name, split, real)
    assert data.images.dtype == torch.uint8
    assert tuple(data.images.shape) == shape
    assert list(data.counts().values()) == histogram


@pytest.mark.slow
def test_omniglot_background(real: Path) -> None:
    data = loaded("omniglot", "train", real)
    assert tuple(data.images.shape) == (19_280, 1, 105, 105)
    assert list(data.counts().values()) == [20] * 964


def test_pixels_are_where_they_belong(real: Path) -> None:
    """Published channel means; a garbled tile order would keep them, so neighbouring pixels must agree too."""
    mnist = Preprocess.fitted(loaded("mnist", "train", real).images)
    assert mnist.mean == pytest.approx([0.1307], abs=1e-4)
    assert mnist.std == pytest.approx([0.3081], abs=1e-4)
    cifar = loaded("cifar10", "train", real).images
    assert Preprocess.fitted(cifar).mean == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)
    assert Preprocess.fitted(cifar).std == pytest.approx([0.2470, 0.2435, 0.2616], abs=1e-4)
    some = cifar[:500].float()
    assert (some[..., 1:] - some[..., :-1]).abs().mean() < 20
    assert (some[..., 1:, :] - some[..., :-1, :]).abs().mean() < 20


@pytest.mark.parametrize("name", TABLES)
def test_tables(real: Path, name: str) -> None:
    rows, inputs, splits, train = TABLES[name]
    data = loaded(name, None, real)
    assert data.x.shape == (rows, inputs)
    assert data.y.shape == (rows,)
    assert bool(torch.isfinite(data.x).all())
    assert len(data.splits) == splits
    for k in range(splits):
        both = torch.cat(data.splits[k])
        assert torch.equal(both.sort().values, torch.arange(rows))
        (x, y), (x_test, y_test) = data.split(k)
        assert len(x) == len(y) == train
        assert len(x_test) == len(y_test) == rows - train


@pytest.mark.parametrize("name", ["boston", "energy", "kin8nm", "naval", "wine", "yacht"])
def test_split_files_are_those_that_the_rule_draws(real: Path, name: str) -> None:
    data = loaded(name, None, real)
    for (train, test), (drawn_train, drawn_test) in zip(data.splits, published_splits(len(data)), strict=True):
        assert torch.equal(train, drawn_train)
        assert torch.equal(test, drawn_test)


def test_diabetes_is_the_one_that_scikit_learn_carries(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = loaded("diabetes", None, real)
    monkeypatch.delenv("R2D2NET_DATA")
    bundled = load("diabetes")
    assert torch.equal(data.x, bundled.x)
    assert torch.equal(data.y, bundled.y)
    assert data.names == bundled.names


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "diabetic-retinopathy", "yacht", "leukemia", "prostate"])
def test_verify_finds_nothing_wrong(real: Path, name: str) -> None:
    findings = list(verify(known(name, real), real))
    assert findings
    assert [finding for finding in findings if finding.fault] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifar10", "svhn", "omniglot", "tiny-imagenet"])
def test_verify_finds_nothing_wrong_in_large_sets(real: Path, name: str) -> None:
    findings = list(verify(known(name, real), real))
    assert findings
    assert [finding for finding in findings if finding.fault] == []
