"""Tables of the regression benchmarks: UCI sets with the splits of the BNN literature, and variable-selection sets."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from r2d2net.data.formats.members import last_part, read_members
from r2d2net.data.formats.npz import open_npz
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.table import Split, Table, read_table
from r2d2net.errors import DataError

SPLITS = 20


def read_uci(path: str | Path, names: Sequence[str] | None = None) -> Table:
    """A folder or zip with `data.txt`, and `index_features`, `index_target`, `index_train_K`, `index_test_K` if there.

    Args:
        path: The folder or zip.
        names: The names of the inputs; by default x0, x1, ... and as many as `index_features.txt` lists, or all
            columns but the last.

    Without index files the first column after the inputs is the target, and the splits are those that the files would
    hold: they were drawn by numpy's legacy generator from seed 1, 90% for training.
    """
    path, kind = Path(path), "a UCI table"
    with reading(path, kind):
        found = {last_part(name): text for name, text in read_members(path, lambda n: n.endswith(".txt"))}
        if "data.txt" not in found:
            raise damaged(path, kind, "data.txt is missing")
        data = np.loadtxt(io.BytesIO(found["data.txt"]), ndmin=2)
        features = _indices(found, "index_features.txt", np.arange(data.shape[1] - 1 if names is None else len(names)))
        names = tuple(f"x{k}" for k in features) if names is None else tuple(names)
        target = int(_indices(found, "index_target.txt", np.array([len(names)]))[0])
        if len(features) != len(names):
            raise damaged(path, kind, f"{len(features)} inputs where {len(names)} are expected")
        drawn = "index_train_0.txt" not in found
        splits = published_splits(len(data)) if drawn else _split_files(found)
        return Table(_float(data[:, features]), _float(data[:, target]), names, splits)


def published_splits(n: int) -> tuple[Split, ...]:
    """The 20 train/test splits of n rows that the BNN literature reports on."""
    generator = np.random.RandomState(1)  # their generator, to the bit
    orders = [generator.choice(range(n), n, replace=False) for _ in range(SPLITS)]
    end = round(n * 0.9)
    return tuple((torch.from_numpy(order[:end]), torch.from_numpy(order[end:])) for order in orders)


def read_diabetes(path: Path) -> Table:
    """442 patients, 10 inputs, progression of the disease after a year."""
    with open_npz(path, "the diabetes .npz") as content:
        names = tuple(str(name) for name in content["feature_names"])
        return Table(_float(content["X"]), _float(content["y"]), names)


def sklearn_diabetes() -> Table:
    """The same 442 patients from scikit-learn, which carries them."""
    from sklearn.datasets import load_diabetes

    content = load_diabetes(scaled=False)
    return Table(_float(content.data), _float(content.target), tuple(content.feature_names))


def read_leukemia(path: Path) -> Table:
    """Golub's 72 patients, 7129 genes, ALL or AML; the published 38 train and 34 test rows are split 0."""
    with open_npz(path, "the leukemia .npz") as content:
        x = np.concatenate([content["X_train"], content["X_test"]])
        y = np.concatenate([content["y_train"], content["y_test"]]).astype(np.int64)
        rows = torch.arange(len(y)).tensor_split([len(content["y_train"])])
        names = tuple(f"gene{k}" for k in range(x.shape[1]))
        return Table(_float(x), torch.from_numpy(y), names, ((rows[0], rows[1]),), ("ALL", "AML"))


def read_prostate(path: Path) -> Table:
    """97 patients, 8 inputs, log PSA; the column ``train`` of the textbook (67 rows) is split 0."""
    with reading(path, "the prostate CSV"):
        table = read_table(path, "lpsa")
        *names, last = table.names
        if last != "train":
            raise damaged(path, "the prostate CSV", "its last column is not train")
        train = table.x[:, -1] == 1
        split = (torch.nonzero(train)[:, 0], torch.nonzero(~train)[:, 0])
        return Table(table.x[:, :-1].contiguous(), table.y, tuple(names), (split,))


def _indices(found: Mapping[str, bytes], name: str, default: np.ndarray) -> np.ndarray:
    return np.loadtxt(io.BytesIO(found[name]), ndmin=1).astype(np.int64) if name in found else default


def _split_files(found: Mapping[str, bytes]) -> tuple[Split, ...]:
    count = sum(name.startswith("index_train_") for name in found)
    pairs = []
    for k in range(count):
        train, test = (np.loadtxt(io.BytesIO(found[f"index_{part}_{k}.txt"]), ndmin=1) for part in ("train", "test"))
        pairs.append((torch.from_numpy(train.astype(np.int64)), torch.from_numpy(test.astype(np.int64))))
    return tuple(pairs)


def _float(array: np.ndarray) -> Tensor:
    with np.errstate(over="ignore"):  # 1e300 is not finite in float32
        values = array.astype(np.float32)
    if not np.isfinite(values).all():
        raise DataError("it holds values that are not finite")
    return torch.from_numpy(values)
