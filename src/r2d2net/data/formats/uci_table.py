"""The UCI regressions as the literature on Bayesian networks has them: data.txt, index files, 20 train/test splits."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from r2d2net.data.formats.members import last_part, read_members
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.table import Split, Table, finite_float32

SPLITS = 20


def read_uci(path: str | Path, names: Sequence[str] | None = None) -> Table:
    """Read a folder or zip with `data.txt` and, where they exist, its index files.

    `index_features.txt` lists the columns that are inputs, `index_target.txt` the column to predict,
    `index_train_K.txt` and `index_test_K.txt` the rows of split K. Without them the first column after the inputs is
    the target, and the splits are those that the files would hold: they were drawn by numpy's legacy generator from
    seed 1, 90% for training.

    Args:
        path: The folder or zip.
        names: The names of the inputs; by default x0, x1, ... for the columns that `index_features.txt` lists, or all
            columns but the last.

    Returns:
        The table with its splits.

    Raises:
        DataError: If the files are damaged or do not fit together.
    """
    path, kind = Path(path), "a UCI table"
    with reading(path, kind):
        texts = {last_part(name): text for name, text in read_members(path, lambda name: name.endswith(".txt"))}
        if "data.txt" not in texts:
            raise damaged(path, kind, "data.txt is missing")
        data = np.loadtxt(io.BytesIO(texts["data.txt"]), ndmin=2)
        features = _indices(texts, "index_features.txt", np.arange(data.shape[1] - 1 if names is None else len(names)))
        names = tuple(f"x{k}" for k in features) if names is None else tuple(names)
        target = int(_indices(texts, "index_target.txt", np.array([len(names)]))[0])
        if len(features) != len(names):
            raise damaged(path, kind, f"{len(features)} inputs where {len(names)} are expected")
        splits = _split_files(texts) if "index_train_0.txt" in texts else published_splits(len(data))
        return Table(finite_float32(data[:, features]), finite_float32(data[:, target]), names, splits)


def published_splits(n: int) -> tuple[Split, ...]:
    """Draw the 20 train/test splits of n rows that the literature reports on."""
    generator = np.random.RandomState(1)  # their generator, to the bit
    orders = [generator.choice(range(n), n, replace=False) for _ in range(SPLITS)]
    end = round(n * 0.9)
    return tuple((torch.from_numpy(order[:end]), torch.from_numpy(order[end:])) for order in orders)


def _indices(texts: Mapping[str, bytes], name: str, default: np.ndarray) -> np.ndarray:
    return np.loadtxt(io.BytesIO(texts[name]), ndmin=1).astype(np.int64) if name in texts else default


def _split_files(texts: Mapping[str, bytes]) -> tuple[Split, ...]:
    count = sum(name.startswith("index_train_") for name in texts)
    pairs = []
    for k in range(count):
        train, test = (np.loadtxt(io.BytesIO(texts[f"index_{part}_{k}.txt"]), ndmin=1) for part in ("train", "test"))
        pairs.append((torch.from_numpy(train.astype(np.int64)), torch.from_numpy(test.astype(np.int64))))
    return tuple(pairs)
